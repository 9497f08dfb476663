"""Errors as Google's APIs spell them: a canonical code, a text, and how each looks over HTTP.

The table is the public one (https://cloud.google.com/apis/design/errors). Which text is right when
is decided by each API.
"""

import json
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from starlette.responses import Response


class Code(IntEnum):
    """The canonical codes of `google.rpc.Code`."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# code -> (HTTP status, errors[].reason in the JSON body)
HTTP: dict[Code, tuple[int, str]] = {
    Code.CANCELLED: (499, "cancelled"),
    Code.UNKNOWN: (500, "backendError"),
    Code.INVALID_ARGUMENT: (400, "badRequest"),
    Code.DEADLINE_EXCEEDED: (504, "backendError"),
    Code.NOT_FOUND: (404, "notFound"),
    Code.ALREADY_EXISTS: (409, "alreadyExists"),
    Code.PERMISSION_DENIED: (403, "forbidden"),
    Code.RESOURCE_EXHAUSTED: (429, "rateLimitExceeded"),
    Code.FAILED_PRECONDITION: (400, "failedPrecondition"),
    Code.ABORTED: (409, "aborted"),
    Code.OUT_OF_RANGE: (400, "outOfRange"),
    Code.UNIMPLEMENTED: (501, "notImplemented"),
    Code.INTERNAL: (500, "backendError"),
    Code.UNAVAILABLE: (503, "backendError"),
    Code.DATA_LOSS: (500, "backendError"),
    Code.UNAUTHENTICATED: (401, "authError"),
}


def parse_code(name: str) -> Code:
    """Return the canonical code called `name`; raises ValueError listing the valid names."""
    try:
        return Code[name]
    except KeyError:
        raise ValueError(f"code: {name!r} is none of {', '.join(code.name for code in Code)}") from None


@dataclass
class ApiError(Exception):
    """A refused call. `reason` and `metadata` make up the ErrorInfo detail.

    Without a reason there is none.
    """

    code: Code
    message: str
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    domain: str = ""
    request_id: str = ""

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    def as_json(self) -> dict[str, Any]:
        """Return it in the form of Google's newer REST APIs."""
        details: list[dict[str, Any]] = []
        if self.request_id:
            info = {"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": self.request_id}
            details.append(info)
        if self.reason:
            info = {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": self.reason,
                "domain": self.domain,
            }
            details.append({**info, "metadata": self.metadata} if self.metadata else info)
        body = {"code": HTTP[self.code][0], "message": self.message, "status": self.code.name}
        return {**body, "details": details} if details else body


def error_response(error: ApiError) -> Response:
    """Return a refusal as the newer REST APIs write it."""
    return json_response({"error": error.as_json()}, HTTP[error.code][0])


def list_errors(error: ApiError) -> dict[str, Any]:
    """Return a refusal as the older REST APIs write it: with a list of one error."""
    listed = {"message": error.message, "domain": "global", "reason": HTTP[error.code][1]}
    return {**error.as_json(), "errors": [listed]}


def json_response(body: dict[str, Any], status: int = 200) -> Response:
    """Return JSON as Google writes it."""
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    return Response(text, status_code=status, media_type="application/json; charset=UTF-8")
