"""Admission of Jobs: defaults, the selector and labels by which pods are found, and what may change later.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from local.cluster.admission.pod_specs import default_spec, spec_problems, write_quantities
from local.cluster.admission.refusals import Problem, refuse
from local.cluster.errors import invalid
from local.cluster.labels import CONTROLLER_UID, JOB_NAME
from local.cluster.store.kinds import JOB

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

_MAX_NAME = 63
_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy")
_NOT_NEGATIVE = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_COMPLETION_MODES = ("NonIndexed", "Indexed")
_CHANGEABLE_BEFORE_START = ("affinity", "nodeSelector", "tolerations", "schedulingGates")


def admit_new(body: Json) -> None:
    """Default and check a new Job in place.

    Raises:
        ApiError: 400 (quantities) or 422, naming the field.
    """
    name, uid = body["metadata"]["name"], body["metadata"]["uid"]
    spec = body.setdefault("spec", {})
    _default(spec)
    template = spec.setdefault("template", {})
    pod_spec = template.setdefault("spec", {})
    write_quantities(JOB, pod_spec)
    refuse(JOB, name, _problems(name, spec))
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels |= {CONTROLLER_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    if not body["metadata"].get("labels"):
        body["metadata"]["labels"] = dict(labels)
    spec["selector"] = {"matchLabels": {CONTROLLER_UID: uid}}
    default_spec(pod_spec)
    body["status"] = {}


def _default(spec: Json) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")


def _problems(name: str, spec: Json) -> Iterator[Problem]:
    yield from _spec_problems(spec)
    if len(name) > _MAX_NAME:
        why = f'Invalid value: "{name}": must be no more than {_MAX_NAME} characters'
        yield Problem("spec.template.labels", why)
    pod_spec = spec["template"]["spec"]
    yield from spec_problems(pod_spec, "spec.template.spec")
    policy, field = pod_spec.get("restartPolicy") or "Always", "spec.template.spec.restartPolicy"
    if policy == "Always":
        # What a pod would be given by default counts as not having chosen.
        yield Problem(field, 'Required value: valid values: "OnFailure", "Never"')
    elif policy not in {"Never", "OnFailure"}:
        yield Problem(field, f'Unsupported value: "{policy}": supported values: "Never", "OnFailure"')


def _spec_problems(spec: Json) -> Iterator[Problem]:
    for field in _NOT_NEGATIVE:
        if spec.get(field, 0) < 0:
            why = f"Invalid value: {spec[field]}: must be greater than or equal to 0"
            yield Problem(f"spec.{field}", why)
    mode = spec["completionMode"]
    if mode not in _COMPLETION_MODES:
        valid = ", ".join(f'"{each}"' for each in _COMPLETION_MODES)
        yield Problem("spec.completionMode", f'Unsupported value: "{mode}": supported values: {valid}')
    if mode == "Indexed" and "completions" not in spec:
        yield Problem("spec.completions", "Required value: when completion mode is Indexed")


def admit_change(old: Json, new: Json) -> None:
    """Refuse changes that a Job does not allow: its template changes only before its start, and only in parts.

    Raises:
        ApiError: 400 (quantities) or 422, naming the field.
    """
    name = new["metadata"]["name"]
    before, after = old["spec"], new.get("spec", {})
    write_quantities(JOB, after.get("template", {}).get("spec", {}))
    refuse(JOB, name, _spec_problems(after))
    fixed = list(_IMMUTABLE)
    if before.get("completionMode") != "Indexed" or after.get("parallelism") != after.get("completions"):
        fixed.append("completions")
    for field in fixed:
        if before.get(field) != after.get(field):
            together = field == "completions" and before.get("completionMode") == "Indexed"
            why = "can only be modified in tandem with spec.parallelism" if together else "field is immutable"
            value = json.dumps(after.get(field), separators=(",", ":"))
            raise invalid(JOB, name, f"spec.{field}", f"Invalid value: {value}: {why}")
    started = not before.get("suspend") or "startTime" in old.get("status", {})
    if _fixed_part(before, started=started) != _fixed_part(after, started=started):
        raise invalid(JOB, name, "spec.template", "Invalid value: field is immutable")


def _fixed_part(spec: Json, *, started: bool) -> Json:
    template: Json = copy.deepcopy(spec.get("template", {}))
    if not started:
        template.pop("metadata", None)
        for field in _CHANGEABLE_BEFORE_START:
            template.get("spec", {}).pop(field, None)
    return template
