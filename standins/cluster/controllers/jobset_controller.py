"""The JobSet controller: child Jobs, service, restarts, suspension, start order, time to live.

One pass follows the order of the real reconciler, so that a watcher sees the same states: a JobSet
is terminal one pass before its active Jobs are deleted.
Source: https://github.com/kubernetes-sigs/jobset (pkg/controllers, release 0.11.1).
"""

from collections.abc import Iterable
from typing import Any

from standins.cluster.controllers.jobset_children import (
    job_name,
    new_job,
    new_service,
    resumed_template,
    subdomain,
)
from standins.cluster.controllers.jobset_status import ChildJobs, StatusDraft, child_jobs
from standins.cluster.controllers.runner import Controller, Key
from standins.cluster.objects.jobset_shapes import JobSetView
from standins.cluster.objects.label_names import REPLICATED_JOB_NAME
from standins.cluster.objects.shapes import JobView
from standins.cluster.store.errors import ApiError
from standins.cluster.store.kinds import JOB, JOBSET, SERVICE
from standins.cluster.store.stored import Change, Stored
from standins.cluster.writing.deletion import IN_FOREGROUND, delete

Json = dict[str, Any]

NAME = "jobset"
MANAGER = "jobset.sigs.k8s.io/jobset-controller"
_IN_PROGRESS = ("InOrderStartupPolicyInProgress", "in order startup policy is in progress")
_IN_ORDER = ("InOrderStartupPolicyCompleted", "in order startup policy has completed")


