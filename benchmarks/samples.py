"""Pods and workloads of each kind as an API server of GKE sends them: 7-15 KB of JSON each.

What differs between kinds is in `samples.yaml`. Each object is made as bytes with marks for what
differs, because the stand-in sends hundreds of megabytes of them. The pods lead slices of 4x4 chips
on v6e machines, which the provisioner answers with one create.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CLUSTER = "projects/bench-project/locations/us-east5/clusters/bench"
TOPIC = "projects/bench-project/topics/workload-events"
NAMESPACE = "team-a"
SINCE = "2026-11-20T10:00:00Z"  # every time in a sample
NUMBER, _VERSION = "NNNNNNNNN", "VVVVVVVVV"
"""Marks of an object's own number, and of its version; as long as these."""
_OVER = {"type": "Completed", "status": "True", "lastTransitionTime": SINCE, "reason": "AllJobsCompleted"}
Json = dict[str, Any]


class Template:
    """One kind of object, of which any number can be made cheaply."""

    def __init__(self, body: Json) -> None:
        self.labels: dict[str, str] = body["metadata"].get("labels", {})
        """Values may hold the mark; a selector asks for what does not differ."""
        self._text = json.dumps(body, separators=(",", ":"))

    def make(self, number: int, version: int = 1) -> bytes:
        """Return the JSON of object `number` at a version."""
        return self._text.replace(NUMBER, f"{number:09d}").replace(_VERSION, f"{version:09d}").encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One kind: the pods that speak for a slice each, and the workloads that made them."""

    path: str
    """End of the path of the workloads' list; empty where the pods are the workloads themselves."""
    fresh: Template  # pods that the scheduler has not looked at: in the watch, and no demand
    waiting: Template
    running: Template  # workloads; of bare pods the pods again


@cache
def _read() -> Json:
    tables: Json = yaml.safe_load(Path(__file__).with_name("samples.yaml").read_text(encoding="utf-8"))
    spec = tables["pod_spec"]
    for container in (*spec["containers"], *spec["initContainers"]):
        name = container["name"].upper()
        variables = range(container["env"])
        container["env"] = [
            {"name": f"SETTING_{n}_OF_{name}", "value": f"value-{n}-of-a-setting"} for n in variables
        ]
    return tables


@cache
def sample_of(kind: str) -> Sample:
    """Return the sample of a kind; KeyError if `samples.yaml` has none: none is forgotten."""
    row = _read()["kinds"][kind]
    fresh, waiting = (Template(_make_pod(row["pod"], waits=waits)) for waits in (False, True))
    running = Template(_make_workload(row["workload"])) if "workload" in row else fresh
    return Sample(path=row["path"], fresh=fresh, waiting=waiting, running=running)


def completed_jobset() -> Template:
    """Return JobSets that are over."""
    body = _make_workload(_read()["kinds"]["JobSet"]["workload"])
    return Template(body | {"status": body["status"] | {"conditions": [_OVER]}})


def jobset_name(number: int) -> str:
    """Return the name of JobSet `number`."""
    return f"train-{number:09d}"


def jobset_uid(number: int) -> str:
    """Return the UID of JobSet `number`."""
    return f"3c2e9d44-7f10-4b6a-9e21-000{number:09d}"


def _make_pod(metadata: Json, *, waits: bool) -> Json:
    conditions = [_read()["unschedulable"]] if waits else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _fill(metadata, "kube-controller-manager"),
        "spec": _read()["pod_spec"],
        "status": {"phase": "Pending", "conditions": conditions, "qosClass": "Burstable"},
    }


def _make_workload(body: Json) -> Json:
    return body | {"metadata": _fill(body["metadata"], "kubectl-client-side-apply")}


def _fill(metadata: Json, writer: str) -> Json:
    """Return metadata with what all objects have: place, version, times, managed fields."""
    return {
        "namespace": NAMESPACE,
        "resourceVersion": _VERSION,
        "generation": 1,
        "creationTimestamp": SINCE,
        **metadata,
        "managedFields": [_manage(writer, metadata["labels"])],
    }


def _manage(writer: str, labels: dict[str, str]) -> Json:
    """Return the fields of a writer, as many and as large as those of the real one."""
    spec = _read()["pod_spec"]
    containers: Json = {}
    for container in spec["containers"]:
        variables: Json = {".": {}}
        for each in container["env"]:
            key = f'k:{{"name":"{each["name"]}"}}'
            variables[key] = {".": {}, "f:name": {}, "f:value": {}}
        fields: Json = {f"f:{key}": {} for key in container}
        containers[f'k:{{"name":"{container["name"]}"}}'] = {".": {}, **fields, "f:env": variables}
    keys: Json = {".": {}, **{f"f:{key}": {} for key in labels}}
    owned: Json = {"f:labels": keys, "f:annotations": keys}
    pod: Json = {"f:containers": containers, **{f"f:{key}": {} for key in spec}}
    return {
        "manager": writer,
        "operation": "Update",
        "apiVersion": "v1",
        "time": SINCE,
        "fieldsV1": {"f:metadata": owned, "f:spec": pod},
    }
