"""The refusals of the API, as `metav1.Status` objects.

Every refusal that a client can see is an `ApiError`; nothing else maps to an HTTP status.
Source of codes and reasons: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
"""

from typing import Any

from standins.cluster.store.kinds import Kind

Json = dict[str, Any]

NOT_FOUND = 404
CONFLICT = 409


class ApiError(Exception):
    """A refusal with its HTTP code, its machine-readable reason and a sentence for people."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> Json:
        """Return the refusal as a `metav1.Status` object."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def _about(kind: Kind, name: str) -> Json:
    return {"name": name, "kind": kind.plural} | ({"group": kind.group} if kind.group else {})


def not_found(kind: Kind, name: str) -> ApiError:
    """Return the 404 for an object that is not there."""
    return ApiError(NOT_FOUND, "NotFound", f'{kind.resource} "{name}" not found', _about(kind, name))


def already_exists(kind: Kind, name: str) -> ApiError:
    """Return the 409 for a name that is taken."""
    return ApiError(CONFLICT, "AlreadyExists", f'{kind.resource} "{name}" already exists', _about(kind, name))


def conflict(kind: Kind, name: str, why: str) -> ApiError:
    """Return the 409 for a write that was based on something else than what is stored."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return ApiError(CONFLICT, "Conflict", message, _about(kind, name))


def modified(kind: Kind, name: str) -> ApiError:
    """Return the 409 of optimistic concurrency: the resourceVersion is not the stored one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def invalid(kind: Kind, name: str, field: str, why: str) -> ApiError:
    """Return the 422 for one wrong field; `why` says the value and what would be valid."""
    details = _about(kind, name)
    details["kind"] = kind.kind
    details["causes"] = [{"reason": "FieldValueInvalid", "message": why, "field": field}]
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {field}: {why}', details)


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    """Return the 403 for something that the object's state does not allow."""
    return ApiError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', _about(kind, name))


def denied(webhook: str, why: str) -> ApiError:
    """Return what a client sees when a validating webhook says no."""
    return ApiError(403, "Forbidden", f'admission webhook "{webhook}" denied the request: {why}')


def bad_request(message: str) -> ApiError:
    """Return the 400 for a request that cannot be understood."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """Return the 410 for a resource version or continue token from before the kept history."""
    return ApiError(410, "Expired", message)


def path_not_found() -> ApiError:
    """Return the 404 for a path that no kind is served under."""
    return ApiError(NOT_FOUND, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> ApiError:
    """Return the 405 for a verb that a path does not have."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
