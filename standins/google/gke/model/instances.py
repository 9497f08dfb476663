"""The instances of a pool's groups that are no nodes yet: those that come, and those that wait.

Records and what they show at a moment. Who changes them is decided in `fleet` and `supply`.
"""

from dataclasses import dataclass

from standins.google.gke.faults.fault_rules import Fault
from standins.google.gke.model.agenda import Entry

RETRY_SECONDS = 60.0
"""How often a group tries again to make an instance: a guess."""
_ROUNDS_KEPT = 3
_STAGES = ((0.3, "PROVISIONING"), (0.6, "STAGING"))


@dataclass(frozen=True)
class InstanceError:
    """Why an instance could not be made, as Compute Engine says it."""

    code: str
    message: str


@dataclass(frozen=True)
class PastError:
    """One failed try to make one instance, at a virtual second."""

    instance: str
    zone: str
    at: float
    error: InstanceError


@dataclass(frozen=True)
class Coming:
    """An instance that has a machine: it begins at `since` and is a node at `until`."""

    zone: str
    since: float
    until: float
    entry: Entry

    def status_at(self, now: float) -> str:
        """Return the state of the instance: PROVISIONING, STAGING, then RUNNING without a node."""
        share = (now - self.since) / max(self.until - self.since, 1e-9)
        return next((name for until, name in _STAGES if share < until), "RUNNING")


@dataclass
class Wait:
    """Why instances cannot be made, since when, and from when on the group says so.

    `error` is None where GKE waits without an error (flex-start). A blocked wait does not end when
    there are machines: a fault holds it, until the fault is cleared.
    """

    since: float
    errors_from: float
    error: InstanceError | None = None
    fault: Fault | None = None
    blocked: bool = False

    def error_at(self, now: float) -> InstanceError | None:
        """Return what the last try to make an instance came to, None before it came to anything."""
        return self.error if now >= self.errors_from else None

    def rounds_until(self, now: float) -> list[float]:
        """Return when the last tries failed, oldest first."""
        if self.error_at(now) is None:
            return []
        count = int((now - self.errors_from) // RETRY_SECONDS) + 1
        return [self.errors_from + number * RETRY_SECONDS for number in range(max(0, count - _ROUNDS_KEPT), count)]
