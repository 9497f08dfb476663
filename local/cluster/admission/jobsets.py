"""Admission of JobSets: the defaults of its webhook, its schema, and what may change later.

What its validating webhook says of a new one is in `jobset_checks`. The pod templates are not looked into: what
no Job could have is found out by the controller, which says so in an Event.
Source: https://github.com/kubernetes-sigs/jobset/tree/v0.11.1 (pkg/webhooks/jobset_webhook.go,
config/components/crd).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from local.cluster.admission.jobset_checks import jobset_problems
from local.cluster.admission.pod_specs import containers, write_quantities
from local.cluster.admission.refusals import Problem, refuse
from local.cluster.errors import denied
from local.cluster.jobset_views import JobSetView
from local.cluster.store.kinds import JOBSET

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

_WEBHOOK = "vjobset.kb.io"
_OPERATORS = ("All", "Any")
_ORDERS = ("AnyOrder", "InOrder")
_STRATEGIES = ("Recreate", "BlockingRecreate", "InPlaceRestart")
_ACTIONS = ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")
_DEPENDENCIES = ("Ready", "Complete")
_IMMUTABLE = ("failurePolicy", "network", "startupPolicy", "successPolicy")
_CHANGEABLE_WHEN_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates")


def admit_new(body: Json) -> None:
    """Default and check a new JobSet in place.

    Raises:
        ApiError: 400 (quantities), 403 (its webhook) or 422 (its schema).
    """
    spec = body.setdefault("spec", {})
    _default_by_schema(spec)
    _default_by_webhook(spec)
    for replicated in spec.get("replicatedJobs", []):
        _write_as_decoded(replicated)
    _check_schema(body)
    problems = list(jobset_problems(msgspec.convert(body, type=JobSetView)))
    if problems:
        raise denied(_WEBHOOK, "\n".join(problems))


def admit_change(old: Json, new: Json) -> None:
    """Default a changed JobSet; refuse changes of replicated jobs, but for the pod template while suspended.

    The defaulting webhook is not called for changes. So what it once completed counts as taken away when a client
    sends its own manifest again, and what it wrote in another form (quantities) is stored as it is sent.
    Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/config/components/webhook/manifests.yaml

    Raises:
        ApiError: 400 (quantities), 403 (its webhook) or 422 (its schema), naming the field.
    """
    before, after = old["spec"], new.setdefault("spec", {})
    _default_by_schema(after)
    decoded = copy.deepcopy(after)
    for replicated in decoded.get("replicatedJobs", []):
        _write_as_decoded(replicated)
    _check_schema(new)
    changed = [
        field for field in _IMMUTABLE if field in before and before[field] != after.get(field, before[field])
    ]
    why = 'Invalid value: "object": Value is immutable'
    refuse(JOBSET, new["metadata"]["name"], [Problem(f"spec.{field}", why) for field in changed])
    suspended = bool(before.get("suspend") or after.get("suspend"))
    problems = []
    if _fixed_part(before, suspended=suspended) != _fixed_part(decoded, suspended=suspended):
        problems.append(_unchangeable("replicatedJobs", decoded.get("replicatedJobs", [])))
    if before.get("managedBy") != after.get("managedBy"):
        problems.append(_unchangeable("managedBy", after.get("managedBy")))
    if problems:
        raise denied(_WEBHOOK, ", ".join(problems))


def _unchangeable(field: str, value: Any) -> str:
    return f"spec.{field}: Invalid value: {msgspec.json.encode(value).decode()}: field is immutable"


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
    """Write a replicated job as one comes back that was decoded into API types: no struct is absent."""
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
    for index, rule in enumerate(spec.get("failurePolicy", {}).get("rules", [])):
        rule["name"] = rule.get("name") or f"failurePolicyRule{index}"


def _check_schema(body: Json) -> None:
    name, spec = body["metadata"]["name"], body["spec"]
    refuse(JOBSET, name, _schema_problems(spec), unchecked=True)
    refuse(JOBSET, name, _list_problems(spec))
    in_order = spec.get("startupPolicy", {}).get("startupPolicyOrder") == "InOrder"
    if in_order and any("dependsOn" in replicated for replicated in spec.get("replicatedJobs", [])):
        why = 'Invalid value: "object": StartupPolicy and DependsOn APIs are mutually exclusive'
        refuse(JOBSET, name, [Problem("spec", why)])


def _schema_problems(spec: Json) -> Iterator[Problem]:
    used: list[tuple[str, str, tuple[str, ...]]] = []
    if "successPolicy" in spec:
        used.append(("successPolicy.operator", spec["successPolicy"].get("operator", ""), _OPERATORS))
    if "startupPolicy" in spec:
        order = spec["startupPolicy"].get("startupPolicyOrder", "")
        used.append(("startupPolicy.startupPolicyOrder", order, _ORDERS))
    policy = spec.get("failurePolicy")
    if policy is not None:
        used.append(("failurePolicy.restartStrategy", policy["restartStrategy"], _STRATEGIES))
        rules = enumerate(policy.get("rules", []))
        used.extend((f"failurePolicy.rules[{index}].action", rule["action"], _ACTIONS) for index, rule in rules)
    for index, replicated in enumerate(spec.get("replicatedJobs", [])):
        place = f"replicatedJobs[{index}]"
        for number, dependency in enumerate(replicated.get("dependsOn", [])):
            used.append((f"{place}.dependsOn[{number}].status", dependency["status"], _DEPENDENCIES))
        if "containers" not in replicated["template"]["spec"]["template"]["spec"]:
            field = f"spec.{place}.template.spec.template.spec.containers"
            yield Problem(field, f'Invalid value: "null": {field} in body must be of type array: "null"')
    for field, value, valid in used:
        if value not in valid:
            supported = ", ".join(f'"{each}"' for each in valid)
            yield Problem(f"spec.{field}", f'Unsupported value: "{value}": supported values: {supported}')


def _list_problems(spec: Json) -> Iterator[Problem]:
    ttl, field = spec.get("ttlSecondsAfterFinished", 0), "spec.ttlSecondsAfterFinished"
    if ttl < 0:
        yield Problem(field, f"Invalid value: {ttl}: {field} in body should be greater than or equal to 0")
    names: set[str] = set()
    for index, replicated in enumerate(spec.get("replicatedJobs", [])):
        if replicated["name"] in names:
            why = f'Duplicate value: {{"name":"{replicated["name"]}"}}'
            yield Problem(f"spec.replicatedJobs[{index}]", why)
        names.add(replicated["name"])
