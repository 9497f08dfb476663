"""What a cluster answers to writes and reads that are wrong, stale or odd: status code and reason.

The questions are those of the product's clients and of a person who applies a manifest. The words
of a refusal are not compared: no program reads them.
"""

import copy
from typing import Any

from tests.differential.differential_manifests import bare_pod, jobset, replicated_job
from tests.differential.differential_stage import JSON_PATCH, MERGE, STRATEGIC, Scene

Json = dict[str, Any]

_JOB = "spec/replicatedJobs/0"
_POD = f"{_JOB}/template/spec/template/spec"
_CONTAINER = "spec/containers/0"
_WRONG_JOBSETS: dict[str, tuple[str, Any]] = {
    "name with capitals": ("metadata/name", "Wrong"),
    "name too long for its pods": ("metadata/name", "x" * 60),
    "coordinator names a stranger": ("spec/coordinator", {"replicatedJob": "stranger"}),
    "success policy names a stranger": (
        "spec/successPolicy",
        {"operator": "All", "targetReplicatedJobs": ["stranger"]},
    ),
    "negative ttl": ("spec/ttlSecondsAfterFinished", -1),
    "label with a space": ("metadata/labels", {"team": "not good"}),
}
_WRONG_PODS: dict[str, tuple[str, Any]] = {
    "name with capitals": ("metadata/name", "Wrong"),
    "no containers": ("spec/containers", []),
    "selector value with a space": ("spec/nodeSelector", {"slot": "not good"}),
    "chips requested without limit": (f"{_CONTAINER}/resources", {"requests": {"google.com/tpu": 4}}),
    "half a chip": (f"{_CONTAINER}/resources", {"limits": {"google.com/tpu": "500m"}}),
    "quantity that is none": (f"{_CONTAINER}/resources", {"limits": {"google.com/tpu": "many"}}),
    "unknown priority class": ("spec/priorityClassName", "absent"),
}


def ask_everything(scene: Scene) -> None:
    """Ask all questions."""
    ask_wrong_bodies(scene)
    ask_reads(scene)
    ask_stale_writes(scene)
    ask_jobset_changes(scene)


def broken(base: Json, path: str, value: Any) -> Json:
    """Return a copy with one field set."""
    found = copy.deepcopy(base)
    *steps, last = path.split("/")
    target: Any = found
    for step in steps:
        target = target[int(step)] if step.isdigit() else target[step]
    target[last] = value
    return found


def ask_wrong_bodies(scene: Scene) -> None:
    """Create JobSets and pods that are each wrong in one way; change a pod as is not allowed."""
    jobsets, pods = scene.path("jobsets"), scene.path("pods")
    for question, (path, value) in _WRONG_JOBSETS.items():
        scene.ask(f"jobset: {question}", "POST", jobsets, broken(jobset("asked", suspend=True), path, value))
    two = jobset("asked", replicated_job("one"), replicated_job("one"), suspend=True)
    scene.ask("jobset: two replicated jobs of one name", "POST", jobsets, two)
    elsewhere = broken(jobset("asked", suspend=True), "metadata/namespace", "elsewhere")
    scene.ask("jobset: another namespace in the body", "POST", jobsets, elsewhere)
    nowhere = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/diff-nowhere/jobsets"
    scene.ask("jobset: namespace that does not exist", "POST", nowhere, jobset("asked", suspend=True))
    for question, (path, value) in _WRONG_PODS.items():
        scene.ask(f"pod: {question}", "POST", pods, broken(bare_pod("wrong"), path, value))
    scene.submit(bare_pod("asked"), "pods")
    scene.ask("pod: name that is taken", "POST", pods, bare_pod("asked"))
    pod = scene.path("pods", "asked")
    scene.ask("pod: selector changed", "PATCH", pod, {"spec": {"nodeSelector": {"wanted": "now"}}}, MERGE)
    scene.ask("pod: gate added", "PATCH", pod, {"spec": {"schedulingGates": [{"name": "late"}]}}, MERGE)
    scene.delete("pods", "asked")


def ask_reads(scene: Scene) -> None:
    """Ask for objects that do not exist, and with parameters that are wrong."""
    pods = scene.path("pods")
    for kind in ("pods", "jobsets", "jobs"):
        scene.ask(f"read: one of {kind} that does not exist", "GET", scene.path(kind, "absent"))
    scene.ask("read: a node that does not exist", "GET", "/api/v1/nodes/absent")
    scene.ask("read: wrong label selector", "GET", f"{pods}?labelSelector=a%20in")
    scene.ask("read: wrong field selector", "GET", f"{pods}?fieldSelector=spec.colour%3Dblue")
    scene.ask("read: wrong limit", "GET", f"{pods}?limit=many")
    scene.ask("read: wrong continue token", "GET", f"{pods}?limit=1&continue=nonsense")
    scene.ask("read: a patch of nothing", "PATCH", scene.path("pods", "absent"), {}, MERGE)
    scene.ask("read: the deletion of nothing", "DELETE", scene.path("jobsets", "absent"))


def ask_stale_writes(scene: Scene) -> None:
    """Write a lease as an election does, against versions that fit and that do not."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{scene.namespace}/leases"
    head: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lead"}}
    lease = head | {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    made = scene.ask("lease: created", "POST", leases, lease)
    scene.ask("lease: created again", "POST", leases, lease)
    path, version = f"{leases}/lead", made["metadata"]["resourceVersion"]
    scene.ask("lease: no version", "PUT", path, lease)
    held = broken(lease, "metadata/resourceVersion", version)
    scene.ask("lease: unchanged", "PUT", path, held)
    scene.ask("lease: renewed", "PUT", path, broken(held, "spec/holderIdentity", "b"))
    scene.ask("lease: stale", "PUT", path, broken(held, "spec/holderIdentity", "c"))
    stale = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": "c"}}
    scene.ask("lease: stale merge patch", "PATCH", path, stale, MERGE)
    wrong_uid = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}}
    scene.ask("lease: deletion of another", "DELETE", path, wrong_uid)
    test = [{"op": "test", "path": "/spec/holderIdentity", "value": "z"}]
    scene.ask("lease: failed json test", "PATCH", path, test, JSON_PATCH)
    scene.ask("lease: strategic patch", "PATCH", path, {"spec": {"leaseTransitions": 1}}, STRATEGIC)
    scene.ask("lease: deleted", "DELETE", path)


def ask_jobset_changes(scene: Scene) -> None:
    """Change a JobSet in the ways that it allows and in those that it does not."""
    scene.ask("jobset: created", "POST", scene.path("jobsets"), jobset("asked", suspend=True))
    path = scene.path("jobsets", "asked")
    scene.wait_condition("asked", "Suspended")
    scene.rest()
    scene.ask("jobset: replaced without a version", "PUT", path, jobset("asked", suspend=True))
    scene.ask("jobset: strategic patch", "PATCH", path, {"spec": {"suspend": True}}, STRATEGIC)
    for question, op, field, value in (
        ("replicas changed", "replace", f"{_JOB}/replicas", 3),
        ("manager changed", "add", "spec/managedBy", "example.com/other"),
        ("selector changed while suspended", "add", f"{_POD}/nodeSelector/slot", "new"),
        ("image changed while suspended", "replace", f"{_POD}/containers/0/image", "new"),
        ("resumed", "replace", "spec/suspend", False),
        ("selector changed while it runs", "add", f"{_POD}/nodeSelector/slot", "newer"),
    ):
        patch = [{"op": op, "path": f"/{field}", "value": value}]
        scene.ask(f"jobset: {question}", "PATCH", path, patch, JSON_PATCH)
    scene.rest()
