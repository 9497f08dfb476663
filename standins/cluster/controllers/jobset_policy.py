"""When a JobSet has succeeded, and whether a failed Job restarts it or fails it.

Source: https://github.com/kubernetes-sigs/jobset (pkg/controllers/failure_policy.go,
success_policy.go, release 0.11.1).
"""

from standins.cluster.controllers.jobset_status import StatusDraft
from standins.cluster.objects.jobset_shapes import JobSetView
from standins.cluster.objects.label_names import REPLICATED_JOB_NAME
from standins.cluster.objects.shapes import JobView
from standins.cluster.store.stored import Stored


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
