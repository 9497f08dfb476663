"""The JobSet controller: child Jobs, service, restarts, suspension, start order, time to live.

One pass follows the order of the real reconciler, so that a watcher sees the same states: a JobSet
is terminal one pass before its active Jobs are deleted.
Source: https://github.com/kubernetes-sigs/jobset (pkg/controllers, pkg/constants, release 0.11.1).
"""

import hashlib
from collections.abc import Iterable

from standins.cluster.deletion import IN_FOREGROUND, delete
from standins.cluster.jobs import expire
from standins.cluster.kinds import JOB, JOBSET, SERVICE, Json
from standins.cluster.objects import (
    EXCLUSIVE_TOPOLOGY,
    JOB_KEY,
    JOBSET_NAME,
    JOBSET_PREFIX,
    NODE_SELECTOR_STRATEGY,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
    find_condition,
    set_condition,
)
from standins.cluster.refusals import ApiError
from standins.cluster.runner import Controller, Key
from standins.cluster.store import Change, Stored
from standins.cluster.writing import Registry

_NAME = "jobset"
_MANAGER = "jobset.sigs.k8s.io/jobset-controller"
_NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
_NO_SCHEDULE_TAINT = "alpha.jobset.sigs.k8s.io/no-schedule"
_IN_PROGRESS = ("InOrderStartupPolicyInProgress", "in order startup policy is in progress")
_IN_ORDER = ("InOrderStartupPolicyCompleted", "in order startup policy has completed")
_EXCLUDES = {
    "StartupPolicyInProgress": "StartupPolicyCompleted",
    "StartupPolicyCompleted": "StartupPolicyInProgress",
}


class JobSetController(Controller):
    """The controller of jobset.x-k8s.io JobSets."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a JobSet when it, one of its Jobs or its service changes."""
        if change.kind is JOBSET:
            return ((change.subject.uid,),)
        if change.kind is JOB or change.kind is SERVICE:
            return tuple((uid,) for uid in change.subject.owner_uids)
        return ()

    def reconcile(self, key: Key) -> float | None:
        """Bring one JobSet's Jobs and status closer to what they should be."""
        stored = self.registry.store.by_uid(key[0])
        if stored is None or stored.kind is not JOBSET or stored.going:
            return None
        if stored.json["spec"].get("managedBy", _MANAGER) != _MANAGER:
            return None
        return _Pass(self.registry, stored).run()


def _list_ended(jobs: list[Stored], how: str) -> list[Stored]:
    return [job for job in jobs if find_condition(job.json, how)]


