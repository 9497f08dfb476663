"""What kubectl needs beside the objects: discovery, OpenAPI without schemas, and tables.

In version 3 of OpenAPI the patch of every kind takes `fieldValidation`, so that kubectl leaves
validation to the server. Tables have a few columns for the kinds of the demo, else name and age.
Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from standins.cluster.kinds import EVENT, JOB, JOBSET, KINDS, NODE, POD, Json, Kind
from standins.cluster.objects import find_condition
from standins.cluster.store import Stored, encode

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_VERSION: Json = {"major": "1", "minor": "34", "gitVersion": "v1.34.4-embedded", "platform": "python"}
_INFO: Json = {"title": "Kubernetes", "version": _VERSION["gitVersion"]}
_VALIDATION = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
_SECONDS = (("d", 86_400), ("h", 3_600), ("m", 60))
_OF_ALL = ("Pod", "Service", "Job", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
"""What `kubectl get all` shows."""


def _describe_resources(kinds: list[Kind]) -> Json:
    resources: list[Json] = []
    for kind in kinds:
        shared = {"singularName": kind.kind.lower(), "namespaced": kind.namespaced, "kind": kind.kind}
        names = {"shortNames": [kind.short_name] if kind.short_name else []}
        names["categories"] = ["all"] if kind.kind in _OF_ALL else []
        resources.append(shared | names | {"name": kind.plural, "verbs": _VERBS})
        if kind.has_status:
            resources.append(shared | {"name": f"{kind.plural}/status", "verbs": ["get", "patch", "update"]})
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": kinds[0].api_version}
    return head | {"resources": resources}


def _describe_patches(prefix: str, kinds: list[Kind]) -> Json:
    operations: Json = {}
    for kind in kinds:
        scope = "namespaces/{namespace}/" if kind.namespaced else ""
        named = {"group": kind.group, "version": kind.api_version.rpartition("/")[2], "kind": kind.kind}
        patch = {"x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": named}
        operations[f"/{prefix}/{scope}{kind.plural}/{{name}}"] = {"patch": patch | {"parameters": [_VALIDATION]}}
    return {"openapi": "3.0.0", "info": _INFO, "paths": operations, "components": {"schemas": {}}}


def _describe_all() -> dict[str, Json]:
    served: dict[str, list[Kind]] = {}
    for kind in KINDS:
        served.setdefault(kind.prefix, []).append(kind)
    documents: dict[str, Json] = {
        "version": _VERSION,
        "api": {"kind": "APIVersions", "versions": ["v1"]},
        "openapi/v3": {"paths": {prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}"} for prefix in served}},
    }
    groups: list[Json] = []
    for prefix, kinds in served.items():
        documents[prefix] = _describe_resources(kinds)
        documents[f"openapi/v3/{prefix}"] = _describe_patches(prefix, kinds)
        if group := kinds[0].group:
            version = {"groupVersion": kinds[0].api_version, "version": prefix.rpartition("/")[2]}
            groups.append({"name": group, "versions": [version], "preferredVersion": version})
            documents[f"apis/{group}"] = {"kind": "APIGroup", "apiVersion": "v1"} | groups[-1]
    documents["apis"] = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    return documents


DOCUMENTS = _describe_all()  # by path without slashes at its ends


def wants_table(accept: str) -> bool:
    """Return whether an Accept header asks for a table, as `kubectl get` does."""
    return "as=Table" in accept


def _at(*path: str) -> Callable[[Json], Any]:
    def read(body: Json) -> Any:
        value: Any = body
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return "" if value is None else value

    return read


def _read_age(body: Json) -> str:
    """Return the age of an object in its largest whole unit: 45s, 12m, 5h, 2d."""
    created = datetime.fromisoformat(body["metadata"]["creationTimestamp"])
    seconds = (datetime.now(UTC) - created).total_seconds()
    larger = (f"{int(seconds // size)}{unit}" for unit, size in _SECONDS if seconds >= 2 * size)
    return next(larger, f"{max(0, int(seconds))}s")


def _of_condition(*types: str, otherwise: str) -> Callable[[Json], Any]:
    return lambda body: (find_condition(body, *types) or {"type": otherwise})["type"]


def _of_pod(body: Json) -> str:
    return "Terminating" if "deletionTimestamp" in body["metadata"] else str(body["status"].get("phase", ""))


def _count_ready(body: Json) -> str:
    statuses = body["status"].get("containerStatuses", [])
    return f"{sum(each.get('ready', False) for each in statuses)}/{len(body['spec']['containers'])}"


def _of_node(body: Json) -> str:
    cordoned = ",SchedulingDisabled" if body.get("spec", {}).get("unschedulable") else ""
    return ("Ready" if find_condition(body, "Ready") else "NotReady") + cordoned


def _name_subject(body: Json) -> str:
    return f"{body['involvedObject']['kind'].lower()}/{body['involvedObject'].get('name', '')}"


_COLUMNS: dict[Kind, dict[str, Callable[[Json], Any]]] = {
    POD: {"Ready": _count_ready, "Status": _of_pod, "Node": _at("spec", "nodeName")},
    NODE: {"Status": _of_node, "Pool": _at("metadata", "labels", "cloud.google.com/gke-nodepool")},
    JOB: {"Status": _of_condition("Complete", "Failed", "Suspended", otherwise="Running")},
    JOBSET: {
        "TerminalState": _at("status", "terminalState"),
        "Restarts": _at("status", "restarts"),
        "Suspended": _at("spec", "suspend"),
    },
    EVENT: {"Type": _at("type"), "Reason": _at("reason"), "Object": _name_subject, "Message": _at("message")},
}


def encode_table(kind: Kind, items: Iterable[Stored], version: str) -> bytes:
    """Return a table with one row for each object; each row carries its object."""
    columns = {"Name": _at("metadata", "name")} | _COLUMNS.get(kind, {}) | {"Age": _read_age}
    rows = [
        {"cells": [str(read(stored.json)) for read in columns.values()], "object": msgspec.Raw(stored.encoded)}
        for stored in items
    ]
    definitions = [
        {"name": name, "type": "string", "format": "", "description": name, "priority": 0} for name in columns
    ]
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": version}}
    return encode(head | {"columnDefinitions": definitions, "rows": rows})
