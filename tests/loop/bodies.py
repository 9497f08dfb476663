"""The workloads of the catalogue: a manifest of the project, or a small one from a few words.

What lives here: bodies only. What a pod does (how long it runs, whether it fails) is said by the
annotations that the local stack's simulated kubelet reads.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from shared.kinds.table import get_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
POOL = "cloud.google.com/gke-nodepool"
TPU_TYPE, TOPOLOGY = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"
GPU_TYPE = "cloud.google.com/gke-accelerator"
LIFE = "lives.example.com/life"
"""A selector of one's own: it becomes a label of the pool, and no other life's pods select it."""
DOES = "local.tpu-provisioner/"
LONG = "36000"  # virtual seconds: until somebody ends the pods
HOSTS = {"2x2": 1, "2x4": 2, "4x4": 4}
"""Hosts of four chips each that a v6e slice of a topology has."""
EXCLUSIVE = {
    "JobSet": {"alpha.jobset.sigs.k8s.io/exclusive-topology": POOL},
    "LeaderWorkerSet": {"leaderworkerset.sigs.k8s.io/exclusive-topology": POOL},
}
TEMPLATES = {
    "JobSet": "/spec/replicatedJobs/0/template/spec/template",
    "RayCluster": "/spec/workerGroupSpecs/0/template",
    "LeaderWorkerSet": "/spec/leaderWorkerTemplate/workerTemplate",
    "Pod": "",
}
"""Where the template of the pods is, in the words of a JSON patch."""
_BESIDE = ("ConfigMap", "Service", "ServiceAccount")  # what stands beside the workload of a manifest
_QUEUE = "kueue.x-k8s.io/queue-name"


def find_kind(words: Json) -> str:
    """Return the kind of the workload that these words describe."""
    return str(words.get("kind") or read_manifest(words)["kind"])


def read_manifest(words: Json) -> Json:
    """Return the first workload of a file, or the one that is named."""
    documents = yaml.safe_load_all((ROOT / words["file"]).read_text())
    wanted = words.get("name")
    return next(
        json.loads(json.dumps(each))  # writes out what aliases repeat
        for document in documents
        for each in document.get("items", [document])
        if each["metadata"].get("name") == wanted or (wanted is None and each["kind"] not in _BESIDE)
    )


def build_workload(words: Json, name: str) -> Json:
    """Return the workload that these words describe, whose slices no other one's pools can serve.

    `file` and `name` choose a manifest. Else `kind` says which, `tpu` or `gpu` what each pod asks
    for, `replicas` and `pods` how many. `metadata`, `spec` and `pod` say what is added there.
    """
    kind = find_kind(words)
    body = read_manifest(words) if "file" in words else _BUILDERS[kind](words, name)
    body |= {"apiVersion": get_kind(kind).api_version, "kind": kind}
    body["metadata"] = merge({**body.get("metadata", {}), "name": name}, words.get("metadata", {}))
    body["metadata"].pop("namespace", None)
    # The queue and the account that a manifest names are not in the life's namespace.
    body["metadata"].get("labels", {}).pop(_QUEUE, None)
    body["spec"] = merge(body["spec"], words.get("spec", {}))
    does = {"run-seconds": LONG} | {key: str(value) for key, value in words.get("does", {}).items()}
    for template in list_templates(body):
        annotations = template.setdefault("metadata", {}).setdefault("annotations", {})
        own = {DOES + key: value for key, value in does.items()} | words.get("marks", {})
        template["metadata"]["annotations"] = own | annotations
        if "file" in words:
            template["spec"] = merge(template["spec"], words.get("pod", {}))
        template["spec"].setdefault("terminationGracePeriodSeconds", 30)
        template["spec"].pop("serviceAccountName", None)
        if not words.get("queued") and ("nodeSelector" in template["spec"] or asks_for_accelerators(template)):
            template["spec"].setdefault("nodeSelector", {}).setdefault(LIFE, name)
    return body


def asks_for_accelerators(pod: Json) -> bool:
    """Return whether a container of a pod has a limit of TPU chips or GPUs."""
    limits = [each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"]]
    return any({"google.com/tpu", "nvidia.com/gpu"} & each.keys() for each in limits)


def read_range(count: int | str) -> tuple[int, int]:
    """Return the least and the most of a number, or of two with a line between them."""
    least, _, most = str(count).partition("-")
    return int(least), int(most or least)


def list_templates(body: Json) -> Iterator[Json]:
    """Yield everything in a manifest that has the spec of a pod."""
    if "containers" in (body.get("spec") or ()):
        yield body
        return
    for value in body.values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from list_templates(each)


def merge(base: Json, further: Json) -> Json:
    """Return a mapping with another one's values in it; lists are replaced."""
    merged = dict(base)
    for key, value in further.items():
        inner = merged.get(key) or {}
        merged[key] = merge(inner, value) if isinstance(value, dict) else copy.deepcopy(value)
    return merged


