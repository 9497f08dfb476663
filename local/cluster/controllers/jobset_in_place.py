"""Restarts in place: the JobSet controller's side of the barrier at which the agents in its pods wait.

An agent writes into its pod which attempt it has reached. When all pods have reached the same one, it becomes the
current attempt and work begins; when one is ahead, all attempts before it are over and the others must follow.
Source: https://github.com/kubernetes-sigs/jobset (pkg/controllers/in_place_restart.go, release 0.11.1, alpha gate
InPlaceRestart on).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.cluster.labels import IN_PLACE_RESTART_ATTEMPT, JOBSET_NAME
from local.cluster.store.kinds import POD
from local.cluster.views import PodView

if TYPE_CHECKING:
    from local.cluster.controllers.jobset_status import StatusDraft
    from local.cluster.jobset_views import FailurePolicy, JobSetView
    from local.cluster.store.store import Store

STRATEGY = "InPlaceRestart"
_CURRENT, _PREVIOUS = "currentInPlaceRestartAttempt", "previousInPlaceRestartAttempt"
_REACHED = ("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")


def restarts_in_place(jobset: JobSetView) -> bool:
    """Return whether the JobSet asks for restarts in place."""
    policy = jobset.spec.failure_policy
    return policy is not None and policy.restart_strategy == STRATEGY


def advance_attempts(store: Store, draft: StatusDraft) -> None:
    """Begin the attempt that all pods have reached, or end those that one of them has left behind."""
    jobset = draft.jobset
    policy = jobset.spec.failure_policy
    if policy is None or policy.restart_strategy != STRATEGY:
        return
    pods = _pods(store, jobset)
    attempts = _attempts(pods)
    if _most_restarts(pods) > policy.max_restarts or _is_over_limit(jobset, policy, attempts):
        draft.fail(*_REACHED)
    elif len(attempts) == _wanted_pods(jobset) and len(set(attempts)) == 1:
        draft.status[_CURRENT] = attempts[0]
    elif attempts and max(attempts) > 0:
        draft.status[_PREVIOUS] = max(max(attempts) - 1, draft.status.get(_PREVIOUS, 0))


def _pods(store: Store, jobset: JobSetView) -> list[PodView]:
    found = store.objects(POD, jobset.metadata.namespace)
    return [pod.view(PodView) for pod in found if pod.labels.get(JOBSET_NAME) == jobset.metadata.name]


def _attempts(pods: list[PodView]) -> list[int]:
    """Return the attempts that agents have written; a pod without one has only just begun."""
    texts = (pod.metadata.annotations.get(IN_PLACE_RESTART_ATTEMPT) for pod in pods)
    return [int(text) for text in texts if text is not None and text.isdecimal()]


def _most_restarts(pods: list[PodView]) -> int:
    return max((found.restart_count for pod in pods for found in pod.status.all_container_statuses), default=0)


def _is_over_limit(jobset: JobSetView, policy: FailurePolicy, attempts: list[int]) -> bool:
    uncounted = jobset.status.restarts - jobset.status.restarts_count_towards_max
    return max(attempts, default=0) - uncounted > policy.max_restarts


def _wanted_pods(jobset: JobSetView) -> int:
    return sum(found.replicas * found.template.spec.width for found in jobset.spec.replicated_jobs)
