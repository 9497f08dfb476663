"""Why GKE could not create or fill a pool: one table, `failures.json`, from its words to a reason.

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

import pkgutil
import re

import msgspec

from shared.model.decisions import Reason

_TABLE = msgspec.json.decode(
    pkgutil.get_data(__name__, "failures.json") or b"", type=list[tuple[Reason, list[str]]]
)
"""Classes with their fragments. The first match from the top counts, in lower case, with ``_`` as a
space; ``…`` is one word. What a later try may mend comes first, because one text can name several
causes, and a needless try costs less than a demand that is never answered. Words that name no cause
come after words that do: the second rows of stockouts and reservations."""
_PATTERNS = [  # assumes: failure-words
    (reason, re.compile("(?<![a-z0-9-])" + re.escape(fragment).replace("…", r"\S+")))
    for reason, fragments in _TABLE
    for fragment in fragments
]


def classify_failure(error: str) -> Reason:
    """Return the class of a failed creation; POOL_FAILED for words that the table does not know.

    The words are of the pool, of the operation or of an Event; of an instance group they are
    ``CODE: message``.
    """
    text = error.lower().replace("_", " ")
    matches = (reason for reason, pattern in _PATTERNS if pattern.search(text))
    return next(matches, Reason.POOL_FAILED)
