"""The node pools of a scenario, as GKE keeps them, behind the product's port."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from shared.core.identity.creations import Creation

from shared.model.errors import AlreadyExists, Busy, NotFound
from shared.model.pools import PoolStatus
from shared.model.readings import Machines
from tests.simulation.sim_creations import follow_creation
from tests.simulation.sim_faults import Invocation, PoolRead
from tests.simulation.sim_growth import choose_end, find_short, give_up, name_missing
from tests.simulation.sim_pool_bodies import HELD, make_default_pool, read_body
from tests.simulation.sim_scenario import START

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.model.pools import PoolSnapshot
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_workloads import Workload
    from tests.simulation.sim_world import World


@dataclass(slots=True)
class GkePools:
    """`shared.model.ports.NodePools` of one scenario; the truth is `pools`."""

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
        with self.world.faults.changing("create", cluster):
            self._create(cluster, node_pool)

    def _create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        world, name = self.world, node_pool["name"]
        if name in self.pools[cluster]:
            raise AlreadyExists(f"Already exists: node pool {name}")
        pool = read_body(cluster, node_pool, world.time.now)
        world.judge.see_create(pool)
        world.tell(f"GKE accepts the create of {name}")
        outcome = world.faults.choose_outcome(cluster)
        vanishes = outcome is not None and outcome.kind == "vanish"
        message = "the simulator lets this creation leave no pool" if vanishes else ""
        ended_at = world.time.now if vanishes else None
        begun = Creation(pool=name, ended=vanishes, error=message, began_at=world.time.now, ended_at=ended_at)
        self.creations.setdefault((cluster, name), []).append(begun)
        if vanishes:
            world.end_operation(cluster, name, "Create", message)
        else:
            self.add(pool)
            follow_creation(self, pool, outcome)

    def get(self, cluster: str, name: str) -> PoolSnapshot | None:
        """Return one pool."""
        self.world.faults.read("get", cluster)
        self._note_read(cluster, name)
        pool = self.pools[cluster].get(name)
        if self.world.faults.stale_seconds:
            return self._look_back(cluster).get(name)
        return pool.snapshot if pool else None

    def list(self, cluster: str) -> list[PoolSnapshot]:
        """Return every pool."""
        self.world.faults.read("list", cluster)
        self._note_read(cluster, "")
        if self.world.faults.stale_seconds:
            known = self._look_back(cluster).values()
            return [make_default_pool(cluster), *known]
        return [make_default_pool(cluster), *(pool.snapshot for pool in self.pools[cluster].values())]

    def find_channel(self, cluster: str) -> str:
        """Return the release channel, which each cluster of a scenario has."""
        return "REGULAR" if cluster in self.pools else ""

    def list_creations(self, cluster: str) -> Sequence[Creation]:
        """Return every creation of a pool."""
        self.world.faults.read("list_creations", cluster)
        return [each for (home, _), made in self.creations.items() if home == cluster for each in made]

    def delete(self, cluster: str, name: str) -> None:
        """Begin to delete one pool."""
        with self.world.faults.changing("delete", cluster):
            pool = self.pools[cluster].get(name)
            if pool is not None:
                self._check_free(pool)
                self.world.judge.see_delete(pool)
                self.world.tell(f"GKE begins to delete {name} ({pool.status})")
                self.stop(pool)

    def measure(self, pool: PoolSnapshot) -> int:
        """Return how many nodes a pool is to have."""
        cluster, found = self._find(pool.name)
        self.world.faults.read("measure", cluster)
        return found.size if found else 0

    def read_machines(self, pool: PoolSnapshot) -> Machines:
        """Return what the instance group of a pool says of its machines."""
        cluster, found = self._find(pool.name)
        self.world.faults.read("read_machines", cluster)
        shows = self.world.time.now - self.world.faults.stale_seconds
        self.world.fills.note_look(cluster, pool.name, shows)
        return found.recall_machines(shows) if found else Machines()

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        """Begin to add nodes to one pool."""
        with self.world.faults.changing("resize", cluster):
            pool = self.pools[cluster].get(name)
            if pool is None:
                raise NotFound(f"node pool {name} does not exist")
            self._check_free(pool)
            self.world.judge.see_resize(pool, nodes)
            self.world.tell(f"GKE begins to resize {name} to {nodes}")
            pool.short, pool.size, pool.grown_at = find_short(self, pool, nodes), nodes, self.world.time.now
            self.set_status(pool, PoolStatus.RECONCILING)
            self._grow(pool)

    def _check_free(self, pool: Pool) -> None:
        """Refuse a change of a pool while another operation runs on it.

        Raises:
            Busy: there is one.
        """
        if pool.status in HELD:
            raise Busy(f"node pool {pool.name} is {pool.status}")

    def list_missing(self, pool: PoolSnapshot) -> Sequence[str]:
        """Return the nodes of one pool that GKE tries to make."""
        cluster, found = self._find(pool.name)
        self.world.faults.read("list_missing", cluster)
        return name_missing(self, found) if found else []

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        """Remove nodes by name."""
        cluster, found = self._find(pool.name)
        with self.world.faults.changing("remove_nodes", cluster):
            if found is None:
                return
            self.world.judge.see_remove_nodes(found, names)
            self.world.tell(f"GKE removes nodes {', '.join(names)}")
            truth = self.world.clusters[cluster]
            give_up(self, found, names)
            for name in names:
                # A group has no instance twice, so a second request for one changes nothing.
                found.size -= name in truth.nodes
                truth.remove_node(name)
            self.world.note_change()

    # --- the truth --------------------------------------------------------------------------------

    def list_owned(self, cluster: str, made: Workload) -> Sequence[Pool]:
        """Return the pools that were made for a workload, and for none before it of its name."""
        return [each for each in self.pools[cluster].values() if each.owner and each.owner.owner_uid == made.uid]

    def find_room(self, cluster: str, zone: str) -> float:
        """Return for how many more hosts a zone has machines now."""
        now, rows = self.world.time.now - START, self.world.scenario.stock
        known = [each for each in rows if each.zone == zone[-1:] and each.at <= now]
        if not known:
            return math.inf
        used = sum(pool.size - pool.short for pool in self.pools[cluster].values() if pool.zone == zone)
        return max(known, key=lambda each: each.at).hosts - used

    def has_machines(self, pool: Pool) -> bool:
        """Return whether a zone has machines for all the hosts of a pool that has none yet."""
        dry = self.world.faults.is_out_of_stock(pool.cluster, pool.zone) or pool.dry_until > self.world.time.now
        return not dry and self.find_room(pool.cluster, pool.zone) >= pool.size

    def is_there(self, pool: Pool) -> bool:
        """Return whether a pool exists and does not end."""
        return self.pools[pool.cluster].get(pool.name) is pool and pool.status != PoolStatus.STOPPING

    def add(self, pool: Pool) -> None:
        """Let a pool exist."""
        self.pools[pool.cluster][pool.name] = pool
        self._remember(pool.cluster)

    def set_status(self, pool: Pool, status: PoolStatus, error: str = "") -> None:
        """Change a pool, if it still exists."""
        if self.pools[pool.cluster].get(pool.name) is not pool:
            return
        if status != pool.status:
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
        self._drain(pool)

    def fill(self, pool: Pool, nodes: int | None = None) -> None:
        """Let the nodes of a pool that are missing join the cluster."""
        home = self.world.clusters[pool.cluster]
        missing = (pool.size - pool.short if nodes is None else nodes) - len(home.list_nodes_of(pool.name))
        for _ in range(missing):
            pool.made_nodes += 1
            home.add_node(pool, f"{pool.name}-n{pool.made_nodes}")
        self.note_nodes(pool)

    def note_nodes(self, pool: Pool) -> None:
        """Note whether all nodes of a pool are there. One that wants no node serves nothing."""
        count = len(self.world.clusters[pool.cluster].list_nodes_of(pool.name))
        whole = count >= max(pool.size, 1)
        pool.emptied_at = pool.emptied_at if count else self.world.time.now
        pool.healthy_since = (pool.healthy_since or self.world.time.now) if whole else None

    def _grow(self, pool: Pool) -> None:
        self.world.time.after(40 + self.world.rng.random() * 40, lambda: self._finish_resize(pool))

    def _drain(self, pool: Pool) -> None:
        home = self.world.clusters[pool.cluster]
        for name in home.list_nodes_of(pool.name):
            home.drain_node(name)
        self.world.time.after(50 + self.world.rng.random() * 100, lambda: self._finish_stop(pool))

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
