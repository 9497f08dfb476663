"""The Job controller: it creates pods, counts how they end, and decides when the Job is over.

A pod carries the tracking finalizer until it is counted, so that no pod is counted twice or lost.
Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from standins.cluster.controllers.pods_of_job import (
    JobPod,
    counts_as_failed,
    format_indexes,
    missing_indexes,
    new_pod,
    parse_indexes,
    pods_of,
    surplus,
)
from standins.cluster.controllers.runner import Controller, Key
from standins.cluster.objects.conditions import set_condition
from standins.cluster.objects.label_names import JOB_TRACKING
from standins.cluster.objects.shapes import JobView, PodView
from standins.cluster.store.errors import ApiError
from standins.cluster.store.kinds import JOB, POD
from standins.cluster.store.stored import Change, Stored
from standins.cluster.writing.deletion import BACKGROUND, delete
from standins.cluster.writing.event_recorder import Recorder
from standins.cluster.writing.registry import Registry

Json = dict[str, Any]

NAME = "job-controller"
_REFUSED_SECONDS = 60.0
"""Until the next try after a pod was refused. A Job also tries when one of its pods changes."""
_BACKOFF_SECONDS, _BACKOFF_SECONDS_MAX = 10.0, 600.0
_COMPLETED = ("CompletionsReached", "Reached expected number of succeeded pods")
_FAILED = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")


class JobController(Controller):
    """The controller of batch/v1 Jobs."""

    name = "jobs"

    def __init__(self, registry: Registry, recorder: Recorder) -> None:
        super().__init__(registry, recorder)
        self.backoffs: dict[str, tuple[float, float]] = {}
        """By Job: the seconds of its back-off, and until when on the monotonic clock."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a Job when it or one of its pods changes, and at pods that lost their Job."""
        if change.kind is JOB:
            return (("job", change.subject.uid),)
        if change.kind is POD:
            pod = change.subject.view(PodView)
            controller = pod.metadata.controller
            if controller is not None:
                return (("job", controller.uid),) if controller.kind == JOB.kind else ()
            if change.new is not None and JOB_TRACKING in pod.metadata.finalizers:
                return (("orphan", change.new.uid),)
        return ()

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
            self.backoffs.pop(uid, None)
            self._let_go(pods)
            return None
        job = stored.view(JobView)
        if job.metadata.deletion_timestamp is None and not job.finished:
            return _Sync(self, stored, job, pods).run()
        self._let_go(pods)
        if job.metadata.deletion_timestamp is not None:
            return None
        ended = job.true_condition("Complete") or job.true_condition("Failed")
        return self.expire(stored, job.spec.ttl_seconds_after_finished, ended)

    def _let_go(self, pods: list[JobPod]) -> None:
        for pod in pods:
            self.release(pod.stored)

    def release(self, stored: Stored) -> Stored:
        """Return a pod without the tracking finalizer: it is counted, or need not be counted."""
        body = stored.body()
        finalizers = body["metadata"].get("finalizers", [])
        if JOB_TRACKING not in finalizers:
            return stored
        finalizers.remove(JOB_TRACKING)
        return self.registry.write(POD, stored, body)


class _Sync:
    """One pass over one Job that is not over."""

    def __init__(self, controller: JobController, stored: Stored, job: JobView, pods: list[JobPod]) -> None:
        self._controller = controller
        self.registry = controller.registry
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
        elif self._has_failed():
            self._set("FailureTarget", "True", *_FAILED)
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
        return set_condition(self._status, condition, self.registry.clock.timestamp())

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
            self._back_off()

    def _back_off(self) -> None:
        """Make no new pods for a while, twice as long as the last time."""
        clock, backoffs = self.registry.clock, self._controller.backoffs
        last, _ = backoffs.get(self._stored.uid, (_BACKOFF_SECONDS / 2, 0.0))
        seconds = min(_BACKOFF_SECONDS_MAX, 2 * last)
        backoffs[self._stored.uid] = seconds, clock.monotonic() + clock.real_seconds(seconds)

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

    def _has_failed(self) -> bool:
        limit = 6 if self._job.spec.backoff_limit is None else self._job.spec.backoff_limit
        return self._status.get("failed", 0) > limit or self._restarted_too_often(limit)

    def _restarted_too_often(self, limit: int) -> bool:
        """Return whether restarts in place, which count under OnFailure, reach the limit."""
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
            self._status["startTime"] = self.registry.clock.timestamp()
            self._event("Resumed", "Job resumed")
        self._status.setdefault("startTime", self.registry.clock.timestamp())

    def _fill(self, again: list[float]) -> None:
        self._pods = self._refreshed()
        for pod in surplus(self._job, self._pods):
            self._dismiss(pod)
        clock = self.registry.clock
        _, until = self._controller.backoffs.get(self._stored.uid, (0.0, 0.0))
        if until > clock.monotonic():
            again.append((until - clock.monotonic()) * clock.speed)
            return
        for index in missing_indexes(self._job, self._pods, self._completed):
            try:
                created = self.registry.create(POD, new_pod(self._stored, index), self._stored.namespace)
            except ApiError as error:
                self._event("FailedCreate", f"Error creating: {error.message}", warning=True)
                again.append(_REFUSED_SECONDS)
                return
            self._event("SuccessfulCreate", f"Created pod: {created.name}")

    def _dismiss(self, pod: JobPod) -> None:
        """Delete a pod that is not needed now, without its finalizer: its end is never counted.

        As ``deleteJobPods`` of https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/job/job_controller.go
        """
        self._delete(replace(pod, stored=self._controller.release(pod.stored)))

    def _delete(self, pod: JobPod) -> None:
        delete(self.registry, pod.stored, BACKGROUND)
        self._event("SuccessfulDelete", f"Deleted pod: {pod.stored.name}")

    def _refreshed(self) -> list[JobPod]:
        return pods_of(self.registry.store, self._stored.uid)

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
        self.registry.set_status(self._stored, self._status)

    def _finish(self) -> None:
        if self._has("SuccessCriteriaMet"):
            self._set("Complete", "True", *_COMPLETED)
            self._status["completionTime"] = self.registry.clock.timestamp()
            self._event("Completed", "Job completed")
        elif self._has("FailureTarget"):
            self._set("Failed", "True", *_FAILED)
            self._event(*_FAILED, warning=True)
