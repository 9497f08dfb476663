"""The node pools of a story, as GKE keeps them, behind the product's port."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from shared.core import labels
from shared.core.errors import AlreadyExists, Busy, NotFound
from shared.core.identity.creations import Creation
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from tests.simulation.sim_faults import Invocation, PoolRead
from tests.simulation.sim_growth import choose_end, find_short, give_up, name_missing
from tests.simulation.sim_story import START, Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.core.identity.names import PoolOwner
    from tests.simulation.sim_world import World

Json = dict[str, Any]
MACHINES = {"ct4p-hightpu-4t": ("tpu-v4-podslice", "2x2x1", 4), "ct6e-standard-4t": ("tpu-v6e-slice", "2x2", 4)}
"""Accelerator, topology of one host, and chips."""
HELD = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING, PoolStatus.STOPPING)
STUCK_SECONDS = 4500.0
DEFAULT_POOL = "default-pool"
"""Each cluster has a pool of this name for its own pods; no pod of a story can run there."""


@dataclass(slots=True)
class Pool:
    """One pool as it is now."""

    cluster: str
    name: str
    labels: dict[str, str]
    status: PoolStatus
    node_count: int
    machine_type: str
    topology: str
    made_at: float
    gpus: int = 0
    size: int = 0
    short: int = 0
    """For how many of them there was no machine when it was made or grew."""
    accelerator: str = ""
    pinned: bool = False
    spot: bool = False
    zone: str = ""
    error: str = ""
    healthy_since: float | None = None
    """Since when all of its nodes are there."""
    runs_since: float | None = None
    """Since when GKE says that it runs."""
    used_at: float = 0.0
    """When a pod with accelerators was last on it."""
    relabelled_at: float = 0.0
    """When a person last changed its labels."""
    made_nodes: int = 0
    _snapshot: PoolSnapshot | None = None
    _owner: tuple[PoolOwner | None] | None = None

    @property
    def owner(self) -> PoolOwner | None:
        """Return its owner, by its labels."""
        if self._owner is None:
            self._owner = (self.snapshot.owner,)
        return self._owner[0]

    @property
    def units(self) -> int:
        """Return the chips or GPUs of each of its nodes."""
        return self.gpus or MACHINES[self.machine_type][2]

    @property
    def snapshot(self) -> PoolSnapshot:
        """Return what GKE's API says of it."""
        if self._snapshot is None:
            self._snapshot = PoolSnapshot(
                name=self.name,
                status=self.status,
                labels=self.labels,
                node_count=self.node_count,
                machine_type=self.machine_type,
                topology=self.topology,
                gpus_per_node=self.gpus,
                group_urls=(f"projects/p/zones/z/instanceGroupManagers/{self.name}",),
                error=self.error,
            )
        return self._snapshot

    def relabel(self, found: dict[str, str], now: float) -> None:
        """Give it other labels."""
        self.labels, self.relabelled_at, self._owner, self._snapshot = found, now, None, None


