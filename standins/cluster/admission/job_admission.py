"""Admission of Jobs: defaults, the selector and labels of the pods, and what may change later.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

import copy
from collections.abc import Iterator
from typing import Any

from standins.cluster.admission.pod_spec_rules import default_spec, spec_problems, write_quantities
from standins.cluster.admission.refusals import Problem, not_played, refuse, unsupported
from standins.cluster.objects.label_names import CONTROLLER_UID, JOB_NAME
from standins.cluster.store.errors import invalid
from standins.cluster.store.kinds import JOB

Json = dict[str, Any]

_MAX_NAME = 63
_IMMUTABLE = ("selector", "completionMode")
_NOT_NEGATIVE = ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished")
_COMPLETION_MODES = ("NonIndexed", "Indexed")
_CHANGEABLE_BEFORE_START = ("affinity", "nodeSelector", "tolerations", "schedulingGates")
_NOT_PLAYED = (
    "activeDeadlineSeconds",
    "backoffLimitPerIndex",
    "managedBy",
    "maxFailedIndexes",
    "podFailurePolicy",
    "successPolicy",
)
_REPLACEMENT = "TerminatingOrFailed"


def admit_new(body: Json) -> None:
    """Default and check a new Job in place.

    Raises ApiError: 400 (quantities) or 422, naming the field.
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
    spec.setdefault("podReplacementPolicy", _REPLACEMENT)


def not_played_by_jobs(spec: Json, field: str) -> Iterator[Problem]:
    """Yield the fields of a Job's spec that this cluster does not play."""
    for name in _NOT_PLAYED:
        if spec.get(name) is not None:
            yield not_played(f"{field}.{name}", spec[name])
    if spec.get("podReplacementPolicy", _REPLACEMENT) != _REPLACEMENT:
        yield not_played(f"{field}.podReplacementPolicy", spec["podReplacementPolicy"])


def _problems(name: str, spec: Json) -> Iterator[Problem]:
    yield from _spec_problems(spec)
    if len(name) > _MAX_NAME:
        why = f'Invalid value: "{name}": must be no more than {_MAX_NAME} characters'
        yield Problem("spec.template.labels", why)
    pod_spec = spec["template"]["spec"]
    yield from spec_problems(pod_spec, "spec.template.spec")
    policy, field = pod_spec.get("restartPolicy") or "Always", "spec.template.spec.restartPolicy"
    if policy == "Always":
        # A Job has no default here: the default of pods, Always, is not valid for it.
        yield Problem(field, 'Required value: valid values: "OnFailure", "Never"')
    elif policy not in {"Never", "OnFailure"}:
        yield unsupported(field, policy, ("Never", "OnFailure"))


def _spec_problems(spec: Json) -> Iterator[Problem]:
    yield from not_played_by_jobs(spec, "spec")
    for field in _NOT_NEGATIVE:
        if spec.get(field, 0) < 0:
            yield Problem(f"spec.{field}", f"Invalid value: {spec[field]}: must be greater than or equal to 0")
    mode = spec.get("completionMode", "")
    if mode not in _COMPLETION_MODES:
        yield unsupported("spec.completionMode", mode, _COMPLETION_MODES)
    if mode == "Indexed" and "completions" not in spec:
        yield Problem("spec.completions", "Required value: when completion mode is Indexed")


def admit_change(old: Json, new: Json) -> None:
    """Refuse changes that a Job does not allow: parts of its template change before its start only.

    Raises ApiError: 400 (quantities) or 422, naming the field.
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
            raise invalid(JOB, name, f"spec.{field}", "Invalid value: field is immutable")
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
