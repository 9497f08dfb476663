"""A simple model of GKE's own provisioner with a ComputeClass, beside which the benchmark runs.

For each slice it tries the ways in their order: an empty pool, which the simulator's autoscaler
fills. If that fails, the pool is deleted, the way is left out for the back-off of the autoscaler (5
to 30 minutes), and the next way follows in the next loop of 10 s. There is no pause after a round:
the first way whose back-off is over is tried. It decides inside of the cluster's control plane, so
it needs no sweep and no message. Limits of GKE's program (pools at one time, minutes of
initialisation) are left out, so the real one is not faster than this.
"""

from collections import defaultdict

from shared.needs.node_pool_body import build_node_pool

from benchmarks.scarce_world import Scarcity, Side
from shared.kinds.table import list_slices
from shared.model.errors import Retryable
from shared.model.pools import PoolStatus
from shared.model.priorities import NodeSource
from shared.needs.demand import Demand, build_demand
from tests.simulation.sim_autoscaler import TIMES
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_pool_bodies import Pool

_EMPTY = {"spot": NodeSource.AUTOSCALER, "on-demand": NodeSource.AUTOSCALER}
COMPUTE_CLASS = Side(name="a simple model of a ComputeClass", nodes_from=_EMPTY, compute_class=True)


def live_with(scarcity: Scarcity) -> None:
    """Let GKE's own provisioner make the pools of a world."""
    model = _Model(scarcity)
    scarcity.world.time.spawn(model.run, Invocation("compute class", 0, scarcity.world.time.now))


class _Model:
    """Makes the pools of all slices that wait."""

    def __init__(self, scarcity: Scarcity) -> None:
        self._world, self._cluster = scarcity.world, scarcity.cluster
        self._retry_at: dict[tuple[str, int], float] = defaultdict(float)
        self._failures: dict[tuple[str, int], int] = defaultdict(int)
        """Both by claim and way."""
        self._tries: dict[str, int] = defaultdict(int)
        self._pools: dict[str, Pool] = {}
        """The pool of each claim."""

    def run(self) -> None:
        """Look at the slices that wait, in each loop."""
        while True:
            self._world.time.pause(TIMES.loop)
            waiting = {pod.plan.slice_name for pod in self._cluster.waiting.values() if pod.view.unschedulable}
            for made in self._cluster.workloads.values():
                for found in list_slices(made.view):
                    demand = build_demand(
                        self._cluster.name, made.view, found, found.group.template, self._world.ports.settings
                    )
                    if demand.claim.slice_key.rpartition("/")[2] in waiting:
                        self._serve(demand)

    def _serve(self, demand: Demand) -> None:
        claim, now, gke = demand.claim.hash, self._world.time.now, self._world.gke
        pool = self._pools.get(claim)
        try:
            if pool is not None:
                failed = pool.waits_empty and not pool.busy and pool.machines
                if pool.status != PoolStatus.RUNNING or not failed:
                    return
                gke.delete(self._cluster.name, pool.name)
                way = claim, self._tries[claim] % demand.choices
                pause = min(TIMES.backoff_first * 2 ** self._failures[way], TIMES.backoff_longest)
                self._failures[way] += 1
                self._retry_at[way] = now + pause
                del self._pools[claim]
            open_ways = (way for way in range(demand.choices) if self._retry_at[claim, way] <= now)
            if (following := next(open_ways, None)) is not None:
                self._create(demand, following)
        except Retryable:
            return  # there is no place: again in the next loop

    def _create(self, demand: Demand, way: int) -> None:
        claim, count = demand.claim.hash, demand.choices
        rounds = self._tries[claim] // count + 1 if claim in self._tries else 0
        attempt = rounds * count + way
        body = build_node_pool(
            demand.on_attempt(attempt),
            attempt=attempt,
            created_at=int(self._world.time.now),
            settings=self._world.ports.settings,
        )
        self._world.gke.create(self._cluster.name, body)
        self._tries[claim] = attempt
        self._pools[claim] = self._world.gke.pools[self._cluster.name][body["name"]]
