"""What fails in a scenario: it is applied where the product calls a port."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from greenlet import getcurrent

from shared.model.errors import Busy, ClusterNotFound, Denied, NoCapacity, ProvisionerError, Throttled, Unavailable
from tests.simulation.sim_scenarios import CLUSTERS, Fault
from tests.simulation.virtual_time import VirtualTime

GKE = frozenset(
    {"create", "get", "list", "list_operations", "delete", "read_machines", "raise_maximum", "lower_maximum"}
)
CHANGES = frozenset({"create", "delete", "raise_maximum", "lower_maximum"})
REFUSED = frozenset({"create", "raise_maximum"})  # what a quota may refuse at once
METHODS = {
    "stale": frozenset({"list", "get", "read_machines"}),
    "busy": CHANGES,
    "quota": REFUSED,
    "cluster-not-found": GKE,
}
"""What a fault may strike; the others strike any call."""
ERRORS: dict[str, Callable[[], ProvisionerError]] = {
    "unavailable": lambda: Unavailable("no answer: the simulator lets this call fail"),
    "throttled": lambda: Throttled("quota of requests per minute", retry_after_seconds=30),
    "busy": lambda: Busy("Cluster is running incompatible operation"),
    "denied": lambda: Denied("403: the simulator took this right away"),
    "quota": lambda: NoCapacity("Insufficient quota to satisfy the request"),
    "cluster-not-found": lambda: ClusterNotFound("404: no such cluster"),
}
OUTCOMES = frozenset({"stockout", "vanish", "degraded", "slow", "half"})
"""What becomes of a create that GKE has accepted."""
MESSAGES = frozenset({"lose", "duplicate", "delay"})
LATE = "late"  # GKE does what it was asked long after the caller has given up
NO_CALLS = OUTCOMES | MESSAGES | {LATE}
"""Faults that strike elsewhere than at the beginning of a call."""
CALL_SECONDS = 30.0  # after so long the product gives a call up
WINDOWS: dict[str, tuple[str, Callable[[Fault, str], bool]]] = {
    "outage": ("unavailable", lambda fault, method: (fault.method == "gke") == (method in GKE)),
    "no-right": ("denied", lambda fault, method: fault.method == method),
    "no-quota": ("quota", lambda _, method: method in REFUSED),
    "no-stock": ("", lambda *_: False),
    "no-chips": ("", lambda *_: False),
}
"""What lasts: the error of a call that meets it, and whether a method does; capacity meets none."""
STILL = frozenset({"no-quota", "no-stock"})
"""Windows that may stay open when the scenario comes to rest."""


class Crash(BaseException):
    """The instance ends here, between two calls."""


@dataclass(frozen=True, slots=True)
class PoolRead:
    """One answer of GKE about pools."""

    answered_at: float
    shows: float  # the moment that it shows; earlier than the answer if the answer is stale


@dataclass(slots=True)
class Invocation:
    """One run of a function, with what the judge needs to know of it."""

    label: str
    version: int
    began: float
    looks: dict[tuple[str, str], float] = field(default_factory=dict)
    """When it last read the pods on a pool."""
    pool_reads: dict[tuple[str, str], PoolRead] = field(default_factory=dict)
    """Its last read of each pool, by cluster and name; without a name: its last list."""
    bugs: list[str] = field(default_factory=list)  # errors that the product itself did not foresee


class FaultTable:
    """The faults of one scenario that can strike now."""

    def __init__(
        self, time: VirtualTime, rng: Random, tell: Callable[[str], None], latency_seconds: float = 0.4
    ) -> None:
        self._time, self._rng, self._tell, self._latency = time, rng, tell, latency_seconds
        self._armed: list[Fault] = []
        self._open: list[Fault] = []
        self.stale_seconds = 0.0
        """How old the answer to the present call is."""
        self.struck = 0

    def arm(self, fault: Fault) -> None:
        if fault.kind in WINDOWS:
            self._open.append(fault)
            if fault.kind not in STILL or fault.seconds:
                self._time.after(fault.seconds, lambda: self._close(fault))
        else:
            self._armed.append(fault)

    def _close(self, fault: Fault) -> None:
        if fault in self._open:
            self._open.remove(fault)

    def disarm(self) -> None:
        """Let nothing fail any more, except for capacity that stays away."""
        self._armed.clear()
        self._open = [each for each in self._open if each.kind in STILL and not each.seconds]

    def read(self, method: str, cluster: str) -> None:
        """Wait as long as a call takes that changes nothing; raise its error."""
        if lost := self._begin(method, cluster):
            raise lost

    @contextmanager
    def changing(self, method: str, cluster: str) -> Iterator[None]:
        """Wait as long as a call takes, or raise its error; the answer may be lost afterwards."""
        lost = self._begin(method, cluster)
        yield
        if lost:
            raise lost

    def _begin(self, method: str, cluster: str) -> ProvisionerError | None:
        """Wait as long as a call takes; raise its error, or return the one to raise after it."""
        getcurrent().call_began = self._time.now
        self._time.pause(self._rng.random() * self._latency)
        self.stale_seconds = 0.0
        for fault in self._open:
            kind, meets = WINDOWS[fault.kind]
            if CLUSTERS[fault.cluster] == cluster and meets(fault, method):
                error = ERRORS[kind]()
                raise error
        for fault in self._armed:
            if self._matches(fault, method, cluster):
                self._note(fault)
                self._tell(f"FAULT {fault.kind} at {method}")
                return self._strike(fault)
        return None

    def _matches(self, fault: Fault, method: str, cluster: str) -> bool:
        if fault.kind in NO_CALLS or CLUSTERS[fault.cluster] != cluster:
            return False
        return fault.method in ("", method) and (fault.kind not in METHODS or method in METHODS[fault.kind])

    def _note(self, fault: Fault) -> None:
        self._armed.remove(fault)
        self.struck += 1

    def _strike(self, fault: Fault) -> ProvisionerError | None:
        if fault.kind == "crash":
            raise Crash
        if fault.kind in ERRORS:
            error = ERRORS[fault.kind]()
            raise error
        if fault.kind == "stall":
            self._time.pause(fault.seconds)
        elif fault.kind == "stale":
            self.stale_seconds = fault.seconds
        return Unavailable("no answer: the reply was lost") if fault.kind == "lost-reply" else None

    def take(self, cluster: str, kinds: Collection[str], method: str = "") -> Fault | None:
        """Return the first fault of some kinds, which strikes now and at no call."""
        for fault in self._armed:
            if fault.kind in kinds and CLUSTERS[fault.cluster] == cluster and fault.method == method:
                self._note(fault)
                return fault
        return None

    def is_out_of_stock(self, cluster: str, zone: str) -> bool:
        """Return whether a zone has no machines now.

        The method of such a fault has the last letters of its zones; empty for all of them.
        """
        dry = (each for each in self._open if each.kind == "no-stock" and CLUSTERS[each.cluster] == cluster)
        return any(not each.method or zone[-1] in each.method for each in dry)

    def lasts(self, cluster: str, *kinds: str) -> bool:
        return any(each.kind in kinds and CLUSTERS[each.cluster] == cluster for each in self._open)
