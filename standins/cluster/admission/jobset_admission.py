"""Admission of JobSets: defaults, checks, what is not played here, what may change later.

The pod templates are not checked: when a template is valid for no Job, the controller finds out and
writes an Event.
Source: https://github.com/kubernetes-sigs/jobset/tree/v0.11.1 (pkg/webhooks/jobset_webhook.go,
config/components/crd).
"""

import copy
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from standins.cluster.admission.job_admission import not_played_by_jobs
from standins.cluster.admission.pod_spec_rules import containers, write_quantities
from standins.cluster.admission.refusals import Problem, not_played, refuse
from standins.cluster.objects.jobset_shapes import JobSetView, ReplicatedJob
from standins.cluster.store.errors import denied
from standins.cluster.store.kinds import JOBSET

Json = dict[str, Any]

_WEBHOOK = "vjobset.kb.io"
_MAX_LABEL = 63
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
_IMMUTABLE = ("failurePolicy", "network", "startupPolicy", "successPolicy")
_CHANGEABLE_WHEN_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates")


def admit_new(body: Json) -> None:
    """Default and check a new JobSet in place.

    Raises ApiError: 400 (quantities), 403 (its webhook), 422 (its schema, or not played here).
    """
    spec = body.setdefault("spec", {})
    _default_by_schema(spec)
    _default_by_webhook(spec)
    for replicated in spec.get("replicatedJobs", []):
        _write_as_decoded(replicated)
    jobset = msgspec.convert(body, type=JobSetView)
    refuse(JOBSET, jobset.metadata.name, _schema_problems(jobset, spec))
    problems = list(_webhook_problems(jobset))
    if problems:
        raise denied(_WEBHOOK, "\n".join(problems))


def admit_change(old: Json, new: Json) -> None:
    """Default a changed JobSet; refuse changes of replicated jobs, except while suspended.

    The defaulting webhook is not called for changes. So a client that sends its own manifest again
    removes the webhook's defaults, and quantities are stored as they are sent.
    Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/config/components/webhook/manifests.yaml

    Raises ApiError: 400 (quantities), 403 (its webhook) or 422 (its schema), naming the field.
    """
    before, after = old["spec"], new.setdefault("spec", {})
    _default_by_schema(after)
    decoded = copy.deepcopy(after)
    for replicated in decoded.get("replicatedJobs", []):
        _write_as_decoded(replicated)
    why = "Invalid value: Value is immutable"
    changed = (field for field in _IMMUTABLE if before.get(field) != after.get(field, before.get(field)))
    refuse(JOBSET, new["metadata"]["name"], [Problem(f"spec.{field}", why) for field in changed])
    suspended = bool(before.get("suspend") or after.get("suspend"))
    fixed = _fixed_part(before, suspended=suspended) == _fixed_part(decoded, suspended=suspended)
    if not fixed or before.get("managedBy") != after.get("managedBy"):
        field = "managedBy" if fixed else "replicatedJobs"
        raise denied(_WEBHOOK, f"spec.{field}: Invalid value: field is immutable")


def _fixed_part(spec: Json, *, suspended: bool) -> list[Json]:
    replicated_jobs: list[Json] = copy.deepcopy(spec.get("replicatedJobs", []))
    for replicated in replicated_jobs:
        _write_as_decoded(replicated)
        template = replicated["template"]["spec"]["template"]
        if suspended:
            for field in ("labels", "annotations"):
                template["metadata"].pop(field, None)
            for field in _CHANGEABLE_WHEN_SUSPENDED:
                template["spec"].pop(field, None)
    return replicated_jobs


def _write_as_decoded(replicated: Json) -> None:
    """Write a replicated job like one that was decoded into API types: no struct is absent."""
    job_template = replicated["template"]
    pod_template = job_template["spec"]["template"]
    for template in (job_template, pod_template):
        template.setdefault("metadata", {})
    for container in containers(pod_template["spec"]):
        container.setdefault("resources", {})
    write_quantities(JOBSET, pod_template["spec"])


