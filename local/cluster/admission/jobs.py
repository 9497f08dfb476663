"""Admission of Jobs: defaults, the selector and labels by which pods are found, and what may change later.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from typing import Any

from local.cluster.admission.pods import check_spec, default_spec
from local.cluster.errors import invalid
from local.cluster.labels import CONTROLLER_UID, JOB_NAME
from local.cluster.store.kinds import JOB

Json = dict[str, Any]

_MAX_NAME = 63
_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy")


def admit_new(body: Json) -> None:
    """Default and check a new Job in place.

    Raises:
        ApiError: 422, naming the field.
    """
    name, uid = body["metadata"]["name"], body["metadata"]["uid"]
    if len(name) > _MAX_NAME:
        raise invalid(
            JOB, name, "metadata.name", f'Invalid value: "{name}": must be no more than {_MAX_NAME} characters'
        )
    spec = body.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        raise invalid(JOB, name, "spec.completions", "Required value: when completion mode is Indexed")
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels |= {CONTROLLER_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    spec["selector"] = {"matchLabels": {CONTROLLER_UID: uid}}
    pod_spec = template.setdefault("spec", {})
    restart_policy = pod_spec.get("restartPolicy", "Always")
    if restart_policy not in {"Never", "OnFailure"}:
        why = f'Unsupported value: "{restart_policy}": supported values: "OnFailure", "Never"'
        raise invalid(JOB, name, "spec.template.spec.restartPolicy", why)
    check_spec(name, pod_spec, "spec.template.spec")
    default_spec(pod_spec)


def admit_change(old: Json, new: Json) -> None:
    """Refuse changes that a Job does not allow: its template only changes while it is suspended.

    Raises:
        ApiError: 422, naming the field.
    """
    name = new["metadata"]["name"]
    before, after = old["spec"], new.get("spec", {})
    fixed = list(_IMMUTABLE)
    if not before.get("suspend"):
        fixed.append("template")
    if before.get("completionMode") != "Indexed" or after.get("parallelism") != after.get("completions"):
        fixed.append("completions")
    for field in fixed:
        if before.get(field) != after.get(field):
            raise invalid(JOB, name, f"spec.{field}", "Invalid value: field is immutable")
