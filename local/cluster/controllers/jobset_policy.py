"""When a JobSet has succeeded and what its failed Jobs lead to: its success and failure policies.

Source: https://jobset.sigs.k8s.io/docs/concepts/ and https://github.com/kubernetes-sigs/jobset
(pkg/controllers/failure_policy.go, success_policy.go, release 0.11.1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from local.cluster.labels import REPLICATED_JOB_NAME
from local.cluster.views import Condition, JobView

if TYPE_CHECKING:
    from local.cluster.controllers.jobset_status import StatusDraft
    from local.cluster.jobset_views import FailureRule, JobSetView
    from local.cluster.store.stored import Stored

_RESTARTS = {"RestartJobSet": True, "RestartJobSetAndIgnoreMaxRestarts": False}


def has_succeeded(jobset: JobSetView, successful: list[Stored]) -> bool:
    """Return whether enough Jobs have succeeded."""
    policy = jobset.spec.success_policy
    targets = policy.target_replicated_jobs or [found.name for found in jobset.spec.replicated_jobs]
    done = sum(stored.labels.get(REPLICATED_JOB_NAME) in targets for stored in successful)
    if policy.operator == "Any":
        return done >= 1
    return done >= sum(found.replicas for found in jobset.spec.replicated_jobs if found.name in targets)


def apply_failure_policy(draft: StatusDraft, failed: list[Stored]) -> None:
    """Fail or restart the JobSet because of its failed Jobs; there is at least one."""
    policy = draft.jobset.spec.failure_policy
    first = min(failed, key=_failure_time)
    if policy is None:
        draft.fail("FailedJobs", _naming("jobset failed due to one or more job failures", first))
        return
    rule, job = _first_match(policy.rules, failed)
    job = job or first
    action = rule.action if rule is not None else "RestartJobSet"
    if action == "FailJobSet":
        draft.fail("FailJobSetFailurePolicyAction", _naming("applying FailJobSet failure policy action", job))
        return
    counts = _RESTARTS[action]
    if counts and draft.jobset.status.restarts_count_towards_max >= policy.max_restarts:
        draft.fail("ReachedMaxRestarts", _naming("jobset failed due to reaching max number of restarts", job))
        return
    draft.restart(
        event=f"{action}FailurePolicyAction",
        message=_naming(f"applying {action} failure policy action", job),
        counts=counts,
    )


def _naming(message: str, job: Stored) -> str:
    return f"{message} (first failed job: {job.name})"


def _failure(stored: Stored) -> Condition:
    found = stored.view(JobView).true_condition("Failed")
    return found or Condition("Failed", "True")


def _failure_time(stored: Stored) -> str:
    return _failure(stored).last_transition_time or ""


def _first_match(rules: list[FailureRule], failed: list[Stored]) -> tuple[FailureRule | None, Stored | None]:
    for rule in rules:
        matching = [stored for stored in failed if _matches(rule, stored)]
        if matching:
            return rule, min(matching, key=_failure_time)
    return None, None


def _matches(rule: FailureRule, stored: Stored) -> bool:
    failure = _failure(stored)
    if rule.on_job_failure_reasons and failure.reason not in rule.on_job_failure_reasons:
        return False
    patterns = rule.on_job_failure_message_patterns
    if patterns and not any(re.search(pattern, failure.message) for pattern in patterns):
        return False
    replicated = stored.labels.get(REPLICATED_JOB_NAME)
    return not rule.target_replicated_jobs or replicated in rule.target_replicated_jobs
