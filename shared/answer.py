"""The acknowledgement table: what an outcome or an error means to Pub/Sub, and how loudly it is logged.

Only 2xx acknowledges. What a retry cannot mend is acknowledged and kept; what it can is handed back.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from shared.core.decisions import Verdict
from shared.core.errors import (
    AlreadyExists,
    Broken,
    ClusterNotFound,
    Denied,
    InvalidRequest,
    Misconfigured,
    NoCapacity,
    NotFound,
    ProvisionerError,
    Rejected,
    Retryable,
)

NOTICE = 25
"""Cloud Logging's severity between INFO and WARNING."""
logging.addLevelName(NOTICE, "NOTICE")


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to Pub/Sub, and with which severity."""

    status: int
    severity: int
    retry_after_seconds: int | None = None


SEVERITIES = {
    Verdict.CREATE: NOTICE,
    Verdict.RESIZE: NOTICE,
    Verdict.DELETE: NOTICE,
    Verdict.REFUSE: logging.WARNING,
    Verdict.WAIT: logging.INFO,
    Verdict.KEEP: logging.INFO,
    Verdict.NOTHING: logging.INFO,
}
"""Every decision is acknowledged: WAIT too, for the sweep (or the end of the operation) looks again."""

ERRORS: tuple[tuple[type[ProvisionerError], Answer], ...] = (
    (Rejected, Answer(200, logging.WARNING)),
    (Retryable, Answer(503, logging.WARNING)),
    # A leaf that should have become a decision: the queue tries again, a person is told.
    (NoCapacity, Answer(503, logging.ERROR)),
    (AlreadyExists, Answer(503, logging.ERROR)),
    (NotFound, Answer(503, logging.ERROR)),
    (InvalidRequest, Answer(500, logging.ERROR)),
    (ClusterNotFound, Answer(500, logging.CRITICAL)),
    (Denied, Answer(500, logging.CRITICAL)),
    (Misconfigured, Answer(500, logging.CRITICAL)),
    (Broken, Answer(500, logging.CRITICAL)),
)
"""First match counts. 500 crashes loudly; the message comes back and, in the end, to the dead letters."""


def answer_decision(verdict: Verdict) -> Answer:
    """Return the answer to a decision that was carried out."""
    return Answer(200, SEVERITIES[verdict])


def answer_error(error: ProvisionerError) -> Answer:
    """Return the answer to an error; total over `shared.core.errors`."""
    for kind, answer in ERRORS:
        if isinstance(error, kind):
            if isinstance(error, Retryable) and error.retry_after_seconds is not None:
                return Answer(answer.status, answer.severity, max(1, round(error.retry_after_seconds)))
            return answer
    return Answer(500, logging.CRITICAL)