@dataclass(slots=True)
class GkePools:
    """`shared.core.ports.NodePools` of one story; the truth is `pools`."""

    world: World
    pools: dict[str, dict[str, Pool]] = field(default_factory=dict)
    stopped_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """When the last pool of a name began to end."""
    creations: dict[tuple[str, str], list[Creation]] = field(default_factory=dict)
    """The operations that create a pool, by cluster and name, the oldest first."""
    _history: dict[str, list[tuple[float, dict[str, PoolSnapshot]]]] = field(default_factory=dict)

    # --- the port ---------------------------------------------------------------------------------

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Accept one pool; what becomes of it shows later."""
        world, name = self.world, node_pool["name"]
        lost = world.faults.begin("create", cluster)
        if name in self.pools[cluster]:
            raise AlreadyExists(f"Already exists: node pool {name}")
        pool = _read_body(cluster, node_pool, world.time.now)
        world.judge.see_create(pool)
        world.tell(f"GKE accepts the create of {name}")
        outcome = world.faults.choose_outcome(cluster, pool.zone)
        if outcome is None and self.find_room(cluster, pool.zone) < pool.size:
            outcome = Fault(at=world.time.now - START, kind="stockout", seconds=120.0)
        vanishes = outcome is not None and outcome.kind == "vanish"
        said = "the simulator lets this creation leave no pool" if vanishes else ""
        ended_at = world.time.now if vanishes else None
        begun = Creation(pool=name, ended=vanishes, error=said, began_at=world.time.now, ended_at=ended_at)
        self.creations.setdefault((cluster, name), []).append(begun)
        if vanishes:
            world.end_operation(cluster, name, "Create", said)
        else:
            self.add(pool)
            self._follow_creation(pool, outcome)
        if lost:
            raise lost

    def get(self, cluster: str, name: str) -> PoolSnapshot | None:
        """Return one pool."""
        lost = self.world.faults.begin("get", cluster)
        if lost:
            raise lost
        self._note_read(cluster, name)
        if self.world.faults.stale_seconds:
            return self._look_back(cluster).get(name)
        pool = self.pools[cluster].get(name)
        return pool.snapshot if pool else None

    def list(self, cluster: str) -> list[PoolSnapshot]:
        """Return every pool."""
        lost = self.world.faults.begin("list", cluster)
        if lost:
            raise lost
        self._note_read(cluster, "")
        if self.world.faults.stale_seconds:
            return [make_default_pool(cluster), *self._look_back(cluster).values()]
        return [make_default_pool(cluster), *(pool.snapshot for pool in self.pools[cluster].values())]

    def list_creations(self, cluster: str) -> Sequence[Creation]:
        """Return every creation of a pool."""
        lost = self.world.faults.begin("list_creations", cluster)
        if lost:
            raise lost
        return [each for (home, _), made in self.creations.items() if home == cluster for each in made]

    def delete(self, cluster: str, name: str) -> None:
        """Begin to delete one pool."""
        lost = self.world.faults.begin("delete", cluster)
        pool = self.pools[cluster].get(name)
        if pool is not None:
            if pool.status in HELD:
                raise Busy(f"node pool {name} is {pool.status}")
            self.world.judge.see_delete(pool)
            self.world.tell(f"GKE begins to delete {name} ({pool.status})")
            self.stop(pool)
        if lost:
            raise lost

    def measure(self, pool: PoolSnapshot) -> int:
        """Return how many nodes a pool is to have."""
        cluster, found = self._find(pool.name)
        if lost := self.world.faults.begin("measure", cluster):
            raise lost
        return found.size if found else 0

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        """Begin to add nodes to one pool."""
        lost = self.world.faults.begin("resize", cluster)
        pool = self.pools[cluster].get(name)
        if pool is None:
            raise NotFound(f"node pool {name} does not exist")
        if pool.status in HELD:
            raise Busy(f"node pool {name} is {pool.status}")
        self.world.judge.see_resize(pool, nodes)
        self.world.tell(f"GKE begins to resize {name} to {nodes}")
        pool.short, pool.size = find_short(self, pool, nodes), nodes
        self.set_status(pool, PoolStatus.RECONCILING)
        self.world.time.after(40 + self.world.rng.random() * 40, lambda: self._finish_resize(pool))
        if lost:
            raise lost

    def list_missing(self, pool: PoolSnapshot) -> Sequence[str]:
        """Return the nodes of one pool that GKE tries to make."""
        cluster, found = self._find(pool.name)
        if lost := self.world.faults.begin("list_missing", cluster):
            raise lost
        return name_missing(self, found) if found else []

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        """Remove nodes by name."""
        cluster, found = self._find(pool.name)
        lost = self.world.faults.begin("remove_nodes", cluster)
        if found is not None:
            self.world.judge.see_remove_nodes(found, names)
            self.world.tell(f"GKE removes nodes {', '.join(names)}")
            truth = self.world.clusters[cluster]
            give_up(self, found, names)
            for name in names:
                # A group has no instance twice, so a second request for one changes nothing.
                found.size -= name in truth.nodes
                truth.remove_node(name)
            self.world.note_change()
        if lost:
            raise lost

    # --- the truth --------------------------------------------------------------------------------

    def find_room(self, cluster: str, zone: str) -> float:
        """Return for how many more hosts a zone has machines now; a failed pool has none."""
        now, rows = self.world.time.now - START, self.world.story.stock
        known = [each for each in rows if each.zone == zone[-1:] and each.at <= now]
        if not known:
            return math.inf
        used = sum(
            pool.size - pool.short
            for pool in self.pools[cluster].values()
            if pool.zone == zone and pool.status != PoolStatus.ERROR
        )
        return max(known, key=lambda each: each.at).hosts - used

    def add(self, pool: Pool) -> None:
        """Let a pool exist."""
        self.pools[pool.cluster][pool.name] = pool
        self._remember(pool.cluster)

    def set_status(self, pool: Pool, status: PoolStatus, error: str = "") -> None:
        """Change a pool, if it still exists."""
        if self.pools[pool.cluster].get(pool.name) is not pool:
            return
        if status != pool.status:
            self.world.gangs.see_status(pool)
            pool.runs_since = self.world.time.now if status == PoolStatus.RUNNING else None
        pool.status, pool.error, pool._snapshot = status, error, None
        made = self.creations.get((pool.cluster, pool.name), ())
        if made and not made[-1].ended:
            made[-1] = replace(made[-1], ended=True, error=error, ended_at=self.world.time.now)
            self.world.end_operation(pool.cluster, pool.name, "Create", error)
        self._remember(pool.cluster)

    def stop(self, pool: Pool) -> None:
        """Begin the end of a pool: its pods go, and after a while its nodes."""
        self.set_status(pool, PoolStatus.STOPPING)
        pool.healthy_since = None
        self.stopped_at[pool.cluster, pool.name] = self.world.time.now
        home = self.world.clusters[pool.cluster]
        for name in home.list_nodes_of(pool.name):
            home.drain_node(name)
        self.world.time.after(50 + self.world.rng.random() * 100, lambda: self._finish_stop(pool))

    def fill(self, pool: Pool, nodes: int | None = None) -> None:
        """Let the nodes of a pool that are missing join the cluster."""
        home = self.world.clusters[pool.cluster]
        missing = (pool.size - pool.short if nodes is None else nodes) - len(home.list_nodes_of(pool.name))
        for _ in range(missing):
            pool.made_nodes += 1
            home.add_node(pool, f"{pool.name}-n{pool.made_nodes}")
        self.note_nodes(pool)

    def note_nodes(self, pool: Pool) -> None:
        """Note whether all nodes of a pool are there."""
        whole = len(self.world.clusters[pool.cluster].list_nodes_of(pool.name)) >= pool.size
        pool.healthy_since = (pool.healthy_since or self.world.time.now) if whole else None

    def _follow_creation(self, pool: Pool, outcome: Fault | None) -> None:
        kind, rng, time = outcome.kind if outcome else "", self.world.rng, self.world.time
        seconds = 60 + rng.random() * 60
        if kind == "stockout":
            pool.short = pool.size  # it gets none, also while GKE still tries
            seconds = outcome.seconds if outcome and outcome.seconds else 300.0
            time.after(seconds, lambda: self.set_status(pool, PoolStatus.ERROR, "GCE_STOCKOUT: out of capacity"))
        elif kind == "slow":
            time.after(STUCK_SECONDS, lambda: self._run(pool))
        elif kind in ("degraded", "half"):
            time.after(seconds, lambda: self._run_half(pool))
            if kind == "degraded":
                time.after(seconds + 200, lambda: self._run(pool))
        else:
            time.after(seconds, lambda: self._run(pool))

    def _run(self, pool: Pool) -> None:
        if self.pools[pool.cluster].get(pool.name) is pool and pool.status != PoolStatus.STOPPING:
            self.set_status(pool, PoolStatus.RUNNING)
            self.fill(pool)

    def _run_half(self, pool: Pool) -> None:
        if self.pools[pool.cluster].get(pool.name) is pool and pool.status != PoolStatus.STOPPING:
            self.set_status(pool, PoolStatus.RUNNING_WITH_ERROR, "some nodes did not register")
            self.fill(pool, pool.size // 2)

    def _finish_resize(self, pool: Pool) -> None:
        if self.pools[pool.cluster].get(pool.name) is pool and pool.status == PoolStatus.RECONCILING:
            self.set_status(pool, *choose_end(self, pool))
            self.fill(pool)

    def _finish_stop(self, pool: Pool) -> None:
        home = self.world.clusters[pool.cluster]
        for name in home.list_nodes_of(pool.name):
            home.remove_node(name)
        if self.pools[pool.cluster].get(pool.name) is pool:
            del self.pools[pool.cluster][pool.name]
            self.world.tell(f"node pool {pool.name} is gone")
            self.world.end_operation(pool.cluster, pool.name, "Delete")
            self._remember(pool.cluster)

    def _find(self, name: str) -> tuple[str, Pool | None]:
        for cluster, pools in self.pools.items():
            if name in pools:
                return cluster, pools[name]
        return next(iter(self.pools)), None

    def relabel(self, pool: Pool, found: dict[str, str]) -> None:
        """Give a pool other labels, as a person can by hand."""
        pool.relabel(found, self.world.time.now)
        self._remember(pool.cluster)

    def _remember(self, cluster: str) -> None:
        self.world.note_change()
        if self.world.keeps_history:
            known = {name: pool.snapshot for name, pool in self.pools[cluster].items()}
            self._history.setdefault(cluster, []).append((self.world.time.now, known))

    def _note_read(self, cluster: str, name: str) -> None:
        run, now = self.world.time.get_owner(), self.world.time.now
        if isinstance(run, Invocation):
            run.pool_reads[cluster, name] = PoolRead(now, now - self.world.faults.stale_seconds)

    def _look_back(self, cluster: str) -> dict[str, PoolSnapshot]:
        then = self.world.time.now - self.world.faults.stale_seconds
        found: dict[str, PoolSnapshot] = {}
        for moment, known in self._history.get(cluster, ()):
            if moment > then:
                break
            found = known
        return found


def name_default_group(cluster: str) -> str:
    """Return the name of the instance group of a cluster's default pool, which GKE makes unique."""
    return f"gke-main-default-pool-{hashlib.sha256(cluster.encode()).hexdigest()[:8]}"


