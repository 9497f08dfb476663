"""What the model remembers: clusters, pools, instances, and the room in which its parts meet.

Records only: who may change them and when is decided in `lifecycle`, `operations` and `supply`.
"""

import random
import uuid
from dataclasses import dataclass, field

from standins.google.gke.clock import Agenda, Clock, Entry, rfc3339
from standins.google.gke.faults import Fault, FaultPlan, Target
from standins.google.gke.names import ClusterName
from standins.google.gke.nodes import Event, Listener, Node
from standins.google.gke.pools import Message, reservation_of, tier_of
from standins.google.gke.scenario import Scenario, Stock
from standins.google.gke.validation import Shape

RETRY_SECONDS = 60.0  # how often a group tries again to make an instance: a guess
_ERRORS_KEPT = 200
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

    `error` is None where GKE waits without an error (flex-start). A wait with a fault does not end
    when there are machines, but when the fault is cleared.
    """

    errors_from: float
    error: InstanceError | None = None
    fault: Fault | None = None

    def last_try(self, now: float) -> float | None:
        """Return when the last try to make an instance failed, None before one has."""
        if self.error is None or now < self.errors_from:
            return None
        return now - (now - self.errors_from) % RETRY_SECONDS


@dataclass
class PoolRecord:
    """One node pool: the message that callers see, and what they do not see."""

    message: Message
    shape: Shape
    zones: list[str]
    accepted_at: float
    finished_at: float | None = None
    failed: bool = False
    stock: Stock | None = None  # where its machines come from; None: there is no bound
    nodes: dict[str, Node] = field(default_factory=dict)
    coming: dict[str, Coming] = field(default_factory=dict)
    """The instances that have a machine and are no nodes yet, by name."""
    waiting: dict[str, str] = field(default_factory=dict)
    """The zones of the instances that its groups cannot make yet, by name."""
    wait: Wait | None = None  # why they cannot be made; None while nothing waits
    past_errors: list[PastError] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the pool's name."""
        return str(self.message.name)

    @property
    def status(self) -> int:
        """Return the pool's status number."""
        return int(self.message.status)

    @property
    def all_or_none(self) -> bool:
        """Return whether it gets the machines for all of its nodes or for none."""
        return self.shape.atomic or bool(reservation_of(self.message))

    @property
    def granted(self) -> int:
        """Return how many nodes it has machines for: those that are up, and those that come."""
        return len(self.nodes) + len(self.coming)

    @property
    def short(self) -> int:
        """Return how many instances wait until they can be made."""
        return len(self.waiting)

    @property
    def planned_nodes(self) -> int:
        """Return how many nodes the pool was created with, over all its zones."""
        return int(self.message.initial_node_count) * len(self.zones)

    def zone_of(self, name: str) -> str:
        """Return the zone of one of its instances, empty when it has no such instance."""
        if name in self.nodes:
            return self.nodes[name].zone
        return self.coming[name].zone if name in self.coming else self.waiting.get(name, "")

    def list_errors(self, now: float) -> list[PastError]:
        """Return the last errors of its groups, oldest first, those of instances given up too."""
        return [*self.past_errors, *self._present_errors(list(self.waiting), now)]

    def forget_waiting(self, names: list[str], now: float) -> None:
        """Take instances off the waiting ones; their errors stay listed."""
        self.past_errors = [*self.past_errors, *self._present_errors(names, now)][-_ERRORS_KEPT:]
        for name in names:
            del self.waiting[name]
        if not self.waiting:
            self.wait = None

    def _present_errors(self, names: list[str], now: float) -> list[PastError]:
        at = self.wait.last_try(now) if self.wait is not None else None
        if at is None or self.wait is None or self.wait.error is None:
            return []
        return [PastError(name, self.waiting[name], at, self.wait.error) for name in names]


@dataclass
class ClusterRecord:
    """One cluster: its pools by name."""

    name: ClusterName
    zones: list[str]
    created: str
    pools: dict[str, PoolRecord] = field(default_factory=dict)


class World:
    """The room that all parts of the model share: clock, chance, faults, clusters, listeners."""

    def __init__(self, clock: Clock, seed: int, scenario: Scenario, faults: FaultPlan) -> None:
        self.clock, self.agenda = clock, Agenda(clock)
        self.scenario, self.faults = scenario, faults
        self.clusters: dict[ClusterName, ClusterRecord] = {}
        self.listeners: list[Listener] = []
        self._seed = seed
        self._draws: dict[str, int] = {}

    @property
    def now(self) -> float:
        """Return the current virtual second."""
        return self.agenda.now

    @property
    def pools(self) -> list[tuple[ClusterRecord, PoolRecord]]:
        """Return every pool with its cluster, the oldest first."""
        pools = [(cluster, pool) for cluster in self.clusters.values() for pool in cluster.pools.values()]
        return sorted(pools, key=lambda pair: pair[1].accepted_at)

    def timestamp(self) -> str:
        """Return the current wall-clock time as GKE writes it."""
        return rfc3339(self.clock.wall(self.now))

    def chance(self, purpose: str) -> random.Random:
        """Return the source of chance for the next event of this purpose.

        The same for the same seed and calls. Each purpose has its own sequence, so that an
        additional call elsewhere changes nothing here.
        """
        number = self._draws.get(purpose, 0)
        self._draws[purpose] = number + 1
        return random.Random(f"{self._seed}:{purpose}:{number}")

    def draw(self, what: str, cluster: ClusterName, pool: str, bounds: tuple[float, float]) -> float:
        """Return how long something of a pool takes, drawn evenly from `bounds`."""
        return self.chance(f"{what}:{cluster.cluster}:{pool}").uniform(*bounds)

    def new_uuid(self, purpose: str) -> str:
        """Return the next UUID of this purpose."""
        return str(uuid.UUID(int=self.chance(purpose).getrandbits(128), version=4))

    def tell(self, event: Event) -> None:
        """Tell every listener what happened."""
        for listener in self.listeners:
            listener(event)


def find_target(cluster: ClusterName, pool: Message, zones: list[str], method: str = "") -> Target:
    """Return what faults may match on, from a pool's description."""
    zone = zones[0] if zones else ""
    return Target(cluster.cluster, pool.name, method, zone, tier_of(pool), pool.config.machine_type)
