"""The Job controller: creates pods, counts how they end, decides when the Job is over.

A pod's tracking finalizer is the mark "not counted yet", so that no pod is counted twice or lost.
Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from local.cluster.controllers.indexes import format_indexes, parse_indexes
from local.cluster.controllers.job_pods import (
    JobPod,
    counts_as_failed,
    missing_indexes,
    new_pod,
    pods_of,
    surplus,
)
from local.cluster.controllers.moments import seconds_since
from local.cluster.deletion import BACKGROUND, IN_FOREGROUND, delete
from local.cluster.errors import ApiError
from local.cluster.labels import JOB_TRACKING
from local.cluster.registry import set_condition
from local.cluster.store.kinds import JOB, POD
from local.cluster.views import JobView, PodView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local.cluster.controllers.runner import Key
    from local.cluster.recorder import Recorder
    from local.cluster.registry import Registry
    from local.cluster.store.stored import Change, Stored

Json = dict[str, Any]

NAME = "job-controller"
_CREATE_BACKOFF_SECONDS = (1.0, 60.0)
_FAILURE_BACKOFF_SECONDS = (10.0, 600.0)
_COMPLETED = ("CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(frozen=True)
class Wait:
    """A back-off: how often in a row, and until when on the monotonic clock."""

    count: int
    until: float


class JobController:
    """The controller of batch/v1 Jobs."""

    name = "jobs"

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        self.registry = registry
        self.recorder = recorder
        self.refused: dict[str, Wait] = {}
        self.failed: dict[str, Wait] = {}

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a Job when it or one of its pods changes, and at pods that lost their Job."""
        if change.kind is JOB:
            return (("job", change.subject.uid),)
        if change.kind is POD:
            pod = change.subject.view(PodView)
            controller = pod.metadata.controller
            if controller is not None:
                self._note_binding(change, controller.uid)
                return (("job", controller.uid),) if controller.kind == JOB.kind else ()
            if change.new is not None and JOB_TRACKING in pod.metadata.finalizers:
                return (("orphan", change.new.uid),)
        return ()

    def _note_binding(self, change: Change, job_uid: str) -> None:
        """After a leader is bound its followers are tried at once, whatever the back-off."""
        before = change.old.fields["spec.nodeName"] if change.old is not None else ""
        if change.new is not None and change.new.fields["spec.nodeName"] != before:
            self.refused.pop(job_uid, None)

    def reconcile(self, key: Key) -> float | None:
        """Bring one Job's pods and status to what they should be."""
        what, uid = key
        stored = self.registry.store.by_uid(uid)
        if what == "orphan":
            if stored is not None:
                self.release(stored)
            return None
        pods = pods_of(self.registry.store, uid)
        if stored is None:
            self.refused.pop(uid, None)
            self.failed.pop(uid, None)
            for pod in pods:
                self.release(pod.stored)
            return None
        job = stored.view(JobView)
        if job.spec.managed_by not in {None, "kubernetes.io/job-controller"}:
            return None
        if job.metadata.deletion_timestamp is not None:
            for pod in pods:
                self.release(pod.stored)
            return None
        if job.finished:
            return self._after_the_end(stored, job, pods)
        return _Sync(self, stored, job, pods).run()

    def release(self, stored: Stored) -> Stored:
        """Return a pod without the tracking finalizer: it has been counted, or nobody counts any more."""
        body = stored.body()
        finalizers = body["metadata"].get("finalizers", [])
        if JOB_TRACKING not in finalizers:
            return stored
        finalizers.remove(JOB_TRACKING)
        return self.registry.write(POD, stored, body)

    def _after_the_end(self, stored: Stored, job: JobView, pods: list[JobPod]) -> float | None:
        for pod in pods:
            self.release(pod.stored)
        ttl = job.spec.ttl_seconds_after_finished
        if ttl is None:
            return None
        ended = job.true_condition("Complete") or job.true_condition("Failed")
        at = ended.last_transition_time if ended is not None else None
        left = ttl - seconds_since(at, self.registry.clock)
        if left > 0:
            return left
        delete(self.registry, stored, IN_FOREGROUND)
        return None


