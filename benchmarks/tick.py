"""The third tick of each function over 500 and 2,000 workloads: CPU, wall-clock time, and calls.

It is the one of each minute: a process remembers what a workload wants while nothing changes. What
the first tick of a process cost, which creates the pools that are lacking, stands beside it.

The ports are in memory, and each call takes 20 ms, so the CPU is that of the rules and of the
shell, without HTTP and JSON. Each workload has one slice of four hosts: it runs on its pool, or it
waits and is refused, or it waits and gets a pool.
"""

import copy
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, cast

from msgspec import structs

from benchmarks.figures import Figure, compare
from benchmarks.processes import Failed
from shared.edges.process import SYSTEM_CLOCK
from shared.engine.budget import open_books
from shared.engine.outside import Cluster, PoolAdds, PoolTakes, Ports, Role
from shared.engine.wakes import tick
from shared.kinds.jobset import JOBSET_UID_ON_POD
from shared.model import labels
from shared.model.names import Claim, Try, build_name, build_owner_labels
from shared.model.pools import NodePool, PoolNode, PoolStatus
from shared.model.workloads import PodView, WorkloadView
from tests.builders import CLUSTER, ZONE, a_jobset, a_pod, settings
from tests.engine.fake_ports import FakeCluster, FakeGke

SECTION = "tick: 20 ms for each call"
SIZES = (500, 2000)
QUICK_SIZES = (100, 500)
HOSTS = 4
CALL_SECONDS, TICKS = 0.02, 3
AGE_SECONDS = 3600.0


class Indexed(FakeCluster):
    """A cluster that finds the pods of a workload without looking at all of them."""

    def list_workload_pods(self, workload: WorkloadView) -> Sequence[PodView]:
        """Return the pods of one workload."""
        return [self.pods[f"{workload.name}-{host}"] for host in range(HOSTS)]


class Delayed:
    """A port of which each call takes 20 ms and is counted."""

    def __init__(self, port: object, calls: Counter[str]) -> None:
        self._port, self._calls = port, calls

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Return a call of the port."""
        answer = getattr(self._port, method)

        def call(*given: Any, **named: Any) -> Any:
            time.sleep(CALL_SECONDS)
            self._calls[method] += 1
            return answer(*given, **named)

        return call


CASES = {
    "collect, all run": (Role.COLLECT, True),
    "provision, all run": (Role.PROVISION, True),
    "provision, all wait": (Role.PROVISION, False),
}
"""Of which function a tick is, and whether each slice runs on a pool of its own; else all wait."""
UNITS = {"CPU at first": "s", "CPU": "s", "time": "s", "calls": "calls"}


def measure(runs: int, say: Callable[[str], None], *, quick: bool) -> list[Figure]:
    """Return the figures of each case and size; CPU beside the size before, in proportion."""
    figures: list[Figure] = []
    for case in CASES:
        before: list[dict[str, float]] = []
        for size in QUICK_SIZES if quick else SIZES:
            what = f"{case}, {size} workloads"
            say(f"tick: {what}")
            costs = [_tick(case, size) for _ in range(runs)]
            for row, unit in UNITS.items():
                budget = "tick_seconds" if row == "time" else ""
                figure = compare(SECTION, f"{row}, {what}", unit, itemgetter(row), costs, budget=budget)
                small = [each["CPU"] * size / each["size"] for each in before] if row == "CPU" else []
                figures.append(replace(figure, baseline=tuple(small)))
            before = costs
    return figures


def _tick(case: str, size: int) -> dict[str, float]:
    role, runs = CASES[case]
    gke, calls = FakeGke(), Counter[str]()
    live = Indexed(gke)
    for number in range(size):
        _add(number, gke, live, runs=runs)
    pools = Delayed(gke, calls)
    ports = Ports(
        settings=settings(),
        pools=cast("PoolAdds", pools),
        adds=cast("PoolAdds", pools) if role == Role.PROVISION else None,
        takes=cast("PoolTakes", pools) if role == Role.COLLECT else None,
        clusters={CLUSTER: cast("Cluster", Delayed(live, calls))},
        clock=SYSTEM_CLOCK,
        books=open_books(settings()),
    )
    spent: list[float] = []
    for _ in range(TICKS):
        # Each tick decodes values of its own.
        live.pods, live.workloads = copy.deepcopy(live.pods), copy.deepcopy(live.workloads)
        calls.clear()
        cpu, began = time.process_time(), time.perf_counter()
        done = tick(CLUSTER, ports)
        if done.errors or done.left:
            raise Failed(f"{case}: the tick left {done.left} workloads, and had errors: {done.errors[:3]}")
        spent.append(time.process_time() - cpu)
    measured = {"time": time.perf_counter() - began, "calls": calls.total(), "size": size}
    return measured | {"CPU at first": spent[0], "CPU": spent[-1]}


def _add(number: int, gke: FakeGke, live: FakeCluster, *, runs: bool) -> None:
    """Add a JobSet with one slice, and its pool if it runs."""
    name, now = f"w{number}", time.time()
    jobset = a_jobset(name=name, uid=f"uid-{number}", replicas=1)
    live.workloads["JobSet", "default", name] = jobset
    pool = _add_pool(name, jobset.uid, gke, live) if runs else ""
    for host in range(HOSTS):
        owned = {JOBSET_UID_ON_POD: jobset.uid, labels.COMPLETION_INDEX: str(host)}
        pod = a_pod(jobset=name, name=f"{name}-{host}", uid=f"pod-{number}-{host}", pod_labels=owned)
        node, since = f"{pool}-{host}" if pool else "", None if pool else now - AGE_SECONDS
        states = {"node_name": node, "unschedulable": not pool, "unschedulable_since": since}
        live.pods[pod.name] = structs.replace(pod, created_at=now - AGE_SECONDS, **states)


def _add_pool(name: str, uid: str, gke: FakeGke, live: FakeCluster) -> str:
    claim = Claim(cluster=CLUSTER, kind="JobSet", namespace="default", name=name, uid=uid, need="n", slot=0)
    created_at = time.time() - AGE_SECONDS
    pool = NodePool(
        name=build_name(claim, 0),
        status=PoolStatus.RUNNING,
        labels=build_owner_labels(claim, Try(), created_at=int(created_at)),
        machine_type="ct6e-standard-4t",
        topology="4x4",
        maximum=HOSTS,
        zones=(ZONE,),
    )
    gke.pools[pool.name] = pool
    for host in range(HOSTS):
        node = PoolNode(name=f"{pool.name}-{host}", pool=pool.name, ready=True, ready_at=created_at)
        live.nodes[node.name] = node
    return pool.name
