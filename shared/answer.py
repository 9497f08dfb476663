"""The acknowledgement table: the HTTP answer and the log severity of each outcome and error.

Only 2xx acknowledges. A message that no retry can help is acknowledged, and its log record has it.
Other errors are answered with 5xx, so that Pub/Sub delivers the message again.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass

from shared.model.decisions import Verdict
from shared.model.errors import (
    AlreadyExists,
    InvalidRequest,
    NoCapacity,
    NoPlace,
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
    """The HTTP answer to Pub/Sub, and the severity of the log record."""

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
"""Every decision is acknowledged: WAIT too, for the tick or the end of an operation looks again."""

BROKEN = Answer(500, logging.CRITICAL)
ERRORS: tuple[tuple[type[ProvisionerError], Answer], ...] = (
    (Rejected, Answer(200, logging.WARNING)),
    (NoPlace, Answer(200, logging.INFO)),
    (Retryable, Answer(503, logging.WARNING)),  # assumes: push-answers
    # These should have become decisions: Pub/Sub tries again, and the record is an error.
    (NoCapacity, Answer(503, logging.ERROR)),
    (AlreadyExists, Answer(503, logging.ERROR)),
    (NotFound, Answer(503, logging.ERROR)),
    (InvalidRequest, Answer(500, logging.ERROR)),
    (ProvisionerError, BROKEN),
)
"""First match counts. 500 crashes loudly; the message comes back and, in the end, to the dead
letters."""


def answer_decision(verdict: Verdict) -> Answer:
    """Return the answer to a decision that was carried out."""
    return Answer(200, SEVERITIES[verdict])


def answer_error(error: ProvisionerError) -> Answer:
    """Return the answer to an error; total over `shared.model.errors`."""
    answer = next((each for kind, each in ERRORS if isinstance(error, kind)), BROKEN)
    if isinstance(error, Retryable) and error.retry_after_seconds is not None:
        pause = max(1, round(error.retry_after_seconds))
        return dataclasses.replace(answer, retry_after_seconds=pause)
    return answer