class _Sync:
    """One pass over one Job that is not over."""

    def __init__(self, controller: JobController, stored: Stored, job: JobView, pods: list[JobPod]) -> None:
        self._controller = controller
        self._registry = controller.registry
        self._stored = stored
        self._job = job
        self._pods = pods
        self._status: Json = stored.body().get("status", {})
        self._completed = parse_indexes(job.status.completed_indexes)

    def run(self) -> float | None:
        """Count, decide, act, write the status; return virtual seconds until the next look."""
        self._count_ended()
        again: list[float] = []
        if self._has("SuccessCriteriaMet") or self._has("FailureTarget"):
            self._stop_pods()
        elif self._succeeded():
            self._set("SuccessCriteriaMet", "True", *_COMPLETED)
            self._stop_pods()
        elif (reason := self._failure(again)) is not None:
            self._set("FailureTarget", "True", *reason)
            self._stop_pods()
        elif self._job.spec.suspend:
            self._suspend()
        else:
            self._resume()
            self._fill(again)
        self._write_status()
        return min(again, default=None)

    def _has(self, condition_type: str) -> bool:
        conditions = self._status.get("conditions", [])
        return any(found["type"] == condition_type and found["status"] == "True" for found in conditions)

    def _set(self, condition_type: str, status: str, reason: str, message: str) -> bool:
        condition = {"type": condition_type, "status": status, "reason": reason, "message": message}
        return set_condition(self._status, condition, self._registry.clock.timestamp())

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        self._controller.recorder.record(NAME, self._stored, reason, message, warning=warning)

    def _count_ended(self) -> None:
        failures = 0
        for pod in self._pods:
            if not pod.tracked:
                continue
            if pod.view.status.phase == "Succeeded":
                self._count_success(pod)
            elif counts_as_failed(self._job, pod):
                # After the limit every pod that is stopped counts too; after success none does.
                failures += not self._has("SuccessCriteriaMet")
            elif not (pod.terminating and self._job.spec.suspend):
                continue
            self._controller.release(pod.stored)
        if failures:
            self._status["failed"] = self._status.get("failed", 0) + failures
            self._wait(self._controller.failed, *_FAILURE_BACKOFF_SECONDS)

    def _wait(self, waits: dict[str, Wait], first_seconds: float, cap_seconds: float) -> None:
        """Back off, twice as long as the last time."""
        known = waits.get(self._stored.uid)
        count = min(known.count, 10) if known is not None else 0
        clock = self._registry.clock
        seconds = min(cap_seconds, first_seconds * 2**count)
        waits[self._stored.uid] = Wait(count + 1, clock.monotonic() + clock.real_seconds(seconds))

    def _left(self, waits: dict[str, Wait]) -> float:
        """Return the virtual seconds that a back-off still lasts."""
        known = waits.get(self._stored.uid)
        clock = self._registry.clock
        return (known.until - clock.monotonic()) * clock.speed if known is not None else 0.0

    def _count_success(self, pod: JobPod) -> None:
        if self._job.spec.completion_mode == "Indexed":
            if pod.index is not None and pod.index < (self._job.spec.completions or 0):
                self._completed.add(pod.index)
            self._status["completedIndexes"] = format_indexes(self._completed)
            self._status["succeeded"] = len(self._completed)
        else:
            self._status["succeeded"] = self._status.get("succeeded", 0) + 1

    def _succeeded(self) -> bool:
        succeeded = self._status.get("succeeded", 0)
        if self._job.spec.completions is None:
            return bool(succeeded) and not any(pod.active for pod in self._pods)
        return bool(succeeded >= self._job.spec.completions)

    def _failure(self, again: list[float]) -> tuple[str, str] | None:
        limit = 6 if self._job.spec.backoff_limit is None else self._job.spec.backoff_limit
        if self._status.get("failed", 0) > limit or self._restarted_too_often(limit):
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline = self._job.spec.active_deadline_seconds
        if deadline is None or self._job.spec.suspend or self._job.status.start_time is None:
            return None
        left = deadline - seconds_since(self._job.status.start_time, self._registry.clock)
        if left <= 0:
            return "DeadlineExceeded", "Job was active longer than specified deadline"
        again.append(left)
        return None

    def _restarted_too_often(self, limit: int) -> bool:
        """Return whether restarts in place, which count as failures under OnFailure, reach the limit."""
        if self._job.spec.template.spec.restart_policy != "OnFailure":
            return False
        restarts = sum(
            container.restart_count
            for pod in self._pods
            if pod.active
            for container in pod.view.status.all_container_statuses
        )
        return restarts > 0 if limit == 0 else restarts >= limit

    def _stop_pods(self) -> None:
        for pod in self._refreshed():
            if pod.active:
                self._delete(pod)

    def _suspend(self) -> None:
        for pod in self._refreshed():
            if pod.active:
                self._dismiss(pod)
        if self._set("Suspended", "True", "JobSuspended", "Job suspended"):
            self._event("Suspended", "Job suspended")

    def _resume(self) -> None:
        if self._has("Suspended"):
            self._set("Suspended", "False", "JobResumed", "Job resumed")
            self._status["startTime"] = self._registry.clock.timestamp()
            self._event("Resumed", "Job resumed")
        self._status.setdefault("startTime", self._registry.clock.timestamp())

    def _fill(self, again: list[float]) -> None:
        self._pods = self._refreshed()
        for pod in surplus(self._job, self._pods):
            self._dismiss(pod)
        refused, failed = self._controller.refused, self._controller.failed
        left = max(self._left(failed), self._left(refused))
        if left > 0:
            again.append(left)
            return
        for index in missing_indexes(self._job, self._pods, self._completed):
            try:
                created = self._registry.create(POD, new_pod(self._stored, index), self._stored.namespace)
            except ApiError as error:
                self._event("FailedCreate", f"Error creating: {error.message}", warning=True)
                self._wait(refused, *_CREATE_BACKOFF_SECONDS)
                again.append(self._left(refused))
                return
            self._event("SuccessfulCreate", f"Created pod: {created.name}")
        refused.pop(self._stored.uid, None)

    def _dismiss(self, pod: JobPod) -> None:
        """Delete a pod that is not needed now; it is let go first, so that nobody ever counts how it ends.

        As ``deleteJobPods`` of https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/job/job_controller.go
        """
        self._delete(replace(pod, stored=self._controller.release(pod.stored)))

    def _delete(self, pod: JobPod) -> None:
        delete(self._registry, pod.stored, BACKGROUND)
        self._event("SuccessfulDelete", f"Deleted pod: {pod.stored.name}")

    def _refreshed(self) -> list[JobPod]:
        return pods_of(self._registry.store, self._stored.uid)

    def _write_status(self) -> None:
        pods = self._refreshed()
        counts = {
            "active": sum(pod.active for pod in pods),
            "ready": sum(pod.ready for pod in pods),
            "terminating": sum(pod.terminating for pod in pods),
        }
        if not counts["active"] and not counts["terminating"]:
            self._finish()
        for field, count in counts.items():
            self._status[field] = count
        if not counts["active"]:
            del self._status["active"]
        self._status.setdefault("uncountedTerminatedPods", {})
        self._registry.set_status(self._stored, self._status)

    def _finish(self) -> None:
        conditions = {found["type"]: found for found in self._status.get("conditions", [])}
        if self._has("SuccessCriteriaMet"):
            self._set("Complete", "True", *_COMPLETED)
            self._status["completionTime"] = self._registry.clock.timestamp()
            self._event("Completed", "Job completed")
        elif self._has("FailureTarget"):
            target = conditions["FailureTarget"]
            self._set("Failed", "True", target["reason"], target["message"])
            self._event(target["reason"], target["message"], warning=True)
