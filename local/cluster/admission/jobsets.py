"""Admission of JobSets: the defaults and checks of its webhooks and of its schema.

Source: https://github.com/kubernetes-sigs/jobset (pkg/webhooks/jobset_webhook.go and the CRD,
main branch of August 2026, gates off).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from local.cluster.admission.pods import check_spec, write_quantities
from local.cluster.errors import ApiError, denied, invalid
from local.cluster.jobset_views import JobSetView
from local.cluster.store.kinds import JOBSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.cluster.jobset_views import JobSetSpec, ReplicatedJob

Json = dict[str, Any]

_WEBHOOK = "vjobset.kb.io"
_MAX_LABEL = 63
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_VALID = {
    "successPolicy.operator": ("All", "Any"),
    "startupPolicy.startupPolicyOrder": ("AnyOrder", "InOrder"),
    "failurePolicy.restartStrategy": ("Recreate", "BlockingRecreate"),
    "failurePolicy.rules[].action": ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"),
    "replicatedJobs[].dependsOn[].status": ("Ready", "Complete"),
}
_CHANGEABLE_WHEN_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates")


def admit_new(body: Json) -> None:
    """Default and check a new JobSet in place.

    Raises:
        ApiError: 403 (its webhook) or 422 (its schema).
    """
    _default(body.setdefault("spec", {}))
    jobset = msgspec.convert(body, type=JobSetView)
    _check_schema(jobset)
    problems = list(_problems(jobset))
    if problems:
        raise denied(_WEBHOOK, "; ".join(problems))
    _settle_templates(body)


def _settle_templates(body: Json) -> None:
    """Check the pod templates and write their quantities as text, as decoding them into API types does."""
    for index, replicated in enumerate(body["spec"].get("replicatedJobs", [])):
        spec = replicated["template"]["spec"]["template"]["spec"]
        field = f"spec.replicatedJobs[{index}].template.spec.template.spec"
        try:
            check_spec(body["metadata"]["name"], spec, field)
        except ApiError as error:
            message = error.message.replace("Pod ", "JobSet ", 1)
            raise ApiError(error.code, error.reason, message, error.details) from error
        write_quantities(spec)


def admit_change(old: Json, new: Json) -> None:
    """Default a changed JobSet; refuse changes of replicated jobs, but for the pod template while suspended.

    Raises:
        ApiError: 422, naming the field.
    """
    _default(new.setdefault("spec", {}))
    _settle_templates(new)
    before, after = old["spec"], new["spec"]
    suspended = bool(before.get("suspend") or after.get("suspend"))
    if _fixed_part(before, suspended=suspended) != _fixed_part(after, suspended=suspended):
        raise invalid(JOBSET, new["metadata"]["name"], "spec.replicatedJobs", "Invalid value: field is immutable")
    if before.get("managedBy") != after.get("managedBy"):
        raise invalid(JOBSET, new["metadata"]["name"], "spec.managedBy", "Invalid value: field is immutable")


def _fixed_part(spec: Json, *, suspended: bool) -> list[Json]:
    replicated_jobs: list[Json] = msgspec.json.decode(msgspec.json.encode(spec.get("replicatedJobs", [])))
    for replicated in replicated_jobs if suspended else ():
        template = replicated["template"]["spec"].get("template", {})
        for field in ("labels", "annotations"):
            template.get("metadata", {}).pop(field, None)
        if not template.get("metadata"):
            template.pop("metadata", None)
        for field in _CHANGEABLE_WHEN_SUSPENDED:
            template.get("spec", {}).pop(field, None)
    return replicated_jobs


def _default(spec: Json) -> None:
    spec.setdefault("successPolicy", {}).setdefault("operator", "All")
    spec.setdefault("startupPolicy", {}).setdefault("startupPolicyOrder", "AnyOrder")
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for replicated in spec.get("replicatedJobs", []):
        replicated.setdefault("replicas", 1)
        replicated.setdefault("groupName", "default")
        job = replicated["template"].setdefault("spec", {})
        job.setdefault("completionMode", "Indexed")
        job.setdefault("template", {}).setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
    if "failurePolicy" in spec:
        policy = spec["failurePolicy"]
        policy.setdefault("maxRestarts", 0)
        policy.setdefault("restartStrategy", "Recreate")
        for index, rule in enumerate(policy.get("rules", [])):
            rule["name"] = rule.get("name") or f"failurePolicyRule{index}"


def _check_schema(jobset: JobSetView) -> None:
    spec = jobset.spec
    used: list[tuple[str, str]] = [
        ("successPolicy.operator", spec.success_policy.operator),
        ("startupPolicy.startupPolicyOrder", spec.startup_policy.startup_policy_order),
    ]
    if spec.failure_policy is not None:
        used.append(("failurePolicy.restartStrategy", spec.failure_policy.restart_strategy))
        used.extend(("failurePolicy.rules[].action", rule.action) for rule in spec.failure_policy.rules)
    for replicated in spec.replicated_jobs:
        used.extend(("replicatedJobs[].dependsOn[].status", found.status) for found in replicated.depends_on or ())
    for field, value in used:
        if value not in _VALID[field]:
            supported = ", ".join(f'"{valid}"' for valid in _VALID[field])
            why = f'Unsupported value: "{value}": supported values: {supported}'
            raise invalid(JOBSET, jobset.metadata.name, f"spec.{field}", why)


def _problems(jobset: JobSetView) -> Iterator[str]:
    spec = jobset.spec
    names: list[str] = []
    for replicated in spec.replicated_jobs:
        if replicated.name in names:
            yield f'spec.replicatedJobs: Duplicate value: "{replicated.name}"'
        names.append(replicated.name)
        yield from _name_problems(jobset.metadata.name, replicated)
        for dependency in replicated.depends_on or ():
            if dependency.name not in names[:-1]:
                yield f"replicatedJob: {replicated.name} cannot depend on replicatedJob: {dependency.name}"
    if spec.replicated_jobs and spec.replicated_jobs[0].depends_on is not None:
        yield "DependsOn can't be set for the first ReplicatedJob"
    in_order = spec.startup_policy.startup_policy_order == "InOrder"
    if in_order and any(replicated.depends_on for replicated in spec.replicated_jobs):
        yield "startupPolicy InOrder and dependsOn are mutually exclusive"
    for target in spec.success_policy.target_replicated_jobs:
        if target not in names:
            yield f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"
    yield from _failure_policy_problems(spec, names)
    yield from _coordinator_problems(spec)


def _name_problems(jobset_name: str, replicated: ReplicatedJob) -> Iterator[str]:
    job = f"{jobset_name}-{replicated.name}-{replicated.replicas - 1}"
    completions = replicated.template.spec.completions
    pod = f"{job}-{completions - 1}-abcde" if completions else job
    if not _DNS_LABEL.fullmatch(job):
        yield f"the job name {job!r} is not a valid DNS label: a letter, then lower case letters, digits and '-'"
    elif len(job) > _MAX_LABEL:
        yield "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
    elif len(pod) > _MAX_LABEL:
        yield "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
    if not _DNS_LABEL.fullmatch(replicated.group_name) or len(replicated.group_name) > _MAX_LABEL:
        yield f"groupName {replicated.group_name!r} is not a valid DNS label of at most 63 characters"


def _failure_policy_problems(spec: JobSetSpec, names: list[str]) -> Iterator[str]:
    rules = spec.failure_policy.rules if spec.failure_policy is not None else []
    rule_names = [rule.name for rule in rules]
    for rule in rules:
        if not _RULE_NAME.fullmatch(rule.name):
            yield (
                f"invalid failure policy rule name '{rule.name}', a failure policy rule name must start with an "
                "alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and "
                "must end with an alphanumeric character or '_'"
            )
        if rule_names.count(rule.name) > 1:
            yield f"rule names are not unique: '{rule.name}'"
        for target in rule.target_replicated_jobs:
            if target not in names:
                yield f"invalid name '{target}' in failure policy does not appear in .spec.ReplicatedJobs"
        for reason in rule.on_job_failure_reasons:
            if reason not in _FAILURE_REASONS:
                valid = ", ".join(_FAILURE_REASONS)
                yield f"invalid job failure reason '{reason}' in failure policy; valid: {valid}"


def _coordinator_problems(spec: JobSetSpec) -> Iterator[str]:
    coordinator = spec.coordinator
    if coordinator is None:
        return
    found = next((r for r in spec.replicated_jobs if r.name == coordinator.replicated_job), None)
    if found is None:
        yield f"coordinator replicatedJob {coordinator.replicated_job} does not exist"
        return
    if not 0 <= coordinator.job_index < found.replicas:
        yield f"coordinator job index {coordinator.job_index} is invalid for replicatedJob {found.name}"
    completions = found.template.spec.completions
    if completions is None:
        yield "job for coordinator pod must be indexed completion mode, and completions number must be set"
    elif not 0 <= coordinator.pod_index < completions:
        yield f"coordinator pod index {coordinator.pod_index} is invalid for replicatedJob {found.name}"
