"""Discovery and OpenAPI documents for kubectl and client libraries, made from the table of kinds.

The OpenAPI documents hold no schemas. In version 3 the patch of every kind takes `fieldValidation`,
so that kubectl leaves validation to the server.
"""

from typing import Any

from standins.cluster.store.kinds import KINDS, Kind

Json = dict[str, Any]

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_VERSION: Json = {"major": "1", "minor": "34", "gitVersion": "v1.34.4-embedded", "platform": "python"}
_INFO: Json = {"title": "Kubernetes", "version": _VERSION["gitVersion"]}
_GROUPS = {kind.group: kind.version for kind in KINDS if kind.group}
_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def _paths() -> dict[str, list[Kind]]:
    paths: dict[str, list[Kind]] = {}
    for kind in KINDS:
        paths.setdefault(f"apis/{kind.api_version}" if kind.group else "api/v1", []).append(kind)
    return paths


def _group(name: str) -> Json:
    entry = {"groupVersion": f"{name}/{_GROUPS[name]}", "version": _GROUPS[name]}
    return {"name": name, "versions": [entry], "preferredVersion": entry}


def _resources(kinds: list[Kind]) -> Json:
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": kinds[0].api_version}
    return head | {"resources": [entry for kind in kinds for entry in _entries(kind)]}


def _entries(kind: Kind) -> list[Json]:
    shared = {"singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind}
    names = {"name": kind.plural, "shortNames": kind.short_names, "categories": kind.categories}
    main = shared | names | {"verbs": _VERBS}
    status = shared | {"name": f"{kind.plural}/status", "verbs": ["get", "patch", "update"]}
    return [main, status] if kind.has_status else [main]


def _openapi_v3(path: str, kinds: list[Kind]) -> Json:
    operations: Json = {}
    for kind in kinds:
        scope = "namespaces/{namespace}/" if kind.namespaced else ""
        named = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        patch = {"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": named}
        operations[f"/{path}/{scope}{kind.plural}/{{name}}"] = {"patch": patch | {"parameters": [_VALIDATION]}}
    return {"openapi": "3.0.0", "info": _INFO, "paths": operations, "components": {"schemas": {}}}


def _documents() -> dict[str, Json]:
    groups = [_group(name) for name in _GROUPS]
    documents: dict[str, Json] = {
        "version": _VERSION,
        "api": {"kind": "APIVersions", "versions": ["v1"]},
        "apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
        "openapi/v2": {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}},
        "openapi/v3": {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in _paths()}},
    }
    for group in groups:
        documents[f"apis/{group['name']}"] = {"kind": "APIGroup", "apiVersion": "v1"} | group
    for served, kinds in _paths().items():
        documents[served] = _resources(kinds)
        documents[f"openapi/v3/{served}"] = _openapi_v3(served, kinds)
    return documents


_DOCUMENTS = _documents()


def document(path: str) -> Json | None:
    """Return the document served at a path, None when the path is not one of discovery."""
    return _DOCUMENTS.get(path.strip("/"))
