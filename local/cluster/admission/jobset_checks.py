"""What JobSet's validating webhook says about a new JobSet, in its words.

Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/pkg/webhooks/jobset_webhook.go, alpha gate
InPlaceRestart on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from local.cluster.admission.refusals import Problem
from local.cluster.controllers.jobset_template import coordinator_address, job_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.cluster.jobset_views import JobSetSpec, JobSetView, ReplicatedJob

_MAX_LABEL = 63
_INT32_MAX = 2_147_483_647
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PATH = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/.+")
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_NO_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation "
    "is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NO_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def jobset_problems(jobset: JobSetView) -> Iterator[str]:
    """Yield everything that is wrong."""
    spec = jobset.spec
    if spec.replicated_jobs and spec.replicated_jobs[0].depends_on is not None:
        yield "DependsOn can't be set for the first ReplicatedJob"
    yield from _network_problems(spec)
    if spec.managed_by is not None and not _PATH.fullmatch(spec.managed_by):
        yield _invalid("spec.managedBy", spec.managed_by, 'must be a domain-prefixed path (such as "acme.io/foo")')
    names: set[str] = set()
    for index, replicated in enumerate(spec.replicated_jobs):
        names.add(replicated.name)
        yield from _name_problems(jobset.metadata.name, replicated, f"spec.replicatedJobs[{index}]")
        for dependency in replicated.depends_on or ():
            if dependency.name not in names:
                yield f"replicatedJob: {replicated.name} cannot depend on replicatedJob: {dependency.name}"
    yield from _in_place_problems(spec)
    for target in spec.success_policy.target_replicated_jobs:
        if target not in names:
            yield f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"
    yield from _failure_policy_problems(spec, names)
    yield from _coordinator_problems(jobset)


def _invalid(field: str, value: str, why: str) -> str:
    problem = Problem(field, f'Invalid value: "{value}": {why}')
    return f"{problem.field}: {problem.why}"


def _network_problems(spec: JobSetSpec) -> Iterator[str]:
    subdomain, field = spec.network.subdomain, "spec.network.subdomain"
    if not subdomain:
        return
    if not _DNS_NAME.fullmatch(subdomain):
        yield _invalid(field, subdomain, _NO_NAME)
    if len(subdomain) > _MAX_LABEL:
        yield _invalid(field, subdomain, ".spec.network.subdomain is too long, must be less than 63 characters")
    if not _DNS_LABEL.fullmatch(subdomain):
        yield _invalid(field, subdomain, _NO_LABEL)


def _name_problems(jobset_name: str, replicated: ReplicatedJob, field: str) -> Iterator[str]:
    job = job_name(jobset_name, replicated.name, replicated.replicas - 1)
    completions = replicated.template.spec.completions
    if len(replicated.group_name) > _MAX_LABEL:
        yield _invalid(f"{field}.groupName", replicated.group_name, "must be no more than 63 characters")
    if not _DNS_LABEL.fullmatch(replicated.group_name):
        yield _invalid(f"{field}.groupName", replicated.group_name, _NO_LABEL)
    made = [("job", job)] + ([("pod", f"{job}-{completions - 1}-abcde")] if completions is not None else [])
    for what, name in made:
        if len(name) > _MAX_LABEL:
            why = f"JobSet name is too long, {what} names generated for this JobSet will exceed 63 characters"
            yield _invalid(f"{field}.name", job, why)
        if not _DNS_LABEL.fullmatch(name):
            yield _invalid(f"{field}.name", job, _NO_LABEL)


def _in_place_problems(spec: JobSetSpec) -> Iterator[str]:
    if spec.failure_policy is None or spec.failure_policy.restart_strategy != "InPlaceRestart":
        return
    for index, replicated in enumerate(spec.replicated_jobs):
        job, field = replicated.template.spec, f"spec.replicatedJobs[{index}].template.spec"
        who = f"replicatedJob {replicated.name}"
        if job.backoff_limit != _INT32_MAX:
            must = f"must be set to {_INT32_MAX} (MaxInt32) when in-place restart is enabled"
            yield f"{field}.backoffLimit: Invalid value: {_shown(job.backoff_limit)}: {who}: {must}"
        if job.pod_replacement_policy != "Failed":
            value = f'"{job.pod_replacement_policy}"' if job.pod_replacement_policy else "null"
            must = "must be set to Failed when in-place restart is enabled"
            yield f"{field}.podReplacementPolicy: Invalid value: {value}: {who}: {must}"
        if job.completions is None or job.completions != job.parallelism:
            must = (
                "completions and parallelism must be set and equal to each other when in-place restart is enabled"
            )
            yield f"{field}.completions: Invalid value: {_shown(job.completions)}: {who}: {must}"


def _shown(number: int | None) -> str:
    return "null" if number is None else str(number)


def _failure_policy_problems(spec: JobSetSpec, names: set[str]) -> Iterator[str]:
    rules = spec.failure_policy.rules if spec.failure_policy is not None else []
    for rule in rules:
        if not _RULE_NAME.fullmatch(rule.name):
            yield (
                f"invalid failure policy rule name '{rule.name}', a failure policy rule name must start with an "
                "alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and "
                "must end with an alphanumeric character or '_'"
            )
        for target in rule.target_replicated_jobs:
            if target not in names:
                yield (
                    f"invalid replicatedJob name '{target}' in failure policy does not appear in "
                    ".spec.ReplicatedJobs"
                )
        for reason in rule.on_job_failure_reasons:
            if reason not in _FAILURE_REASONS:
                known = "is not a recognized job failure reason"
                yield f"invalid job failure reason '{reason}' in failure policy {known}"
    rule_names = [rule.name for rule in rules]
    for name in dict.fromkeys(rule_names):
        indexes = " ".join(str(index) for index, found in enumerate(rule_names) if found == name)
        if " " in indexes:
            yield f"rule names are not unique, rules with indices [{indexes}] all have the same name '{name}'"


def _coordinator_problems(jobset: JobSetView) -> Iterator[str]:
    coordinator = jobset.spec.coordinator
    if coordinator is None:
        return
    found = next((r for r in jobset.spec.replicated_jobs if r.name == coordinator.replicated_job), None)
    if found is None:
        yield f"coordinator replicatedJob {coordinator.replicated_job} does not exist"
        return
    if not 0 <= coordinator.job_index < found.replicas:
        yield f"coordinator job index {coordinator.job_index} is invalid for replicatedJob {found.name}"
        return
    completions = found.template.spec.completions
    if completions is None or found.template.spec.completion_mode != "Indexed":
        yield "job for coordinator pod must be indexed completion mode, and completions number must be set"
    elif not 0 <= coordinator.pod_index < completions:
        place = f"replicatedJob {found.name} job index {coordinator.job_index}"
        yield f"coordinator pod index {coordinator.pod_index} is invalid for {place}"
    address = coordinator_address(jobset)
    if len(address) > _MAX_LABEL:
        yield (
            f'spec will lead to invalid label value "{address}" for coordinator label '
            '"jobset.sigs.k8s.io/coordinator" (long JobSet / ReplicatedJob / SubDomain name?): '
            f"must be no more than {_MAX_LABEL} characters"
        )
