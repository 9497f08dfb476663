"""The Job controller: it creates pods, counts how they end, and decides when the Job is over.

A pod carries the tracking finalizer until it is counted, so that no pod is counted twice or lost.
Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from standins.cluster.deletion import BACKGROUND, IN_FOREGROUND, delete
from standins.cluster.kinds import JOB, POD, Json
from standins.cluster.objects import COMPLETION_INDEX, JOB_TRACKING, find_condition, find_controller, set_condition
from standins.cluster.refusals import ApiError
from standins.cluster.runner import Controller, Key
from standins.cluster.store import Change, Stored
from standins.cluster.writing import Registry
from standins.kit.fitting import is_finished

_NAME = "job-controller"
_REFUSED_SECONDS = 60.0
"""Until the next try after a pod was refused. A Job also tries when one of its pods changes."""
_BACKOFF_SECONDS, _BACKOFF_SECONDS_MAX = 10.0, 600.0
_COMPLETED = ("CompletionsReached", "Reached expected number of succeeded pods")
_FAILED = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")


def expire(registry: Registry, stored: Stored, ended: Json) -> float | None:
    """Delete what has ended, once its time to live is over; return the rest of that time."""
    ttl = stored.json["spec"].get("ttlSecondsAfterFinished")
    if ttl is None:
        return None
    left = float(ttl - registry.clock.seconds_since(ended["lastTransitionTime"]))
    if left > 0:
        return left
    delete(registry, stored, IN_FOREGROUND)
    return None


class JobController(Controller):
    """The controller of batch/v1 Jobs."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.backoffs: dict[str, tuple[float, float]] = {}
        """By Job: the seconds of its back-off, and until when on the clock."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a Job when it or one of its pods changes, and at pods that lost their Job."""
        if change.kind is JOB:
            return (("job", change.subject.uid),)
        if change.kind is POD:
            pod = change.subject
            controller = find_controller(pod.json)
            if controller:
                return (("job", controller["uid"]),) if controller["kind"] == JOB.kind else ()
            if change.new is not None and is_tracked(pod):
                return (("orphan", pod.uid),)
        return ()

    def reconcile(self, key: Key) -> float | None:
        """Bring one Job's pods and status to what they should be, or let an orphan go."""
        what, uid = key
        stored = self.registry.store.by_uid(uid)
        if what == "job":
            return self._reconcile_job(uid, stored)
        if stored is not None:
            self.release(stored)
        return None

    def _reconcile_job(self, uid: str, stored: Stored | None) -> float | None:
        ended = stored and find_condition(stored.json, "Complete", "Failed")
        if stored is not None and not stored.going and not ended:
            return _Sync(self, stored).run()
        for pod in self.list_pods(uid):
            self.release(pod)
        if stored is None:
            self.backoffs.pop(uid, None)
        elif not stored.going and ended:
            return expire(self.registry, stored, ended)
        return None

    def list_pods(self, uid: str) -> list[Stored]:
        """Return the pods that a Job controls, in the order of index and name."""
        dependents = self.registry.store.dependents(uid)
        pods = (each for each in dependents if each.kind is POD and find_controller(each.json).get("uid") == uid)
        return sorted(pods, key=lambda pod: (find_index(pod), pod.name))

    def release(self, stored: Stored) -> Stored:
        """Return a pod without the tracking finalizer: it is counted, or need not be counted."""
        if not is_tracked(stored):
            return stored
        return self.registry.change(stored, lambda body: body["metadata"]["finalizers"].remove(JOB_TRACKING))


