"""Discovery and OpenAPI documents: what kubectl and client libraries ask for, written from the table of kinds.

The OpenAPI documents hold no schemas. Version 3 says that every kind's patch takes `fieldValidation`, so that
kubectl leaves validation to the server.
"""

from __future__ import annotations

from typing import Any

from local.cluster.errors import path_not_found
from local.cluster.store.kinds import KINDS, Kind

Json = dict[str, Any]

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_VERSION: Json = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.4-embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "python",
}
_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding", ["create"]),
    "eviction": ("policy", "v1", "Eviction", ["create"]),
    "log": ("", "v1", "Pod", ["get"]),
}


def _group_versions() -> dict[str, str]:
    return {kind.group: kind.version for kind in KINDS if kind.group}


def _group(name: str, version: str) -> Json:
    entry = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def _resources(group: str, version: str) -> Json:
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    if not kinds:
        raise path_not_found()
    resources = [entry for kind in kinds for entry in _entries(kind)]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def _entries(kind: Kind) -> list[Json]:
    main: Json = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    entries = [main]
    if kind.has_status:
        entries.append(_subresource(kind, "status", kind.kind, ["get", "patch", "update"]))
    for name in kind.subresources:
        group, version, sub_kind, verbs = _SUBRESOURCE_KINDS[name]
        entry = _subresource(kind, name, sub_kind, verbs)
        if group:
            entry |= {"group": group, "version": version}
        entries.append(entry)
    return entries


def _subresource(kind: Kind, name: str, sub_kind: str, verbs: list[str]) -> Json:
    return {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": sub_kind,
        "verbs": verbs,
    }


def _openapi_paths() -> dict[str, list[Kind]]:
    paths: dict[str, list[Kind]] = {}
    for kind in KINDS:
        path = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
        paths.setdefault(path, []).append(kind)
    return paths


def _openapi_v3(path: str) -> Json:
    kinds = _openapi_paths().get(path)
    if kinds is None:
        raise path_not_found()
    operations: Json = {}
    for kind in kinds:
        scope = "namespaces/{namespace}/" if kind.namespaced else ""
        operations[f"/{path}/{scope}{kind.plural}/{{name}}"] = {
            "patch": {
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": {
                    "group": kind.group,
                    "version": kind.version,
                    "kind": kind.kind,
                },
                "responses": {},
            },
            "parameters": [],
        }
        validation = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        operations[f"/{path}/{scope}{kind.plural}/{{name}}"]["patch"]["parameters"] = [validation]
    info = {"title": "Kubernetes", "version": _VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": operations, "components": {"schemas": {}}}


def document(path: str) -> Json | None:
    """Return the document served at a path, None when the path is not one of discovery.

    Raises:
        ApiError: 404, for a group or version that is not served.
    """
    parts = path.strip("/").split("/")
    fixed: dict[str, Json] = {
        "version": _VERSION,
        "api": {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
        },
        "apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(name, version) for name, version in _group_versions().items()],
        },
        "openapi/v2": {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": _VERSION["gitVersion"]},
            "paths": {},
            "definitions": {},
        },
        "openapi/v3": {"paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}"} for p in _openapi_paths()}},
    }
    key = "/".join(parts)
    if key in fixed:
        return fixed[key]
    if key.startswith("openapi/v3/"):
        return _openapi_v3(key.removeprefix("openapi/v3/"))
    return _group_document(parts)


def _group_document(parts: list[str]) -> Json | None:
    if parts == ["api", "v1"]:
        return _resources("", "v1")
    if parts[0] != "apis" or len(parts) not in {2, 3}:
        return None
    version = _group_versions().get(parts[1])
    if version is None:
        raise path_not_found()
    if len(parts) == 2:  # noqa: PLR2004  /apis/<group>
        return {"kind": "APIGroup", "apiVersion": "v1"} | _group(parts[1], version)
    return _resources(parts[1], parts[2])