@functools.cache
def make_default_pool(cluster: str) -> PoolSnapshot:
    """Return the default pool of a cluster, as GKE lists it."""
    group = f"projects/p/zones/z/instanceGroupManagers/{name_default_group(cluster)}-grp"
    return PoolSnapshot(
        name=DEFAULT_POOL,
        status=PoolStatus.RUNNING,
        node_count=1,
        machine_type="e2-standard-4",
        group_urls=(group,),
    )


def _read_body(cluster: str, body: Mapping[str, Any], now: float) -> Pool:
    config = body["config"]
    gpus = config.get("accelerators", ())
    accelerator, topology, _ = MACHINES.get(config["machineType"], ("", "", 0))
    taints = [taint["key"] for taint in config.get("taints", ())]
    return Pool(
        cluster=cluster,
        name=body["name"],
        labels=dict(config["labels"]),
        status=PoolStatus.PROVISIONING,
        node_count=body["initialNodeCount"],
        size=body["initialNodeCount"],
        machine_type=config["machineType"],
        topology=body.get("placementPolicy", {}).get("tpuTopology", topology),
        made_at=now,
        gpus=sum(int(each["acceleratorCount"]) for each in gpus),
        accelerator=gpus[0]["acceleratorType"] if gpus else accelerator,
        pinned=any(taint != labels.SPOT for taint in taints),
        spot=bool(config.get("spot")),
        zone=body["locations"][0],
    )
