"""What a cluster answers to input that is wrong, stale or odd: status code, reason and message.

Also what it stores of input that is right: the defaults are in the answers' bodies.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from differential_manifests import EXCLUSIVE, POOL, bare_pod, jobset, replicated_job
from differential_stage import APPLY, JSON_PATCH, MERGE, STRATEGIC

if TYPE_CHECKING:
    from differential_stage import Scene

Json = dict[str, Any]


def ask_everything(scene: Scene) -> None:
    """Ask all questions; nothing is left behind."""
    ask_wrong_jobsets(scene)
    ask_wrong_pods(scene)
    ask_reads(scene)
    ask_stale_writes(scene)
    ask_jobset_changes(scene)


def broken(base: Json, path: str, value: Any) -> Json:
    """Return a copy with one field set; a None removes it."""
    found = copy.deepcopy(base)
    *steps, last = path.split("/")
    target: Any = found
    for step in steps:
        target = target[int(step)] if step.isdigit() else target[step]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return found


_DRY = "?dryRun=All"
_JOB = "spec/replicatedJobs/0"
_POD = f"{_JOB}/template/spec/template/spec"
_DEPENDS = [{"name": "other", "status": "Ready"}]
_WRONG_JOBSETS: dict[str, tuple[str, Any]] = {
    "jobset: name with capitals": ("metadata/name", "Wrong"),
    "jobset: name too long for its pods": ("metadata/name", "x" * 60),
    "jobset: name begins with a digit": ("metadata/name", "1train"),
    "jobset: replicas as text": (f"{_JOB}/replicas", "two"),
    "jobset: negative replicas": (f"{_JOB}/replicas", -1),
    "jobset: spec missing": ("spec", None),
    "jobset: replicated job without name": (f"{_JOB}/name", None),
    "jobset: replicated job with capitals": (f"{_JOB}/name", "Slice"),
    "jobset: replicated job without template": (f"{_JOB}/template", None),
    "jobset: no containers": (f"{_POD}/containers", []),
    "jobset: unknown restart policy": (f"{_POD}/restartPolicy", "Sometimes"),
    "jobset: unknown success operator": ("spec/successPolicy", {"operator": "Most"}),
    "jobset: success policy names a stranger": (
        "spec/successPolicy",
        {"operator": "All", "targetReplicatedJobs": ["stranger"]},
    ),
    "jobset: unknown start order": ("spec/startupPolicy", {"startupPolicyOrder": "Backwards"}),
    "jobset: unknown failure action": (
        "spec/failurePolicy",
        {"rules": [{"name": "rule", "action": "Ignore"}]},
    ),
    "jobset: failure rule names a stranger": (
        "spec/failurePolicy",
        {"rules": [{"name": "rule", "action": "FailJobSet", "targetReplicatedJobs": ["stranger"]}]},
    ),
    "jobset: failure rule with an unknown reason": (
        "spec/failurePolicy",
        {"rules": [{"name": "rule", "action": "FailJobSet", "onJobFailureReasons": ["Bored"]}]},
    ),
    "jobset: coordinator names a stranger": (
        "spec/coordinator",
        {"replicatedJob": "stranger", "jobIndex": 0, "podIndex": 0},
    ),
    "jobset: coordinator index too high": (
        "spec/coordinator",
        {"replicatedJob": "slice", "jobIndex": 7, "podIndex": 0},
    ),
    "jobset: first job depends on a stranger": (f"{_JOB}/dependsOn", _DEPENDS),
    "jobset: negative ttl": ("spec/ttlSecondsAfterFinished", -1),
    "jobset: managed by something that is no name": ("spec/managedBy", "not a domain"),
    "jobset: subdomain with capitals": ("spec/network", {"subdomain": "Capital"}),
    "jobset: exclusive placement in the pod template only": (
        f"{_JOB}/template/spec/template/metadata",
        {"annotations": {EXCLUSIVE: POOL}},
    ),
    "jobset: label with a space": ("metadata/labels", {"team": "not good"}),
    "jobset: quantity that is none": (f"{_POD}/containers/0/resources", {"limits": {"google.com/tpu": "many"}}),
    "jobset: unknown field": ("spec/colour", "blue"),
}
_CONTAINER = "spec/containers/0"
_WRONG_PODS: dict[str, tuple[str, Any]] = {
    "pod: name with capitals": ("metadata/name", "Wrong"),
    "pod: no containers": ("spec/containers", []),
    "pod: container without name": (f"{_CONTAINER}/name", None),
    "pod: selector value with a space": ("spec/nodeSelector", {"slot": "not good"}),
    "pod: chips requested without limit": (f"{_CONTAINER}/resources", {"requests": {"google.com/tpu": 4}}),
    "pod: chips requested are not the limit": (
        f"{_CONTAINER}/resources",
        {"requests": {"google.com/tpu": 2}, "limits": {"google.com/tpu": 4}},
    ),
    "pod: quantity that is none": (f"{_CONTAINER}/resources", {"limits": {"google.com/tpu": "many"}}),
    "pod: half a chip": (f"{_CONTAINER}/resources", {"limits": {"google.com/tpu": "500m"}}),
    "pod: unknown priority class": ("spec/priorityClassName", "absent"),
    "pod: unknown restart policy": ("spec/restartPolicy", "Sometimes"),
    "pod: label key with a space": ("metadata/labels", {"not good": "x"}),
    "pod: containers as an object": ("spec/containers", {}),
    "pod: gate without a name": ("spec/schedulingGates", [{"name": ""}]),
}


def ask_wrong_jobsets(scene: Scene) -> None:
    """Try to create JobSets that are each wrong in one way; what is accepted after all is not stored."""
    jobsets = scene.path("jobsets") + _DRY
    for question, (path, value) in _WRONG_JOBSETS.items():
        scene.ask(question, "POST", jobsets, broken(jobset("asked", suspend=True), path, value))
    two = jobset("asked", replicated_job("one"), replicated_job("one"), suspend=True)
    scene.ask("jobset: two replicated jobs of one name", "POST", jobsets, two)
    scene.ask("jobset: not an object", "POST", jobsets, [1])
    other = jobset("asked", suspend=True) | {"kind": "Job"}
    scene.ask("jobset: another kind", "POST", jobsets, other)
    elsewhere = broken(jobset("asked", suspend=True), "metadata/namespace", "elsewhere")
    scene.ask("jobset: another namespace in the body", "POST", jobsets, elsewhere)
    nowhere = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/diff-nowhere/jobsets"
    scene.ask("jobset: namespace that is not there", "POST", nowhere, jobset("asked", suspend=True))


def ask_wrong_pods(scene: Scene) -> None:
    """Try to create pods that are each wrong in one way, then to change one as is not allowed."""
    pods = scene.path("pods") + _DRY
    for question, (path, value) in _WRONG_PODS.items():
        scene.ask(question, "POST", pods, broken(bare_pod("asked"), path, value))
    scene.submit(bare_pod("asked"), "pods")
    scene.ask("pod: name that is taken", "POST", scene.path("pods"), bare_pod("asked"))
    pod = scene.path("pods", "asked")
    scene.ask("pod: selector changed", "PATCH", pod, {"spec": {"nodeSelector": {"wanted": "now"}}}, MERGE)
    scene.ask("pod: gate added", "PATCH", pod, {"spec": {"schedulingGates": [{"name": "late"}]}}, MERGE)
    scene.ask("pod: node name changed", "PATCH", pod, {"spec": {"nodeName": "x"}}, MERGE)
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "asked"}, "target": {"kind": "Node"}}
    scene.ask("pod: binding without a node", "POST", f"{pod}/binding", binding)
    scene.delete("pods", "asked")


def ask_reads(scene: Scene) -> None:
    """Ask for what is not there, and with parameters that are wrong."""
    pods = scene.path("pods")
    scene.ask("read: a pod that is not there", "GET", scene.path("pods", "absent"))
    scene.ask("read: a jobset that is not there", "GET", scene.path("jobsets", "absent"))
    scene.ask("read: a job that is not there", "GET", scene.path("jobs", "absent"))
    scene.ask("read: a node that is not there", "GET", "/api/v1/nodes/absent")
    scene.ask("read: a lease that is not there", "GET", _lease(scene, "absent"))
    scene.ask("read: wrong label selector", "GET", f"{pods}?labelSelector=a%20in")
    scene.ask("read: wrong field selector", "GET", f"{pods}?fieldSelector=spec.colour%3Dblue")
    scene.ask("read: wrong limit", "GET", f"{pods}?limit=many")
    scene.ask("read: wrong continue token", "GET", f"{pods}?limit=1&continue=nonsense")
    scene.ask("read: wrong version", "GET", f"{pods}?resourceVersion=nonsense")
    scene.ask("read: wrong version match", "GET", f"{pods}?resourceVersionMatch=Sometimes")
    scene.ask("read: a watch from a wrong version", "GET", f"{pods}?watch=1&resourceVersion=nonsense")
    scene.ask("read: a patch of nothing", "PATCH", scene.path("pods", "absent"), {}, MERGE)
    scene.ask("read: the deletion of nothing", "DELETE", scene.path("jobsets", "absent"))


def _lease(scene: Scene, name: str = "") -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{scene.namespace}/leases"
    return f"{path}/{name}" if name else path


def ask_stale_writes(scene: Scene) -> None:
    """Write leases, events and pods against versions and patches that do not fit."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "lead"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
    }
    made = scene.ask("lease: created", "POST", _lease(scene), lease)
    scene.ask("lease: created again", "POST", _lease(scene), lease)
    version = made["metadata"]["resourceVersion"]
    lease["metadata"] = {"name": "lead", "resourceVersion": version}
    scene.ask("lease: unchanged", "PUT", _lease(scene, "lead"), lease)
    scene.ask("lease: renewed", "PUT", _lease(scene, "lead"), broken(lease, "spec/holderIdentity", "b"))
    scene.ask("lease: stale", "PUT", _lease(scene, "lead"), broken(lease, "spec/holderIdentity", "c"))
    stale = {"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": "c"}}
    scene.ask("lease: stale merge patch", "PATCH", _lease(scene, "lead"), stale, MERGE)
    scene.ask("lease: another name", "PUT", _lease(scene, "other"), lease)
    del lease["metadata"]["resourceVersion"]
    scene.ask("lease: no version", "PUT", _lease(scene, "lead"), lease)
    negative = [{"op": "replace", "path": "/spec/leaseDurationSeconds", "value": -1}]
    scene.ask("lease: negative duration", "PATCH", _lease(scene, "lead"), negative, JSON_PATCH)
    wrong_uid = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}}
    scene.ask("lease: deletion of another", "DELETE", _lease(scene, "lead"), wrong_uid)
    test = [{"op": "test", "path": "/spec/holderIdentity", "value": "z"}]
    scene.ask("lease: failed json test", "PATCH", _lease(scene, "lead"), test, JSON_PATCH)
    wrong = [{"op": "replace", "path": "/spec/none", "value": "z"}]
    scene.ask("lease: json patch of nothing", "PATCH", _lease(scene, "lead"), wrong, JSON_PATCH)
    scene.ask("lease: unknown patch type", "PATCH", _lease(scene, "lead"), {}, "text/plain")
    scene.ask(
        "lease: strategic patch", "PATCH", _lease(scene, "lead"), {"spec": {"leaseTransitions": 1}}, STRATEGIC
    )
    manager = "?fieldManager=asker"
    scene.ask("lease: apply without a manager", "PATCH", _lease(scene, "lead"), lease, APPLY)
    scene.ask("lease: apply against another", "PATCH", _lease(scene, "lead") + manager, lease, APPLY)
    scene.ask("lease: apply by force", "PATCH", f"{_lease(scene, 'lead')}{manager}&force=true", lease, APPLY)
    scene.ask("lease: deleted", "DELETE", _lease(scene, "lead"))


