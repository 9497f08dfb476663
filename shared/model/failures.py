"""Why GKE could not create or fill a pool: one table from its code and words to a class. Pure.

The same table serves for operations that failed, for errors of instance groups, and for the Events
that GKE's autoscaler writes on pods. A failure belongs to what was tried (this zone, this tier,
this reservation), or every try would meet it again.

Sources of the fragments: the functions ``is…`` and the list ``regexReservationErrors`` of
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/gce/autoscaling_gce_client.go,
the same of GKE's autoscaler and its Events
(https://github.com/GoogleCloudPlatform/cluster-autoscaler), failed operations in public issues, and
https://cloud.google.com/kubernetes-engine/docs/troubleshooting/node-pools. A quoted message for
each is in ``tests/rules/golden/failures.yaml``.

The texts also have names that the author of a pod or of a project chose, so a fragment is a phrase:
with a space or a quotation mark, which no such name has. It matches only where no name goes on.
"""

from __future__ import annotations

import re
from enum import StrEnum

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Busy, Denied, InvalidRequest, NoCapacity


class Failure(StrEnum):
    """The class of a failed creation, as log records name it."""

    STOCKOUT = "stockout"
    QUOTA = "quota"
    RESERVATION = "reservation"
    """The reservation is missing, is used up, is not ready, or does not fit the pool."""
    ADDRESSES = "addresses"
    ZONE = "zone"  # the zone does not offer the machine
    SHAPE = "shape"  # GKE or Compute Engine does not accept the pool as it is described
    PERMISSIONS = "permissions"
    POLICY = "policy"  # an organisation policy forbids the pool
    INTERNAL = "internal"
    UNKNOWN = "unknown"  # the table does not know the words


RULES = {
    Failure.STOCKOUT: (Reason.STOCKOUT, "no capacity in the zone"),
    Failure.QUOTA: (Reason.QUOTA_EXCEEDED, "the quota is used up"),
    Failure.RESERVATION: (
        Reason.RESERVATION_UNFIT,
        "the reservation is missing, used up or does not fit",
    ),
    Failure.ADDRESSES: (Reason.ADDRESSES_EXHAUSTED, "no free IP addresses for the nodes"),
    Failure.ZONE: (Reason.ZONE_UNFIT, "the zone does not offer this machine"),
    Failure.SHAPE: (Reason.REQUEST_INVALID, "GKE does not accept the node pool"),
    Failure.PERMISSIONS: (Reason.PERMISSION_DENIED, "a permission is missing"),
    Failure.POLICY: (Reason.POLICY_VIOLATED, "an organisation policy forbids it"),
    Failure.INTERNAL: (Reason.POOL_FAILED, "an error inside of GKE"),
    Failure.UNKNOWN: (Reason.POOL_FAILED, "GKE could not create the node pool"),
}
"""What the owner is told of each class: the reason, and the cause in words."""

_TABLE = """
reservation: specified reservation | requires reservation to be in ready state
reservation: reservation not ready
reservation: given reservation with the following name | reservation not found
reservation: not found for node pool
reservation: does not have sufficient capacity for the requested resources
reservation: reservation does not have enough resources | reservation capacity exceeded
reservation: lack of capacity in your reservation | reservation incompatible
reservation: is incorrect for the requested resources | aggregatereservation vmfamily
reservation: aggregate reservations | target a reservation with workload type
reservation: must use reservationaffinity of | must exist in the same project as the instance
reservation: no automatic reservation | automatic reservations | any affinity reservations
stockout: gce stockout | gce out of resources | resource pool exhausted | enough resources available
stockout: insufficient capacity | does not currently have sufficient capacity
stockout: is currently unavailable in the | lack of capacity
quota: quota exceeded | insufficient quota | insufficient regional quota
quota: insufficient project quota
quota: quota ' | quota limit | exceeded limit ' | cluster byte size limit reached
addresses: ip space exhausted | ip space of | available private ip space | cannot find pod range
zone: does not exist in zone | gce not found | is not supported in this zone | unsupported operation
zone: unsupported tpu configuration | invalid tpu configuration
stockout: requested resource is exhausted | in backoff after failed scale-up
stockout: failed to appear in time
reservation: invalid reservation
policy: constraint constraints/ | access policy constraint
permissions: permissions error | required 'compute. | gke service account deleted
permissions: required "container. | missing required permissions | service account was deleted
permissions: does not have access to service account | service account … does not exist
shape: is not a valid size of tpu pod slice | invalid tpu topology | invalid value for field
shape: required field ' | flex start node pools | unsupported compact placement config
shape: clusters/node pools cannot be created while
internal: internal error
"""
"""Lines of a class and of fragments. The first match from the top counts, in lower case, with ``_``
as a space; ``…`` is one word. What a later try may mend comes first, because one text can name
several causes, and a needless try costs less than a demand that is never answered. Words that name
no cause come after words that do: the second lines about stockouts and reservations."""
_PATTERNS = [  # assumes: failure-words
    (Failure(name), re.compile("(?<![a-z0-9-])" + re.escape(fragment).replace("…", r"\S+")))
    for name, _, fragments in (line.partition(": ") for line in _TABLE.strip().splitlines())
    for fragment in fragments.split(" | ")
]
_CODES = {8: Failure.STOCKOUT}  # assumes: failure-codes
_CODES |= dict.fromkeys((4, 13, 14), Failure.INTERNAL)
_CODES |= dict.fromkeys((7, 16), Failure.PERMISSIONS)
"""``google.rpc.Code``, for words that the table does not know. INVALID_ARGUMENT (3) is not here: it
does not tell whether the shape is wrong or only what was tried."""


def classify_failure(error: str, code: int = 0) -> Failure:
    """Return the class of a failed creation; UNKNOWN for words and a code that say nothing.

    The words are of the pool, of the operation or of an Event; of an instance group they are
    ``CODE: message``. The code is the operation's ``google.rpc.Code``, or 0.
    """
    text = error.lower().replace("_", " ")
    for failure, pattern in _PATTERNS:
        if pattern.search(text):
            return failure
    return _CODES.get(code, Failure.UNKNOWN)


_OPERATION = re.compile(r"\boperation-[-\w]+")
Decided = Busy | Denied | InvalidRequest | NoCapacity
"""Errors that become a decision. `shared.deliver` handles every other error."""
_REMEDIES = {
    Reason.QUOTA_EXCEEDED: "; end other workloads, or let an operator ask Google for more quota",
    Reason.REQUEST_INVALID: "; correct what GKE names, in the pods or in the operator's settings",
    Reason.PERMISSION_DENIED: "; an operator must grant this permission to the functions",
}


def decide_gke_answer(pool_name: str, act: str, error: Decided) -> Decision:
    """Return the decision after GKE refused a request: WAIT while GKE is busy, else REFUSE.

    The act is the request in words, for example ``created``. The error carries the reason.
    """
    if isinstance(error, Busy):
        return Decision(
            Verdict.WAIT, error.reason, f"node pool {pool_name} cannot be {act} yet: {error}"
        )
    remedy = _REMEDIES.get(error.reason, "")
    return Decision(
        Verdict.REFUSE, error.reason, f"node pool {pool_name} cannot be {act}: {error}{remedy}"
    )


def leave_out_operations(text: str) -> str:
    """Return GKE's words without names of operations: the same failure has the same text."""
    return _OPERATION.sub("operation", text)