def set_fields(body: Json, fields: Json) -> Json:
    """Set fields of a body by their paths, such as `spec/replicas`, and return it."""
    for path, value in fields.items():
        *steps, last = path.split("/")
        inner: Any = body
        for step in steps:
            inner = inner[int(step)] if step.isdigit() else inner.setdefault(step, {})
        inner[last] = value
    return body


def _template(words: Json, name: str, *, restarts: bool = False) -> Json:
    """Return the template of pods that ask for a host of a slice, or for GPUs; or for nothing."""
    container: Json = {"name": "worker", "image": "worker"}
    spec: Json = {"containers": [container]} | ({} if restarts else {"restartPolicy": "Never"})
    if "gpu" in words:
        container["resources"] = {"requests": {"cpu": "2"}, "limits": {"nvidia.com/gpu": 1}}
        spec["nodeSelector"] = {GPU_TYPE: words["gpu"]}
        # GKE's API server adds this to pods that ask for GPUs; not every stand-in does.
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    elif topology := words.get("tpu", "2x4"):
        container["resources"] = {"limits": {"google.com/tpu": 4}}
        spec["nodeSelector"] = {TPU_TYPE: "tpu-v6e-slice", TOPOLOGY: topology}
    if words.get("queued"):  # its flavor says the place
        spec["nodeSelector"] = {}
    spec = merge(spec, words.get("pod", {}))
    if not spec.get("nodeSelector", True):
        del spec["nodeSelector"]
    return {"metadata": {"labels": {"app": name}}, "spec": spec}


def _count_pods(words: Json) -> int:
    hosts = 1 if "gpu" in words else HOSTS.get(words.get("tpu", "2x4"), 1)
    return int(words.get("pods", hosts))


def _job(words: Json, name: str) -> Json:
    pods = _count_pods(words)
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": _template(words, name)}
    if "gpu" not in words:
        spec["completionMode"] = "Indexed"
    return {"spec": spec}


def _jobset(words: Json, name: str) -> Json:
    """Return a JobSet of one replicated job, or of those that `jobs` lists."""
    jobs = []
    for job in words.get("jobs", [{}]):
        own = words | job
        body = {"name": own.get("job", "slice"), "replicas": own.get("replicas", 1), "template": _job(own, name)}
        body["template"]["metadata"] = {"annotations": own.get("notes", {})}
        jobs.append(body)
    notes = {} if words.get("jobs") else EXCLUSIVE["JobSet"]
    return {"metadata": {"annotations": notes}, "spec": {"replicatedJobs": jobs}}


def _deployment(words: Json, name: str) -> Json:
    spec = {"replicas": _count_pods(words), "selector": {"matchLabels": {"app": name}}}
    return {"spec": spec | {"template": _template(words, name, restarts=True)}}


def _raycluster(words: Json, _name: str) -> Json:
    """Return a cluster of one group; an example has what keeps the pools of its replicas apart."""
    template = _template(words, "worker", restarts=True)
    group = {"groupName": "g", "replicas": words.get("replicas", 1), "minReplicas": 0, "maxReplicas": 4}
    group |= {"numOfHosts": _count_pods(words), "rayStartParams": {}, "template": template}
    if "gpu" not in words:
        example = read_manifest({"file": "examples/kinds/raycluster-v6e-multihost.yaml"})["spec"]
        template["spec"]["affinity"] = example["workerGroupSpecs"][0]["template"]["spec"]["affinity"]
    head: Json = {"spec": {"containers": [{"name": "ray-head", "image": "ray"}]}}
    groups = {"headGroupSpec": {"rayStartParams": {}, "template": head}, "workerGroupSpecs": [group]}
    return {"spec": {"rayVersion": "2.52.0"} | groups}


def _leaderworkerset(words: Json, name: str) -> Json:
    """Return a set of groups; `leader` describes their leaders, if these differ."""
    template = {"size": _count_pods(words), "workerTemplate": _template(words, name, restarts=True)}
    if "leader" in words:
        template["leaderTemplate"] = _template(words["leader"], name, restarts=True)
    notes = words.get("notes", EXCLUSIVE["LeaderWorkerSet"])
    spec = {"replicas": words.get("replicas", 1), "leaderWorkerTemplate": template}
    return {"metadata": {"annotations": notes}, "spec": spec}


_BUILDERS = {
    "JobSet": _jobset,
    "Job": lambda words, name: {"metadata": {}} | _job(words, name),
    "Deployment": _deployment,
    "Pod": _template,
    "RayCluster": _raycluster,
    "LeaderWorkerSet": _leaderworkerset,
}