class _Sync:
    """One pass over one Job that is not over."""

    def __init__(self, controller: JobController, stored: Stored) -> None:
        self._controller = controller
        self._registry = controller.registry
        self._stored = stored
        self._spec: Json = stored.json["spec"]
        self._status: Json = stored.body().get("status", {})
        self._completed = parse_indexes(self._status.get("completedIndexes", ""))
        self._again: float | None = None

    def run(self) -> float | None:
        """Count, decide, act, write the status; return virtual seconds until the next look."""
        self._count_ended()
        if not (self._has("SuccessCriteriaMet") or self._has("FailureTarget")):
            if self._has_succeeded():
                self._set("SuccessCriteriaMet", "True", *_COMPLETED)
            elif self._has_failed():
                self._set("FailureTarget", "True", *_FAILED)
        if self._has("SuccessCriteriaMet") or self._has("FailureTarget"):
            for pod in filter(is_active, self._pods()):
                self._delete(pod)
        elif self._spec["suspend"]:
            self._suspend()
        else:
            self._resume()
            self._fill()
        self._write_status()
        return self._again

    def _pods(self) -> list[Stored]:
        return self._controller.list_pods(self._stored.uid)

    def _has(self, condition_type: str) -> bool:
        return find_condition({"status": self._status}, condition_type) is not None

    def _set(self, condition_type: str, status: str, reason: str, message: str) -> bool:
        condition = {"type": condition_type, "status": status, "reason": reason, "message": message}
        return set_condition(self._status, condition, self._registry.clock.timestamp())

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._registry.record(_NAME, self._stored, reason, message, warning=warning)

    def _count_ended(self) -> None:
        failures = 0
        for pod in filter(is_tracked, self._pods()):
            phase = pod.json["status"]["phase"]
            if phase == "Succeeded":
                self._count_success(pod)
            elif phase == "Failed" or (pod.going and not self._spec["suspend"]):
                # After the limit every pod that is stopped counts too; after success none does.
                failures += not self._has("SuccessCriteriaMet")
            elif not pod.going:
                continue
            self._controller.release(pod)
        if failures:
            self._status["failed"] = self._status.get("failed", 0) + failures
            self._back_off()

    def _back_off(self) -> None:
        """Make no new pods for a while, twice as long as the last time."""
        backoffs = self._controller.backoffs
        last, _ = backoffs.get(self._stored.uid, (_BACKOFF_SECONDS / 2, 0.0))
        seconds = min(_BACKOFF_SECONDS_MAX, 2 * last)
        backoffs[self._stored.uid] = seconds, self._registry.clock.now() + seconds

    def _count_success(self, pod: Stored) -> None:
        if self._spec["completionMode"] == "Indexed":
            if 0 <= find_index(pod) < self._spec["completions"]:
                self._completed.add(find_index(pod))
            self._status["completedIndexes"] = format_indexes(self._completed)
            self._status["succeeded"] = len(self._completed)
        else:
            self._status["succeeded"] = self._status.get("succeeded", 0) + 1

    def _has_succeeded(self) -> bool:
        succeeded = self._status.get("succeeded", 0)
        if "completions" not in self._spec:
            return bool(succeeded) and not any(map(is_active, self._pods()))
        return bool(succeeded >= self._spec["completions"])

    def _has_failed(self) -> bool:
        limit = self._spec["backoffLimit"]
        if self._status.get("failed", 0) > limit:
            return True
        if self._spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        # Restarts in place count under OnFailure.
        restarts = sum(map(count_restarts, filter(is_active, self._pods())))
        return restarts > 0 if limit == 0 else restarts >= limit

    def _suspend(self) -> None:
        for pod in filter(is_active, self._pods()):
            self._dismiss(pod)
        if self._set("Suspended", "True", "JobSuspended", "Job suspended"):
            self._event("Suspended", "Job suspended")

    def _resume(self) -> None:
        if self._has("Suspended"):
            self._set("Suspended", "False", "JobResumed", "Job resumed")
            self._status["startTime"] = self._registry.clock.timestamp()
            self._event("Resumed", "Job resumed")
        self._status.setdefault("startTime", self._registry.clock.timestamp())

    def _fill(self) -> None:
        active = list(filter(is_active, self._pods()))
        for pod in active[self._spec["parallelism"] :][::-1]:
            self._dismiss(pod)
        now = self._registry.clock.now()
        _, until = self._controller.backoffs.get(self._stored.uid, (0.0, 0.0))
        if until > now:
            self._again = until - now
            return
        for index in self._list_missing(active):
            try:
                pod = self._registry.create(POD, new_pod(self._stored, index), self._stored.namespace)
            except ApiError as error:
                self._event("FailedCreate", f"Error creating: {error.message}", warning=True)
                self._again = _REFUSED_SECONDS
                return
            self._event("SuccessfulCreate", f"Created pod: {pod.name}")

    def _list_missing(self, active: list[Stored]) -> list[int]:
        """Return the completion indexes that need a pod, leader first; -1 for one without index."""
        room = max(0, self._spec["parallelism"] - len(active))
        if self._spec["completionMode"] == "Indexed":
            taken = {find_index(pod) for pod in active} | self._completed
            return [index for index in range(self._spec["completions"]) if index not in taken][:room]
        if "completions" in self._spec:
            left = self._spec["completions"] - self._status.get("succeeded", 0) - len(active)
            room = max(0, min(room, left))
        return [-1] * room

    def _dismiss(self, pod: Stored) -> None:
        """Delete a pod that is not needed now, without its finalizer: its end is never counted.

        As ``deleteJobPods`` of https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/job/job_controller.go
        """
        self._delete(self._controller.release(pod))

    def _delete(self, pod: Stored) -> None:
        delete(self._registry, pod, BACKGROUND)
        self._event("SuccessfulDelete", f"Deleted pod: {pod.name}")

    def _write_status(self) -> None:
        pods = self._pods()
        active = [pod for pod in pods if is_active(pod)]
        terminating = sum(pod.going and not is_finished(pod.json) for pod in pods)
        if not active and not terminating:
            self._finish()
        self._status["ready"] = sum(find_condition(pod.json, "Ready") is not None for pod in active)
        self._status["terminating"] = terminating
        self._status["active"] = len(active)
        if not active:
            del self._status["active"]
        self._status.setdefault("uncountedTerminatedPods", {})
        self._registry.change_status(self._stored, self._status)

    def _finish(self) -> None:
        if self._has("SuccessCriteriaMet"):
            self._set("Complete", "True", *_COMPLETED)
            self._status["completionTime"] = self._registry.clock.timestamp()
            self._event("Completed", "Job completed")
        elif self._has("FailureTarget"):
            self._set("Failed", "True", *_FAILED)
            self._event(*_FAILED, warning=True)


