"""Why GKE could not create or fill a pool: one table from its words to a reason. Pure.

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

from shared.model.decisions import Reason

_TABLE = """
reservation_unfit: specified reservation | requires reservation to be in ready state
reservation_unfit: reservation not ready
reservation_unfit: given reservation with the following name | reservation not found
reservation_unfit: not found for node pool
reservation_unfit: does not have sufficient capacity for the requested resources
reservation_unfit: reservation does not have enough resources | reservation capacity exceeded
reservation_unfit: lack of capacity in your reservation | reservation incompatible
reservation_unfit: is incorrect for the requested resources | aggregatereservation vmfamily
reservation_unfit: aggregate reservations | target a reservation with workload type
reservation_unfit: must use reservationaffinity of | must exist in the same project as the instance
reservation_unfit: no automatic reservation | automatic reservations | any affinity reservations
stockout: gce stockout | gce out of resources | resource pool exhausted | enough resources available
stockout: insufficient capacity | does not currently have sufficient capacity
stockout: there is no more capacity | is currently unavailable in the | lack of capacity
quota_exceeded: quota exceeded | insufficient quota | insufficient regional quota
quota_exceeded: insufficient project quota
quota_exceeded: quota ' | quota limit | exceeded limit ' | cluster byte size limit reached
addresses_exhausted: ip space exhausted | ip space of | available private ip space
addresses_exhausted: cannot find pod range
zone_unfit: does not exist in zone | gce not found | is not supported in this zone
zone_unfit: unsupported operation | unsupported tpu configuration | invalid tpu configuration
stockout: requested resource is exhausted | in backoff after failed scale-up
stockout: failed to appear in time
reservation_unfit: invalid reservation
policy_violated: constraint constraints/ | access policy constraint
permission_denied: permissions error | required 'compute. | gke service account deleted
permission_denied: required "container. | missing required permissions | service account was deleted
permission_denied: does not have access to service account | service account … does not exist
request_invalid: is not a valid size of tpu pod slice | invalid tpu topology
request_invalid: invalid value for field | required field ' | flex start node pools
request_invalid: unsupported compact placement config | clusters/node pools cannot be created while
"""
"""Lines of a class and of fragments. The first match from the top counts, in lower case, with ``_``
as a space; ``…`` is one word. What a later try may mend comes first, because one text can name
several causes, and a needless try costs less than a demand that is never answered. Words that name
no cause come after words that do: the second lines about stockouts and reservations."""
_PATTERNS = [  # assumes: failure-words
    (Reason(name), re.compile("(?<![a-z0-9-])" + re.escape(fragment).replace("…", r"\S+")))
    for name, _, fragments in (line.partition(": ") for line in _TABLE.strip().splitlines())
    for fragment in fragments.split(" | ")
]


def classify_failure(error: str) -> Reason:
    """Return the class of a failed creation; POOL_FAILED for words that the table does not know.

    The words are of the pool, of the operation or of an Event; of an instance group they are
    ``CODE: message``.
    """
    text = error.lower().replace("_", " ")
    matches = (reason for reason, pattern in _PATTERNS if pattern.search(text))
    return next(matches, Reason.POOL_FAILED)
