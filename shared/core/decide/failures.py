"""Why GKE could not create a pool: one table from its error code and words to a class. Pure.

A failure either belongs to what was tried (this zone, this tier, this reservation), so that a later
try may succeed, or every try would meet it again.

Sources of the fragments: the bracketed codes are those of
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/gce/autoscaling_gce_client.go,
the sentences are those of failed operations in public issues and of
https://cloud.google.com/kubernetes-engine/docs/troubleshooting/node-pools.

The texts also have names that the author of a pod or of a project chose, so a fragment is a code or
a phrase: with an underscore, a space or a quotation mark, which no such name has. It matches only
where no name goes on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from shared.core.decisions import Reason


class Failure(StrEnum):
    """The class of a failed creation, as log records name it."""

    STOCKOUT = "stockout"
    QUOTA = "quota"
    RESERVATION = "reservation"
    """The reservation is used up, is not ready, or does not fit the pool."""
    ADDRESSES = "addresses"
    ZONE = "zone"
    """The zone does not offer the machine."""
    SHAPE = "shape"
    """GKE or Compute Engine does not accept the pool as it is described."""
    RIGHTS = "rights"
    POLICY = "policy"
    """An organisation policy forbids the pool."""
    INTERNAL = "internal"
    UNKNOWN = "unknown"
    """The table does not know the words."""


@dataclass(frozen=True, slots=True)
class FailureRule:
    """What follows from a class of failures."""

    reason: Reason
    words: str
    """The cause for people; ``{zone}`` stands for the zone."""
    lasting: bool = False
    """Every further try would fail in the same way until a person changes something."""


RULES: dict[Failure, FailureRule] = {
    Failure.STOCKOUT: FailureRule(Reason.STOCKOUT, "no capacity in {zone}"),
    Failure.QUOTA: FailureRule(Reason.QUOTA_EXCEEDED, "the quota is used up"),
    Failure.RESERVATION: FailureRule(Reason.RESERVATION_UNFIT, "the reservation is used up or does not fit"),
    Failure.ADDRESSES: FailureRule(Reason.ADDRESSES_EXHAUSTED, "no free IP addresses for the nodes"),
    Failure.ZONE: FailureRule(Reason.ZONE_UNFIT, "{zone} does not offer this machine"),
    Failure.SHAPE: FailureRule(Reason.REQUEST_INVALID, "GKE does not accept the node pool", lasting=True),
    Failure.RIGHTS: FailureRule(Reason.PERMISSION_DENIED, "a permission is missing", lasting=True),
    Failure.POLICY: FailureRule(Reason.POLICY_VIOLATED, "an organisation policy forbids it", lasting=True),
    Failure.INTERNAL: FailureRule(Reason.POOL_FAILED, "an error inside of GKE"),
    Failure.UNKNOWN: FailureRule(Reason.POOL_FAILED, "GKE could not create the node pool"),
}

_FRAGMENTS: tuple[tuple[Failure, tuple[str, ...]], ...] = (
    (
        Failure.RESERVATION,
        (
            "requires reservation to be in ready state",
            "specified reservation",
            "is incorrect for the requested resources",
        ),
    ),
    (
        Failure.STOCKOUT,
        (
            "gce_stockout",
            "resource_pool_exhausted",
            "does not have enough resources available",
            "lack of capacity",
            "requested resource is exhausted",
        ),
    ),
    (
        Failure.QUOTA,
        (
            "quota_exceeded",
            "insufficient_quota",
            "insufficient quota",
            "insufficient regional quota",
            "insufficient project quota",
            "quota exceeded",
            "quota '",
            "quota limit",
            "project has a quota of",
        ),
    ),
    (
        Failure.ADDRESSES,
        ("ip_space_exhausted", "ip space of", "available private ip space", "cannot find pod range"),
    ),
    (Failure.ZONE, ("unsupported tpu configuration",)),
    (Failure.POLICY, ("constraint constraints/",)),
    (Failure.RIGHTS, ("permissions_error", "does not have access to service account", "required 'compute.")),
    (
        Failure.SHAPE,
        ("in the gang mode of size", "is not a valid size of tpu pod slice", "invalid value for field"),
    ),
    (Failure.INTERNAL, ("internal_error", "internal error")),
)
"""First match from the top, in lower case. What a later try may mend comes first, because one text
can name several causes, and a needless try costs less than a demand that is never answered."""
_PATTERNS = tuple(
    (failure, re.compile(f"(?<![a-z0-9-])(?:{'|'.join(map(re.escape, fragments))})"))
    for failure, fragments in _FRAGMENTS
)
_CODES = {3: Failure.SHAPE, 7: Failure.RIGHTS, 8: Failure.STOCKOUT, 13: Failure.INTERNAL}
"""``google.rpc.Code``, for words that the table does not know."""


def classify_failure(error: str, code: int = 0) -> Failure:
    """Return the class of a failed creation; UNKNOWN for words and a code that say nothing.

    Args:
        error: GKE's words, of the pool or of the operation.
        code: ``google.rpc.Code`` of the operation; 0 if it is not known.
    """
    said = error.lower()
    for failure, pattern in _PATTERNS:
        if pattern.search(said):
            return failure
    return _CODES.get(code, Failure.UNKNOWN)
