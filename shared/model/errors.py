"""Errors, sorted by what the caller must do. `shared.deliver` acknowledges the message of each.

`Rejected` can never succeed, `Retryable` may in a later try; the others say what GKE answered, and
become decisions (`shared.model.decisions`), or that settings or this project are wrong. Edges and
parsers raise errors; decisions are values.
"""

from __future__ import annotations

import pkgutil
from functools import partial

import msgspec

from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict

JSON_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Not JSON, or of another shape; not UTF-8; nested more deeply than the stack, which takes about
1,000 levels."""
_SHOWN_MAX = 120  # characters of a wrong value


class ProvisionerError(Exception):
    """Base of every error that this project raises on purpose."""

    reason: Reason = Reason.INTERNAL_ERROR

    def __init_subclass__(cls, *, reason: Reason | None = None) -> None:
        cls.reason = reason or cls.reason


class Rejected(ProvisionerError):
    """This input can never succeed, even if it is tried again.

    The message says what is wrong, `field` where (its path, for example ``data.uid``), and `valid`
    what would be right in place of `value`. Those of demands are rows of ``refusals.json``.
    """

    def __init__(
        self, reason: Reason, message: str, *, field: str = "", value: str = "", valid: str = ""
    ) -> None:
        self.reason, self.field, self.value, self.valid = reason, field, value, valid
        where = f"{field}: " if field else ""
        short = value if len(value) <= _SHOWN_MAX else f"{value[: _SHOWN_MAX - 1]}…"
        shown = f" (got {short!r})" if value else ""
        hint = f"; valid: {valid}" if valid else ""
        super().__init__(f"{where}{message}{shown}{hint}")

    @property
    def decision(self) -> Decision:
        """Return what its owner is told."""
        return Decision(Verdict.REFUSE, self.reason, str(self))


MalformedEvent = partial(Rejected, Reason.EVENT_MALFORMED)


class _Words(msgspec.Struct, frozen=True):
    reason: Reason
    text: str
    field: str = ""
    valid: str = ""


_REFUSALS = msgspec.json.decode(
    pkgutil.get_data(__name__, "refusals.json") or b"", type=dict[str, _Words]
)


def refuse(name: str, value: str = "", /, **facts: object) -> Rejected:
    """Return the refusal of a name in ``refusals.json``; the facts fill its words.

    Those of a list or a tuple are written with commas.
    """
    words, said = _REFUSALS[name], {"labels": labels, "value": value, **facts}
    for key, fact in facts.items():
        if isinstance(fact, list | tuple):
            said[key] = ", ".join(map(str, fact))
    field, text, valid = (each.format(**said) for each in (words.field, words.text, words.valid))
    return Rejected(words.reason, text, field=field, value=value, valid=valid)


class Retryable(ProvisionerError, reason=Reason.UNAVAILABLE):
    """A later try may succeed; `retry_after_seconds` is the pause that the server advised."""

    def __init__(self, message: str, *, retry_after_seconds: float | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class Unavailable(Retryable):
    """The server failed or did not answer; it is unknown whether the request took effect."""


class Throttled(Retryable, reason=Reason.THROTTLED):
    """The server received too many requests at once."""


class Busy(Retryable, reason=Reason.GKE_BUSY):
    """Another operation holds the pool or the cluster."""


class KindAbsent(Retryable, reason=Reason.OWNER_UNKNOWN):
    """The cluster does not know the kind of an object, so it cannot tell whether that exists."""


class StaleView(Retryable, reason=Reason.VIEW_STALE):
    """Two answers of the server contradict each other; a later look decides."""


class OutOfTime(Retryable, reason=Reason.OUT_OF_TIME):
    """The time of this delivery is over before the work was done; nothing more was begun."""


class OldLook(StaleView):
    """What was read is too old to act on; nothing was changed."""


class AlreadyExists(ProvisionerError, reason=Reason.VIEW_STALE):
    """An object of that name exists; the caller reads it before it decides."""


class NotFound(ProvisionerError, reason=Reason.VIEW_STALE):
    """The named object does not exist."""


class ClusterNotFound(ProvisionerError, reason=Reason.CLUSTER_NOT_FOUND):
    """GKE does not know this cluster: a wrong setting, not the end of a pool."""


class NoCapacity(ProvisionerError, reason=Reason.QUOTA_EXCEEDED):
    """GKE created nothing, because the quota is used up."""


class ReservationUnfit(NoCapacity, reason=Reason.RESERVATION_UNFIT):
    """GKE created nothing, because the reservation is missing, is used up, or does not fit."""


class Denied(ProvisionerError, reason=Reason.PERMISSION_DENIED):
    """The service account lacks a permission; an operator must grant it."""


class InvalidRequest(ProvisionerError, reason=Reason.REQUEST_INVALID):
    """GKE does not accept the request; the same request fails again."""

    status: str = ""  # Google's canonical code; empty if the answer has none, as that of a proxy


class Misconfigured(ProvisionerError):
    """Settings are wrong; `problems` lists all of them. Raised at start-up only."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__(
            "settings are wrong:\n" + "\n".join(f"  - {problem}" for problem in problems)
        )


class Broken(ProvisionerError):
    """A bug in this project; a retry does not help."""
