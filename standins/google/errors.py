"""Errors as Google's APIs spell them: a canonical code, a text, and how each looks over HTTP.

Which text is right when is decided by each API.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.api_core import exceptions
from starlette.responses import Response

Code: Any = grpc.StatusCode
"""The canonical codes of `google.rpc.Code`; the number of one is ``code.value[0]``."""
_REASONS = {
    Code.INVALID_ARGUMENT: "badRequest",
    Code.NOT_FOUND: "notFound",
    Code.ALREADY_EXISTS: "alreadyExists",
    Code.PERMISSION_DENIED: "forbidden",
    Code.RESOURCE_EXHAUSTED: "rateLimitExceeded",
    Code.FAILED_PRECONDITION: "failedPrecondition",
}
"""What the older REST APIs call a code; others are a backendError."""


@dataclass
class ApiError(Exception):
    """A refused call. `reason` and `metadata` make up the ErrorInfo detail.

    Without a reason there is none.
    """

    code: Any
    message: str
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    domain: str = ""
    request_id: str = ""

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    @property
    def http(self) -> int:
        """Return the HTTP status, as Google's own client library reads it."""
        read: Any = exceptions.from_grpc_status
        return int(read(self.code, "").code)

    def as_json(self) -> dict[str, Any]:
        """Return it in the form of Google's newer REST APIs."""
        details: list[dict[str, Any]] = []
        kind = "type.googleapis.com/google.rpc"
        if self.request_id:
            details.append({"@type": f"{kind}.RequestInfo", "requestId": self.request_id})
        if self.reason:
            info: dict[str, Any] = {"@type": f"{kind}.ErrorInfo", "reason": self.reason, "domain": self.domain}
            details.append({**info, "metadata": self.metadata} if self.metadata else info)
        body = {"code": self.http, "message": self.message, "status": self.code.name}
        return {**body, "details": details} if details else body


def error_response(error: ApiError, *, listed: bool = False, canonical: bool = True) -> Response:
    """Return a refusal as the newer REST APIs write it.

    The older ones list one error, too, and Compute Engine writes no canonical code.
    """
    body = error.as_json()
    if not canonical:
        del body["status"]
    if listed:
        reason = _REASONS.get(error.code, "backendError")
        body["errors"] = [{"message": error.message, "domain": "global", "reason": reason}]
    return json_response({"error": body}, error.http)


def json_response(body: dict[str, Any], status: int = 200) -> Response:
    """Return JSON as Google writes it."""
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    return Response(text, status_code=status, media_type="application/json; charset=UTF-8")