class _Pass:
    """One pass over one JobSet: its Jobs by state, and the status that is being worked on."""

    def __init__(self, registry: Registry, stored: Stored) -> None:
        self._registry = registry
        self._stored = stored
        self._spec: Json = stored.json["spec"]
        self._replicated: list[Json] = self._spec.get("replicatedJobs", [])
        self._status: Json = stored.body().get("status", {})
        self._events: list[tuple[str, str, bool]] = []
        attempt = self._status.get("restarts", 0)
        dependents = sorted(registry.store.dependents(stored.uid), key=lambda each: each.key)
        self._jobs = [each for each in dependents if each.kind is JOB]
        self._previous = [job for job in self._jobs if int(job.labels.get(RESTART_ATTEMPT, "0")) < attempt]
        """Those of an earlier restart attempt."""
        present = [job for job in self._jobs if job not in self._previous]
        self._successful, self._failed = (_list_ended(present, how) for how in ("Complete", "Failed"))
        self._active = [job for job in present if job not in (*self._successful, *self._failed)]

    def run(self) -> float | None:
        """Act, and write the status; return virtual seconds until the next look."""
        self._count()
        again = self._advance()
        if self._registry.store.by_uid(self._stored.uid) is self._stored:
            self._registry.change_status(self._stored, self._status)
            for reason, message, warning in self._events:
                self._registry.record(_NAME, self._stored, reason, message, warning=warning)
        return again

    def _advance(self) -> float | None:
        if ended := find_condition(self._stored.json, "Completed", "Failed"):
            self._delete(self._active)
            return expire(self._registry, self._stored, ended)
        self._delete(self._previous)
        if self._failed:
            self._apply_failure_policy()
        elif self._has_succeeded():
            self._set("Completed", "AllJobsCompleted", "jobset completed successfully")
            self._status["terminalState"] = "Completed"
        else:
            self._create_service()
            self._create_jobs()
            if self._spec.get("suspend"):
                self._suspend()
            else:
                self._resume()
        return None

    def _delete(self, jobs: list[Stored]) -> None:
        for job in jobs:
            if not job.going:
                delete(self._registry, job, IN_FOREGROUND)

    def _count(self) -> None:
        """Write the counters of every replicated job."""
        zeros = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        counters: dict[str, Json] = {each["name"]: {"name": each["name"]} | zeros for each in self._replicated}
        for job in self._active:
            spec, status = job.json["spec"], job.json.get("status", {})
            width = min(spec["parallelism"], spec.get("completions", spec["parallelism"]))
            counter = counters[job.labels[REPLICATED_JOB_NAME]]
            counter["ready"] += status.get("succeeded", 0) + status.get("ready", 0) >= width
            counter["active"] += status.get("active", 0) > 0
            counter["suspended"] += spec["suspend"]
        for state, jobs in (("succeeded", self._successful), ("failed", self._failed)):
            for job in jobs:
                counters[job.labels[REPLICATED_JOB_NAME]][state] += 1
        self._status["replicatedJobsStatus"] = list(counters.values())
        self._status.setdefault("restarts", 0)

    def _has_started(self, replicated: Json) -> bool:
        """Return whether all Jobs of a replicated job are ready or over."""
        counters: list[Json] = self._status["replicatedJobsStatus"]
        counter = next(each for each in counters if each["name"] == replicated["name"])
        return bool(counter["ready"] + counter["succeeded"] + counter["failed"] == replicated["replicas"])

    @property
    def _in_order(self) -> bool:
        in_order = self._spec.get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder"
        return in_order and not self._spec.get("suspend", False)

    def _set(self, kind: str, reason: str, message: str, *, value: bool = True, warning: bool = False) -> None:
        """Set a condition; False only replaces an existing one, and excluded ones become False."""
        conditions: list[Json] = self._status.get("conditions", [])
        if not value and not any(each["type"] == kind for each in conditions):
            return
        for each in conditions:
            if value and each["type"] == _EXCLUDES.get(kind):
                each["status"] = "False"
        condition = {"type": kind, "status": str(value), "reason": reason, "message": message}
        if set_condition(self._status, condition, self._registry.clock.timestamp()):
            self._events.append((reason, message, warning))

    def _has_succeeded(self) -> bool:
        """Return whether all Jobs of the replicated jobs that count have succeeded."""
        replicas = {each["name"]: each["replicas"] for each in self._replicated}
        targets = self._spec.get("successPolicy", {}).get("targetReplicatedJobs") or list(replicas)
        done = sum(job.labels.get(REPLICATED_JOB_NAME) in targets for job in self._successful)
        return bool(self._successful) and done >= sum(replicas[name] for name in targets)

    def _apply_failure_policy(self) -> None:
        """Fail or restart the JobSet because of its failed Jobs."""
        policy = self._spec.get("failurePolicy")
        times = {
            job.name: (find_condition(job.json, "Failed") or {})["lastTransitionTime"] for job in self._failed
        }
        first = f"(first failed job: {min(times, key=lambda name: str(times[name]))})"
        if policy is None:
            self._fail("FailedJobs", f"jobset failed due to one or more job failures {first}")
        elif self._status["restarts"] >= policy["maxRestarts"]:
            self._fail("ReachedMaxRestarts", f"jobset failed due to reaching max number of restarts {first}")
        else:
            for counter in ("restarts", "restartsCountTowardsMax"):
                self._status[counter] = self._status.get(counter, 0) + 1
            message = f"applying RestartJobSet failure policy action {first}"
            self._events.append(("RestartJobSetFailurePolicyAction", message, True))

    def _fail(self, reason: str, message: str) -> None:
        self._set("Failed", reason, message, warning=True)
        self._status["terminalState"] = "Failed"

    def _create_service(self) -> None:
        name, namespace = find_subdomain(self._stored), self._stored.namespace
        network = self._spec.get("network", {})
        if not network.get("enableDNSHostnames", True) or self._registry.store.get(SERVICE, namespace, name):
            return
        service = {
            "metadata": {"name": name, "ownerReferences": [self._stored.as_controller()]},
            "spec": {
                "clusterIP": "None",
                "clusterIPs": ["None"],
                "selector": {JOBSET_NAME: self._stored.name},
                "publishNotReadyAddresses": network.get("publishNotReadyAddresses", True),
                "type": "ClusterIP",
            },
        }
        self._registry.create(SERVICE, service, namespace)

    def _list_due(self) -> list[tuple[int, Json]]:
        """Return the replicated jobs whose turn it is, each with its place in the spec."""
        numbered = list(enumerate(self._replicated))
        if not self._in_order:
            return numbered
        return [each for each in numbered if not self._has_started(each[1])][:1]

    def _create_jobs(self) -> None:
        due = self._list_due()
        for position, replicated in due:
            self._create_replicas(position, replicated)
        if self._in_order and due:
            self._set("StartupPolicyInProgress", *_IN_PROGRESS)
        elif self._in_order:
            self._set("StartupPolicyCompleted", *_IN_ORDER)

    def _create_replicas(self, position: int, replicated: Json) -> None:
        taken = {job.name for job in self._jobs}
        for index in range(replicated["replicas"]):
            job = new_job(self._stored, position, index)
            name = job["metadata"]["name"]
            if name in taken:
                continue
            try:
                self._registry.create(JOB, job, self._stored.namespace)
            except ApiError as error:
                message = f'job "{name}" creation failed with error: {error.message}'
                self._registry.record(_NAME, self._stored, "JobCreationFailed", message, warning=True)
                raise

    def _suspend(self) -> None:
        for job in self._active:
            if not job.json["spec"]["suspend"]:
                body = job.body()
                body["spec"]["suspend"] = True
                self._registry.replace(job, body)
        self._set("Suspended", "SuspendedJobs", "jobset is suspended")

    def _resume(self) -> None:
        due = self._list_due()
        for _, replicated in due:
            template = replicated["template"]["spec"].get("template", {})
            for job in self._active:
                if job.labels.get(REPLICATED_JOB_NAME) == replicated["name"] and job.json["spec"]["suspend"]:
                    self._resume_job(job, template)
        if not (self._in_order and due):
            self._set("Suspended", "ResumeJobs", "jobset is resumed", value=False)

    def _resume_job(self, job: Stored, template: Json) -> None:
        status = job.body().get("status", {})
        # The template of a Job that has started is fixed, so its start is forgotten first.
        if status.pop("startTime", None) is not None:
            job = self._registry.change_status(job, status)
        body = job.body()
        merge_template(body["spec"]["template"], template)
        body["spec"]["suspend"] = False
        self._registry.replace(job, body)


