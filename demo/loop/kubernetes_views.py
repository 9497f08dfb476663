"""Turns JSON objects of the Kubernetes API into observations. Pure; ignores unknown fields."""

from typing import Any

from demo.loop.observations import JobSetSeen, NodeSeen, PodSeen, SliceSpec
from shared.model import labels

_INDEX = labels.COMPLETION_INDEX
_JOB_NAME = "batch.kubernetes.io/job-name"
_JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_RESTART = "jobset.sigs.k8s.io/restart-attempt"
Json = dict[str, Any]


def read_jobset(body: Json, at: float, *, gone: bool = False) -> JobSetSeen:
    """Return the observation of one JobSet."""
    conditions = {each["type"]: each for each in _conditions(body) if each.get("status") == "True"}
    ended = next((name for name in ("Completed", "Failed") if name in conditions), "")
    telling = conditions.get(ended or "Suspended", {})
    return JobSetSeen(
        at=at,
        namespace=body["metadata"]["namespace"],
        name=body["metadata"]["name"],
        slices=read_slices(body),
        terminal=ended,
        suspended=bool(body.get("spec", {}).get("suspend")),
        gone=gone,
        message=telling.get("message", ""),
    )


def read_slices(jobset: Json) -> tuple[SliceSpec, ...]:
    """Return the slices of a JobSet: each Job whose pods select or request TPUs."""
    found = []
    name = jobset["metadata"]["name"]
    for job in jobset.get("spec", {}).get("replicatedJobs", []):
        spec = job.get("template", {}).get("spec", {})
        if not wants_accelerator(spec.get("template", {})):
            continue
        parallelism = spec.get("parallelism", 1)
        pods = min(parallelism, spec.get("completions") or parallelism)
        found += [
            SliceSpec(job=f"{name}-{job['name']}-{index}", pods=pods) for index in range(job.get("replicas", 1))
        ]
    return tuple(found)


def wants_accelerator(template: Json) -> bool:
    """Return whether a pod template needs TPUs: by request, selector or annotation."""
    spec = template.get("spec", {})
    keys = set(spec.get("nodeSelector") or {}) | _affinity_keys(spec)
    annotated = labels.SLICE_TOPOLOGY in (template.get("metadata", {}).get("annotations") or {})
    requested = any(_requests_tpu(each) for each in spec.get("containers", []))
    return annotated or requested or bool(keys & {labels.ACCELERATOR, labels.TOPOLOGY})


def read_pod(body: Json, at: float, *, gone: bool = False) -> PodSeen:
    """Return the observation of one pod; pods of no Job have an empty `job`."""
    metadata, status = body["metadata"], body.get("status", {})
    selected = body.get("spec", {}).get("nodeSelector") or {}
    found, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return PodSeen(
        at=at,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        job=found.get(_JOB_NAME, ""),
        index=found.get(_INDEX, annotations.get(_INDEX, "")),
        phase=status.get("phase", "Pending"),
        node=body.get("spec", {}).get("nodeName") or "",
        unschedulable=_unschedulable(body),
        restart=found.get(_RESTART, "0"),
        jobset=found.get(_JOBSET_NAME, ""),
        plain=not wants_accelerator(body),
        selects=", ".join(f"{key}={value}" for key, value in sorted(selected.items())),
        gone=gone,
    )


def read_node(body: Json, at: float, *, gone: bool = False) -> NodeSeen | None:
    """Return the observation of one node of an accelerator pool; None for other nodes."""
    found = body["metadata"].get("labels") or {}
    if labels.ACCELERATOR not in found:
        return None
    ready = any(each["type"] == "Ready" and each.get("status") == "True" for each in _conditions(body))
    return NodeSeen(
        at=at, name=body["metadata"]["name"], pool=found.get(labels.NODE_POOL, ""), ready=ready, gone=gone
    )


def _conditions(body: Json) -> list[Json]:
    return body.get("status", {}).get("conditions") or []


def _unschedulable(pod: Json) -> str:
    for each in _conditions(pod):
        if (
            each["type"] == "PodScheduled"
            and each.get("status") == "False"
            and each.get("reason") == "Unschedulable"
        ):
            return str(each.get("message") or "Unschedulable")
    return ""


def _requests_tpu(container: Json) -> bool:
    resources = container.get("resources") or {}
    return any(labels.TPU_RESOURCE in (resources.get(key) or {}) for key in ("requests", "limits"))


def _affinity_keys(spec: Json) -> set[str]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return {
        each["key"]
        for term in required.get("nodeSelectorTerms", [])
        for each in term.get("matchExpressions") or []
    }