class JobSetController(Controller):
    """The controller of jobset.x-k8s.io JobSets."""

    name = "jobsets"

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
        if stored is None or stored.kind is not JOBSET:
            return None
        jobset = stored.view(JobSetView)
        if jobset.metadata.deletion_timestamp is not None or jobset.spec.managed_by not in {None, MANAGER}:
            return None
        draft = StatusDraft(stored, self.registry.clock.timestamp())
        again = self._advance(stored, jobset, draft)
        if self.registry.store.by_uid(stored.uid) is stored:
            self.registry.set_status(stored, draft.status)
            for reason, message, warning in draft.events:
                self.recorder.record(NAME, stored, reason, message, warning=warning)
        return again

    def _advance(self, stored: Stored, jobset: JobSetView, draft: StatusDraft) -> float | None:
        children = child_jobs(self.registry.store, jobset)
        draft.count(children)
        if jobset.finished is not None:
            self._delete_jobs(children.active)
            return self.expire(stored, jobset.spec.ttl_seconds_after_finished, jobset.finished)
        self._delete_jobs(children.previous)
        if children.failed:
            apply_failure_policy(draft, children.failed)
            return None
        if children.successful and has_succeeded(jobset, children.successful):
            draft.complete()
            return None
        self._create_service(stored, jobset)
        self._create_jobs(stored, jobset, children, draft)
        if jobset.spec.suspend:
            self._suspend(children, draft)
        else:
            self._resume(stored, jobset, children, draft)
        return None

    def _delete_jobs(self, jobs: list[Stored]) -> None:
        for job in jobs:
            if job.view(JobView).metadata.deletion_timestamp is None:
                delete(self.registry, job, IN_FOREGROUND)

    def _create_service(self, stored: Stored, jobset: JobSetView) -> None:
        if not jobset.spec.network.enable_dns_hostnames:
            return
        if self.registry.store.get(SERVICE, stored.namespace, subdomain(jobset)) is None:
            self.registry.create(SERVICE, new_service(stored), stored.namespace)

    def _create_jobs(self, stored: Stored, jobset: JobSetView, children: ChildJobs, draft: StatusDraft) -> None:
        in_order = _in_order(jobset) and not jobset.spec.suspend
        for position, replicated in enumerate(jobset.spec.replicated_jobs):
            if in_order and draft.started(replicated.name) == replicated.replicas:
                continue
            self._create_replicas(stored, position, children)
            if in_order:
                draft.set("StartupPolicyInProgress", *_IN_PROGRESS)
                return
        if in_order:
            draft.set("StartupPolicyCompleted", *_IN_ORDER)

    def _create_replicas(self, stored: Stored, position: int, children: ChildJobs) -> None:
        spec = stored.view(JobSetView).spec
        if (
            children.previous
            and spec.failure_policy
            and spec.failure_policy.restart_strategy == "BlockingRecreate"
        ):
            return
        replicated = spec.replicated_jobs[position]
        for index in range(replicated.replicas):
            name = job_name(stored.name, replicated.name, index)
            if name in children.names:
                continue
            try:
                self.registry.create(JOB, new_job(stored, position, index), stored.namespace)
            except ApiError as error:
                message = f'job "{name}" creation failed with error: {error.message}'
                self.recorder.record(NAME, stored, "JobCreationFailed", message, warning=True)
                raise

    def _suspend(self, children: ChildJobs, draft: StatusDraft) -> None:
        for job in children.active:
            if not job.view(JobView).spec.suspend:
                body = job.body()
                body["spec"]["suspend"] = True
                self.registry.replace(JOB, job.namespace, job.name, body)
        draft.set("Suspended", "SuspendedJobs", "jobset is suspended")

    def _resume(self, stored: Stored, jobset: JobSetView, children: ChildJobs, draft: StatusDraft) -> None:
        in_order = _in_order(jobset)
        for position, replicated in enumerate(jobset.spec.replicated_jobs):
            if in_order and draft.started(replicated.name) == replicated.replicas:
                continue
            template = stored.body()["spec"]["replicatedJobs"][position]["template"]["spec"].get("template", {})
            for job in children.active:
                if job.labels.get(REPLICATED_JOB_NAME) == replicated.name and job.view(JobView).spec.suspend:
                    self._resume_job(job, template)
            if in_order:
                draft.set("StartupPolicyInProgress", *_IN_PROGRESS)
                return
        draft.set("Suspended", "ResumeJobs", "jobset is resumed", value=False)

    def _resume_job(self, job: Stored, template: Json) -> None:
        status = job.body().get("status", {})
        # The template of a Job that has started is fixed, so its start is forgotten first.
        if status.pop("startTime", None) is not None:
            job = self.registry.set_status(job, status)
        body = job.body()
        resumed_template(body, template)
        body["spec"]["suspend"] = False
        self.registry.replace(JOB, job.namespace, job.name, body)


def _in_order(jobset: JobSetView) -> bool:
    return jobset.spec.startup_policy.startup_policy_order == "InOrder"


def has_succeeded(jobset: JobSetView, successful: list[Stored]) -> bool:
    """Return whether all Jobs of the replicated jobs that count have succeeded."""
    replicas = {found.name: found.replicas for found in jobset.spec.replicated_jobs}
    targets = jobset.spec.success_policy.target_replicated_jobs or list(replicas)
    done = sum(stored.labels.get(REPLICATED_JOB_NAME) in targets for stored in successful)
    return done >= sum(replicas[name] for name in targets)


def apply_failure_policy(draft: StatusDraft, failed: list[Stored]) -> None:
    """Fail or restart the JobSet because of its failed Jobs; there is at least one."""
    policy = draft.jobset.spec.failure_policy
    first = f"(first failed job: {min(failed, key=_failure_time).name})"
    if policy is None:
        draft.fail("FailedJobs", f"jobset failed due to one or more job failures {first}")
    elif draft.jobset.status.restarts >= policy.max_restarts:
        draft.fail("ReachedMaxRestarts", f"jobset failed due to reaching max number of restarts {first}")
    else:
        draft.restart(f"applying RestartJobSet failure policy action {first}")


def _failure_time(stored: Stored) -> str:
    failure = stored.view(JobView).true_condition("Failed")
    return (failure.last_transition_time if failure is not None else None) or ""
