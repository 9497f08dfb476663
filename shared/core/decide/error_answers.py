"""Turns an error into a decision for people: refused for good, or not decided yet."""

from __future__ import annotations

import re

from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import (
    Busy,
    Denied,
    InvalidRequest,
    LabelBudgetExceeded,
    NoCapacity,
    ProvisionerError,
    Rejected,
    ReservationUnfit,
)

_OPERATION = re.compile(r"\boperation-[-\w]+")
Decided = Busy | Denied | InvalidRequest | LabelBudgetExceeded | NoCapacity
"""Errors that become a decision. `shared.answer` handles every other error."""
REFUSED_BY_GKE = frozenset(Reason(each.reason) for each in (NoCapacity, ReservationUnfit, InvalidRequest))
"""Reasons of a creation that GKE did not accept; another tier, zone or reservation may succeed."""
_REMEDIES = {
    Reason.QUOTA_EXCEEDED: "; end other workloads, or let an operator ask Google for more quota",
    Reason.REQUEST_INVALID: "; correct what GKE names, in the pods or in the operator's settings",
    Reason.PERMISSION_DENIED: "; an operator must grant this right to the functions",
}


def decide_gke_answer(pool_name: str, act: str, error: Decided) -> Decision:
    """Return the decision after GKE refused a request: WAIT while GKE is busy, else REFUSE.

    The act is the request in words, for example ``created``. The error carries the reason.
    """
    reason = Reason(error.reason)
    if isinstance(error, Busy):
        return Decision(Verdict.WAIT, reason, f"node pool {pool_name} cannot be {act} yet: {error}")
    remedy = _REMEDIES.get(reason, "")
    return Decision(Verdict.REFUSE, reason, f"node pool {pool_name} cannot be {act}: {error}{remedy}")


def decide_failure(act: str, error: ProvisionerError) -> Decision:
    """Return the decision for a demand whose answer failed: it waits, and a later look tries again.

    The act is what failed, in words. Names of operations are left out of the text, so that the same
    failure has the same text in every sweep.
    """
    if isinstance(error, Denied):
        return Decision(Verdict.REFUSE, Reason(error.reason), f"{act}: {error}{_REMEDIES[Reason(error.reason)]}")
    said = leave_out_operations(str(error))
    return Decision(Verdict.WAIT, Reason(error.reason), f"{act} yet, and is tried again: {said}")


def leave_out_operations(text: str) -> str:
    """Return GKE's words without names of operations: the same failure has the same text."""
    return _OPERATION.sub("operation", text)


def decide_letter_error(error: ProvisionerError) -> Decision:
    """Return the decision for a dead letter that fails with this error when it is replayed."""
    reason = Reason(error.reason)
    if isinstance(error, Rejected):
        return Decision(Verdict.REFUSE, reason, f"would become a dead letter again: {error}")
    return Decision(Verdict.WAIT, reason, f"not decided, because a source does not answer: {error}")