def ask_jobset_changes(scene: Scene) -> None:
    """Change a JobSet in the ways that it allows and in those that it does not."""
    scene.ask("jobset: created", "POST", scene.path("jobsets"), jobset("asked", suspend=True))
    path = scene.path("jobsets", "asked")
    scene.wait_condition("asked", "Suspended")
    scene.rest()
    job = scene.path("jobs", "asked-slice-0")
    scene.ask("job: completions changed", "PATCH", job, {"spec": {"completions": 9}}, MERGE)
    scene.ask("job: selector changed", "PATCH", job, {"spec": {"selector": {"matchLabels": {"a": "b"}}}}, MERGE)
    scene.ask("job: made by hand", "POST", scene.path("jobs"), _job("hand"))
    scene.ask("job: restart policy", "POST", scene.path("jobs"), _job("wrong", restartPolicy="Always"))
    unread = jobset("asked", suspend=True)
    scene.ask("jobset: replaced without a version", "PUT", path, unread)
    scene.ask("jobset: strategic patch", "PATCH", path, {"spec": {"suspend": True}}, STRATEGIC)
    for question, patch in {
        "jobset: replicas changed": [{"op": "replace", "path": "/spec/replicatedJobs/0/replicas", "value": 3}],
        "jobset: replicated job renamed": [{"op": "replace", "path": "/spec/replicatedJobs/0/name", "value": "x"}],
        "jobset: manager changed": [{"op": "add", "path": "/spec/managedBy", "value": "example.com/other"}],
        "jobset: success policy changed": [
            {"op": "add", "path": "/spec/successPolicy", "value": {"operator": "Any"}}
        ],
        "jobset: selector changed while suspended": [
            {"op": "add", "path": f"/{_POD}/nodeSelector/slot", "value": "new"}
        ],
        "jobset: image changed while suspended": [
            {"op": "replace", "path": f"/{_POD}/containers/0/image", "value": "new"}
        ],
        "jobset: resumed": [{"op": "replace", "path": "/spec/suspend", "value": False}],
        "jobset: selector changed while it runs": [
            {"op": "add", "path": f"/{_POD}/nodeSelector/slot", "value": "newer"}
        ],
    }.items():
        scene.ask(question, "PATCH", path, patch, JSON_PATCH)
    scene.rest()


def _job(name: str, **pod: Any) -> Json:
    spec = bare_pod("x", restartPolicy="Never", **pod)["spec"] if not pod else bare_pod("x", **pod)["spec"]
    body = {"metadata": {"name": name}, "spec": {"suspend": True, "template": {"spec": spec}}}
    return {"apiVersion": "batch/v1", "kind": "Job"} | body