def is_tracked(pod: Stored) -> bool:
    """Return whether a pod still carries the finalizer, that is, has not been counted."""
    return JOB_TRACKING in pod.json["metadata"].get("finalizers", ())


def is_active(pod: Stored) -> bool:
    """Return whether a pod has neither ended nor is being deleted."""
    return not pod.going and not is_finished(pod.json)


def find_index(pod: Stored) -> int:
    """Return the completion index of a pod, -1 when it has none."""
    text = pod.json["metadata"].get("annotations", {}).get(COMPLETION_INDEX, "")
    return int(text) if text.isdigit() else -1


def count_restarts(pod: Stored) -> int:
    """Return how often the containers of a pod were started again."""
    status = pod.json["status"]
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    return sum(container.get("restartCount", 0) for container in containers)


def new_pod(stored: Stored, index: int) -> Json:
    """Return the body of a new pod of a Job; the index -1 means none."""
    template = stored.body()["spec"]["template"]
    spec: dict[str, Any] = template["spec"]
    metadata = template.get("metadata", {})
    metadata["generateName"] = f"{stored.name}-" if index < 0 else f"{stored.name}-{index}-"
    metadata["finalizers"] = [JOB_TRACKING]
    metadata["ownerReferences"] = [stored.as_controller()]
    if index >= 0:
        for field in ("annotations", "labels"):
            metadata.setdefault(field, {})[COMPLETION_INDEX] = str(index)
        spec.setdefault("hostname", f"{stored.name}-{index}")
        source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
        for container in spec["containers"]:
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
    return {"metadata": metadata, "spec": spec}


def parse_indexes(text: str) -> set[int]:
    """Return the indexes that a `completedIndexes` text names, such as `0-3,7`."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def format_indexes(indexes: set[int]) -> str:
    """Return indexes as text; three or more in a row are written as `first-last`."""
    texts: list[str] = []
    for _, run in groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0]):
        row = [index for _, index in run]
        texts += [f"{row[0]}-{row[-1]}"] if len(row) > 2 else map(str, row)  # noqa: PLR2004
    return ",".join(texts)
