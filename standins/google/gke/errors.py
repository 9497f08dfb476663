"""What GKE refuses, in its own words. Each function holds one text that callers match on.

No decision when to raise lives here.
"""

from dataclasses import dataclass

from standins.google.errors import ApiError, Code

DOMAIN = "container.googleapis.com"


@dataclass
class LostReply(Exception):
    """The call was performed but its reply never arrives. `how`: drop, unavailable or deadline."""

    how: str


def invalid(text: str) -> ApiError:
    """Return the error for a request that can never succeed as it stands."""
    return ApiError(Code.INVALID_ARGUMENT, text)


def invalid_field(name: str, value: object, wanted: str) -> ApiError:
    """Return the error for one bad field, naming the value and what would be valid."""
    return invalid(f'Invalid value for field "{name}": "{value}". {wanted}')


def pool_not_found(pool: str) -> ApiError:
    """Return the error for a pool that is not in its cluster."""
    return ApiError(Code.NOT_FOUND, f'Not found: node pool "{pool}" not found.')


def cluster_not_found(resource: str) -> ApiError:
    """Return the error for a cluster that is not there.

    `resource` as GKE spells it (zones/ for a zone).
    """
    return ApiError(Code.NOT_FOUND, f"Not found: {resource}.")


def already_exists(resource: str) -> ApiError:
    """Return the error for a name that is taken; the specification is not compared."""
    return ApiError(Code.ALREADY_EXISTS, f"Already exists: {resource}.")


def incompatible_operation(operation: str) -> ApiError:
    """Return the error for a pool or cluster that is busy with another operation."""
    return ApiError(
        Code.FAILED_PRECONDITION,
        f"Cluster is running incompatible operation {operation}.",
        "CLUSTER_ALREADY_HAS_OPERATION",
        {"operation": operation},
    )


def too_many_operations(cluster: str, ceiling: int) -> ApiError:
    """Return the error for a cluster with too many operations in flight."""
    return ApiError(
        Code.RESOURCE_EXHAUSTED,
        f'Too many operations: cluster "{cluster}" hits the concurrent operations quota {ceiling}, '
        "please try again later.",
    )


def rate_limited(project_number: int) -> ApiError:
    """Return the error for too many requests per minute."""
    return ApiError(
        Code.RESOURCE_EXHAUSTED,
        "Quota exceeded for quota metric 'API requests' and limit 'API requests per minute' of service "
        f"'{DOMAIN}' for consumer 'project_number:{project_number}'.",
        "RATE_LIMIT_EXCEEDED",
        {"service": DOMAIN, "consumer": f"projects/{project_number}"},
        "googleapis.com",
    )


def not_emulated(what: str) -> ApiError:
    """Return the loud refusal of something that real GKE may do and this fake does not."""
    return ApiError(Code.UNIMPLEMENTED, f"The fake GKE does not emulate {what}.", "UNIMPLEMENTED")
