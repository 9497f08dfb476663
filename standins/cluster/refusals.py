"""The refusals of the API, as `metav1.Status` objects.

Every refusal that a client can see is an `ApiError`; nothing else maps to an HTTP status.
Source of codes and reasons: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
"""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

from standins.cluster.kinds import Json, Kind

_NOT_PLAYED = (
    "Forbidden: the embedded cluster does not play this. Run it on the real control plane: "
    "CLUSTER=real, docs/local-stack.md"
)
PLAYED_OF_JOBS: dict[str, tuple[str, ...]] = {
    "activeDeadlineSeconds": (),
    "backoffLimitPerIndex": (),
    "managedBy": (),
    "maxFailedIndexes": (),
    "podFailurePolicy": (),
    "podReplacementPolicy": ("TerminatingOrFailed",),
    "successPolicy": (),
}
"""The fields of a Job's spec that are refused, each with the values that are played after all."""
PLAYED_OF_REPLICATED_JOBS: dict[str, tuple[str, ...]] = {
    "dependsOn": (),
    **{f"template.spec.{field}": played for field, played in PLAYED_OF_JOBS.items()},
}
PLAYED_OF_JOBSETS: dict[str, tuple[str, ...]] = {
    "failurePolicy.restartStrategy": ("Recreate",),
    "failurePolicy.rules": (),
    "startupPolicy.startupPolicyOrder": ("AnyOrder", "InOrder"),
    "successPolicy.operator": ("All",),
    "volumeClaimPolicies": (),
}
_REASONS = {410: "Expired", 422: "Invalid"}  # where the reason is not HTTP's own phrase
Problem = tuple[str, str]  # one wrong field, and what would be valid


class ApiError(Exception):
    """A refusal with its HTTP code, a sentence for people and a machine-readable reason."""

    def __init__(self, code: int, message: str, *, reason: str = "", details: Json | None = None) -> None:
        super().__init__(message)
        self.code, self.message = code, message
        self.reason = reason or _REASONS.get(code) or HTTPStatus(code).phrase.replace(" ", "")
        self.details = details or {}

    def status(self) -> Json:
        """Return the refusal as a `metav1.Status` object."""
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body = head | {"message": self.message, "reason": self.reason, "code": self.code}
        return body | ({"details": self.details} if self.details else {})


def about(kind: Kind, name: str) -> Json:
    """Return which object a Status is about."""
    return {"name": name, "kind": kind.plural} | ({"group": kind.group} if kind.group else {})


def not_found(kind: Kind, name: str) -> ApiError:
    """Return the 404 for an object that is not there."""
    return ApiError(404, f'{kind.resource} "{name}" not found', details=about(kind, name))


def conflict(kind: Kind, name: str, why: str) -> ApiError:
    """Return the 409 for a write that was based on something else than what is stored."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return ApiError(409, message, details=about(kind, name))


def invalid(kind: Kind, name: str, *problems: Problem) -> ApiError:
    """Return the 422 for wrong fields; each says its value and what would be valid."""
    causes = [{"reason": "FieldValueInvalid", "message": why, "field": field} for field, why in problems]
    text = ", ".join(f"{field}: {why}" for field, why in problems)
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    message = f'{qualified} "{name}" is invalid: {text if len(problems) == 1 else f"[{text}]"}'
    return ApiError(422, message, details=about(kind, name) | {"kind": kind.kind, "causes": causes})


def refuse(kind: Kind, name: str, problems: Iterable[Problem]) -> None:
    """Return when there are no problems. Raises ApiError: 422, with every problem."""
    if found := list(problems):
        raise invalid(kind, name, *found)


def list_not_played(played: dict[str, tuple[str, ...]], spec: Json, field: str) -> Iterator[Problem]:
    """Yield what a spec asks of this cluster that only the real one plays."""
    for path, values in played.items():
        value: Any = spec
        for step in path.split("."):
            value = (value or {}).get(step)
        if value not in (None, [], "", *values):
            yield f"{field}.{path}", f'Invalid value: "{value}": {_NOT_PLAYED}'


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    """Return the 403 for something that the object's state does not allow."""
    return ApiError(403, f'{kind.resource} "{name}" is forbidden: {why}', details=about(kind, name))


def denied(webhook: str, why: str) -> ApiError:
    """Return what a client sees when a validating webhook says no."""
    return ApiError(403, f'admission webhook "{webhook}" denied the request: {why}')
