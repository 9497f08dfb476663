"""Errors as GKE spells them: code, text, reason, and how each code looks over HTTP.

The table is the public one of Google APIs (https://cloud.google.com/apis/design/errors). Each
constructor function holds one text that callers are known to match on. No decision when to raise
lives here.
"""

from dataclasses import dataclass, field
from enum import IntEnum

DOMAIN = "container.googleapis.com"


class Code(IntEnum):
    """The canonical codes of `google.rpc.Code` that this API answers."""

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
class GkeError(Exception):
    """A refused call. `reason` and `metadata` make up the ErrorInfo detail.

    Without a reason there is none.
    """

    code: Code
    message: str
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    domain: str = DOMAIN
    request_id: str = ""

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


@dataclass
class LostReply(Exception):
    """The call was performed but its reply never arrives. `how`: drop, unavailable or deadline."""

    how: str


def invalid(text: str) -> GkeError:
    """Return the error for a request that can never succeed as it stands."""
    return GkeError(Code.INVALID_ARGUMENT, text)


def invalid_field(name: str, value: object, wanted: str) -> GkeError:
    """Return the error for one bad field, naming the value and what would be valid."""
    return invalid(f'Invalid value for field "{name}": "{value}". {wanted}')


def pool_not_found(pool: str) -> GkeError:
    """Return the error for a pool that is not in its cluster."""
    return GkeError(Code.NOT_FOUND, f'Not found: node pool "{pool}" not found.')


def cluster_not_found(resource: str) -> GkeError:
    """Return the error for a cluster that is not there.

    `resource` as GKE spells it (zones/ for a zone).
    """
    return GkeError(Code.NOT_FOUND, f"Not found: {resource}.")


def already_exists(resource: str) -> GkeError:
    """Return the error for a name that is taken; the specification is not compared."""
    return GkeError(Code.ALREADY_EXISTS, f"Already exists: {resource}.")


def incompatible_operation(operation: str) -> GkeError:
    """Return the error for a pool or cluster that is busy with another operation."""
    return GkeError(
        Code.FAILED_PRECONDITION,
        f"Cluster is running incompatible operation {operation}.",
        "CLUSTER_ALREADY_HAS_OPERATION",
        {"operation": operation},
    )


def too_many_operations(cluster: str, ceiling: int) -> GkeError:
    """Return the error for a cluster with too many operations in flight."""
    return GkeError(
        Code.RESOURCE_EXHAUSTED,
        f'Too many operations: cluster "{cluster}" hits the concurrent operations quota {ceiling}, '
        "please try again later.",
    )


def rate_limited(project_number: int) -> GkeError:
    """Return the error for too many requests per minute."""
    return GkeError(
        Code.RESOURCE_EXHAUSTED,
        "Quota exceeded for quota metric 'API requests' and limit 'API requests per minute' of service "
        f"'{DOMAIN}' for consumer 'project_number:{project_number}'.",
        "RATE_LIMIT_EXCEEDED",
        {"service": DOMAIN, "consumer": f"projects/{project_number}"},
        "googleapis.com",
    )


def not_emulated(what: str) -> GkeError:
    """Return the loud refusal of something that real GKE may do and this fake does not."""
    return GkeError(Code.UNIMPLEMENTED, f"The fake GKE does not emulate {what}.", "UNIMPLEMENTED")