def _default_by_schema(spec: Json) -> None:
    for replicated in spec.get("replicatedJobs", []):
        replicated.setdefault("replicas", 1)
        replicated.setdefault("groupName", "default")
        replicated["template"].setdefault("spec", {}).setdefault("template", {}).setdefault("spec", {})
    if "failurePolicy" in spec:
        spec["failurePolicy"].setdefault("maxRestarts", 0)
        spec["failurePolicy"].setdefault("restartStrategy", "Recreate")


def _default_by_webhook(spec: Json) -> None:
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for replicated in spec.get("replicatedJobs", []):
        job = replicated["template"]["spec"]
        job.setdefault("completionMode", "Indexed")
        job["template"]["spec"].setdefault("restartPolicy", "OnFailure")


def _schema_problems(jobset: JobSetView, body: Json) -> Iterator[Problem]:
    spec, policy = jobset.spec, jobset.spec.failure_policy
    if spec.success_policy.operator != "All":
        yield not_played("spec.successPolicy.operator", spec.success_policy.operator)
    if spec.startup_policy.startup_policy_order not in {"AnyOrder", "InOrder"}:
        yield not_played("spec.startupPolicy.startupPolicyOrder", spec.startup_policy.startup_policy_order)
    if policy is not None and policy.rules:
        yield not_played("spec.failurePolicy.rules", policy.rules)
    if policy is not None and policy.restart_strategy not in {"Recreate", "BlockingRecreate"}:
        yield not_played("spec.failurePolicy.restartStrategy", policy.restart_strategy)
    if body.get("volumeClaimPolicies"):
        yield not_played("spec.volumeClaimPolicies", body["volumeClaimPolicies"])
    if (spec.ttl_seconds_after_finished or 0) < 0:
        yield Problem("spec.ttlSecondsAfterFinished", "Invalid value: should be greater than or equal to 0")
    names: set[str] = set()
    for index, replicated in enumerate(spec.replicated_jobs):
        place = f"spec.replicatedJobs[{index}]"
        if replicated.depends_on:
            yield not_played(f"{place}.dependsOn", replicated.depends_on)
        if replicated.name in names:
            yield Problem(place, f'Duplicate value: {{"name":"{replicated.name}"}}')
        names.add(replicated.name)
        yield from not_played_by_jobs(body["replicatedJobs"][index]["template"]["spec"], f"{place}.template.spec")


def _webhook_problems(jobset: JobSetView) -> Iterator[str]:
    names = [replicated.name for replicated in jobset.spec.replicated_jobs]
    for index, replicated in enumerate(jobset.spec.replicated_jobs):
        yield from _name_problems(jobset.metadata.name, replicated, f"spec.replicatedJobs[{index}]")
    for target in jobset.spec.success_policy.target_replicated_jobs:
        if target not in names:
            yield f"invalid replicatedJob name '{target}' does not appear in .spec.ReplicatedJobs"
    coordinator = jobset.spec.coordinator
    if coordinator is not None and coordinator.replicated_job not in names:
        yield f"coordinator replicatedJob {coordinator.replicated_job} does not exist"


def _name_problems(jobset_name: str, replicated: ReplicatedJob, field: str) -> Iterator[str]:
    job = f"{jobset_name}-{replicated.name}-{replicated.replicas - 1}"
    completions = replicated.template.spec.completions
    made = {"job": job} | ({"pod": f"{job}-{completions - 1}-abcde"} if completions is not None else {})
    for what, name in made.items():
        if len(name) > _MAX_LABEL:
            why = f"JobSet name is too long, {what} names generated for this JobSet will exceed 63 characters"
            yield f'{field}.name: Invalid value: "{job}": {why}'
    if not _DNS_LABEL.fullmatch(job):
        yield f'{field}.name: Invalid value: "{job}": {_LABEL_RULE}'