def merge_template(target: Json, template: Json) -> None:
    """Merge the JobSet's pod template into that of a suspended Job, in place; no key is removed."""
    for group, field in (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector")):
        if template.get(group, {}).get(field):
            target[group][field] = target[group].get(field, {}) | template[group][field]
    for field in ("tolerations", "schedulingGates"):
        present = target["spec"].get(field, [])
        added = [item for item in template.get("spec", {}).get(field, []) if item not in present]
        if added:
            target["spec"][field] = present + added


def find_subdomain(jobset: Stored) -> str:
    """Return the subdomain of the pods, which is the service's name."""
    return str(jobset.json["spec"].get("network", {}).get("subdomain") or jobset.name)


def new_job(jobset: Stored, position: int, index: int) -> Json:
    """Return the body of one child Job of the replicated job at a position in the spec."""
    jobset_spec = jobset.body()["spec"]
    replicated = jobset_spec["replicatedJobs"][position]
    template = replicated["template"]
    name = f"{jobset.name}-{replicated['name']}-{index}"
    labels = _list_labels(jobset, replicated, index, name)
    template_metadata = template.get("metadata", {})
    annotations = labels | _list_placement(jobset, template_metadata)
    job_annotations = template_metadata.get("annotations", {}) | annotations
    spec = template["spec"]
    pod_template = spec["template"]
    pod_spec = pod_template.setdefault("spec", {})
    pod_metadata = pod_template.setdefault("metadata", {})
    pod_metadata["labels"] = pod_metadata.get("labels", {}) | labels
    pod_metadata["annotations"] = pod_metadata.get("annotations", {}) | annotations
    if jobset_spec.get("network", {}).get("enableDNSHostnames", True):
        pod_spec["subdomain"] = find_subdomain(jobset)
    if EXCLUSIVE_TOPOLOGY in job_annotations and NODE_SELECTOR_STRATEGY in job_annotations:
        pod_spec.setdefault("nodeSelector", {})[_NAMESPACED_JOB] = f"{jobset.namespace}_{name}"
        toleration = {"key": _NO_SCHEDULE_TAINT, "operator": "Exists", "effect": "NoSchedule"}
        pod_spec.setdefault("tolerations", []).append(toleration)
    spec["suspend"] = jobset_spec.get("suspend", False)
    metadata = {
        "name": name,
        "labels": template_metadata.get("labels", {}) | labels,
        "annotations": job_annotations,
        "ownerReferences": [jobset.as_controller()],
    }
    return {"metadata": metadata, "spec": spec}


def _list_labels(jobset: Stored, replicated: Json, index: int, name: str) -> dict[str, str]:
    spec = jobset.json["spec"]
    everything: list[Json] = spec["replicatedJobs"]
    group = [each for each in everything if each["groupName"] == replicated["groupName"]]
    job_key = hashlib.sha1(f"{jobset.namespace}/{name}".encode(), usedforsecurity=False).hexdigest()
    labels = {
        JOBSET_NAME: jobset.name,
        f"{JOBSET_PREFIX}jobset-uid": jobset.uid,
        REPLICATED_JOB_NAME: replicated["name"],
        RESTART_ATTEMPT: str(jobset.json.get("status", {}).get("restarts", 0)),
        f"{JOBSET_PREFIX}replicatedjob-replicas": str(replicated["replicas"]),
        f"{JOBSET_PREFIX}global-replicas": str(_count_replicas(everything)),
        f"{JOBSET_PREFIX}job-index": str(index),
        JOB_KEY: job_key,
        f"{JOBSET_PREFIX}job-global-index": str(_count_replicas(everything, replicated["name"]) + index),
        f"{JOBSET_PREFIX}group-name": replicated["groupName"],
        f"{JOBSET_PREFIX}group-replicas": str(_count_replicas(group)),
        f"{JOBSET_PREFIX}job-group-index": str(_count_replicas(group, replicated["name"]) + index),
    }
    if coordinator := spec.get("coordinator"):
        host = f"{jobset.name}-{coordinator['replicatedJob']}-{coordinator.get('jobIndex', 0)}"
        address = f"{host}-{coordinator.get('podIndex', 0)}.{find_subdomain(jobset)}"
        labels[f"{JOBSET_PREFIX}coordinator"] = address
    return labels


def _count_replicas(replicated_jobs: list[Json], until: str = "") -> int:
    """Return how many Jobs the replicated jobs make: all of them, or those before one of a name."""
    total = 0
    for replicated in replicated_jobs:
        if replicated["name"] == until:
            break
        total += replicated["replicas"]
    return total


def _list_placement(jobset: Stored, template_metadata: Json) -> dict[str, str]:
    """Return the annotations of exclusive placement: of the replicated job, else of the JobSet."""
    placement: dict[str, str] = {}
    for metadata in (jobset.json["metadata"], template_metadata):
        annotations = metadata.get("annotations", {})
        if EXCLUSIVE_TOPOLOGY in annotations:
            keys = (EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY)
            placement |= {key: annotations[key] for key in keys if key in annotations}
    return placement
