"""The sweep of 100 to 2,000 pools: CPU, wall-clock time and calls, with 20 ms per call of a port.

The ports are in memory, so the CPU is that of the rules and of the shell, without HTTP and JSON.
For each pool there are a workload and five waiting pods: a refused leader and four followers. The
largest sweep runs with a limit too, which is reached. Then it creates a pool for each leader:
without a limit, and with one that has room for all, beside that without.

Then all leaders wait for their own pool, which the autoscaler is to fill, or which GKE creates with
its nodes.
"""

import dataclasses
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from shared.engine.entries.sweep import sweep

from benchmarks.figures import Figure, compare
from benchmarks.metering import Failed
from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.threads import Threads
from shared.engine.outside import Cluster, Ledger, NodePools, Ports
from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.errors import StaleView
from shared.model.names import SliceClaim, build_owner_labels, build_pool_name
from shared.model.pools import PoolSnapshot, PoolStatus
from shared.model.priorities import NodeSource
from shared.model.readings import Machines, Namespace
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView
from shared.settings import ClusterSettings, Settings

SECTION = "sweep: 20 ms for each call"
CLUSTER = "projects/p/locations/us-east5/clusters/c"
SIZES = (100, 500, 1000, 2000)
QUICK_SIZES = (100, 500)
"""Each refused workload costs 60 ms of waiting, so 2,000 of them take two minutes."""
WAITED_FOR = (64, 150)
"""Pools that leaders wait for; 150 is the default of `autoscaled_pools_max`."""
FOLLOWERS = 4
CHIPS = 16
"""Of each pool."""
CALL_SECONDS = 0.02
TIMEOUT_SECONDS = 540
"""Of the deployed sweep, infra/terraform/modules/provisioner/main.tf."""


class World:
    """GKE and one cluster in memory; each call takes 20 ms and is counted."""

    def __init__(self, workloads: int, source: NodeSource | None = None) -> None:
        """Prepare so many workloads.

        Args:
            workloads: how many, each with one pool.
            source: what is to make the nodes of the pool that the leader waits for; None if the
                leader is of another slice, and the pool runs.
        """
        self._source = source
        self.calls: Counter[str] = Counter()
        self.pools: list[PoolSnapshot] = []
        self.workloads: dict[str, WorkloadView] = {}
        self.leaders: dict[str, PodView] = {}
        self.followers: list[PodView] = []
        self._ledger = Ledger(version="", entries={})
        self._job = 0 if source else 1
        for number in range(workloads):
            self._add(number)

    def _add(self, number: int) -> None:
        name, uid = f"w{number}", f"uid-{number}"
        selector = {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "4x4"}
        template = PodTemplate(node_selector=selector, container_chips=(4,))
        group = SliceGroup(name="w", replicas=2, template=template)
        self.workloads[name] = WorkloadView(
            kind="JobSet", namespace="default", name=name, uid=uid, groups=(group,)
        )
        claim = SliceClaim(
            cluster=CLUSTER,
            kind="JobSet",
            namespace="default",
            name=name,
            owner_uid=uid,
            slice_key=f"default/{name}-w-0",
        )
        owner_labels = build_owner_labels(
            claim, attempt=0, created_at=int(time.time()) - (600 if self._source else 9000), fingerprint=""
        )
        pool = PoolSnapshot(
            name=build_pool_name(claim),
            status=PoolStatus.PROVISIONING if self._source == NodeSource.CREATION else PoolStatus.RUNNING,
            autoscaled=self._source == NodeSource.AUTOSCALER,
            labels=owner_labels,
            node_count=4,
            machine_type="ct6e-standard-4t",
        )
        self.pools.append(pool)
        leader = self._build_pod(name, uid, template, index=0)
        self.leaders[leader.name] = leader
        self.followers += [self._build_pod(name, uid, template, index=index + 1) for index in range(FOLLOWERS)]

    def _build_pod(self, name: str, uid: str, template: PodTemplate, *, index: int) -> PodView:
        pod_labels = {
            jobset_keys.JOBSET_NAME_ON_POD: name,
            jobset_keys.JOBSET_UID_ON_POD: uid,
            jobset_keys.JOB_KEY: f"key-{name}",
            labels.COMPLETION_INDEX: str(index),
        }
        job = f"{name}-w-{self._job}"
        return PodView(
            namespace="default",
            name=f"{job}-{index}",
            uid=f"{uid}-{index}",
            template=dataclasses.replace(template, labels=pod_labels),
            controller_kind="Job",
            controller_name=job,
            unschedulable=True,
            unschedulable_since=time.time() - (600 if self._source else 3600),
        )

    def _write_ledger(self, ledger: Ledger) -> Ledger:
        if ledger.version != self._ledger.version:
            raise StaleView("another process has written since")
        self._ledger = dataclasses.replace(ledger, version=f"{int(ledger.version or 0) + 1}")
        return self._ledger

    def find_channel(self, _cluster: str) -> str:
        """Return a release channel; without a call, because one answer counts for minutes."""
        return "REGULAR"

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Return a call of either port."""
        answers: dict[str, Callable[..., Any]] = {
            "list": lambda _cluster: self.pools,
            "list_creations": lambda _cluster: [],
            "find_pools_of_nodes": lambda names, some=False: {f"node-of-{name}": name for name in names[:some]},
            "get_pod": lambda _namespace, name: self.leaders[name],
            "get_workload": lambda _kind, _namespace, name: self.workloads[name],
            "list_waiting_leaders": lambda _workload=None: list(self.leaders.values()),
            "list_waiting_followers": lambda: self.followers,
            "get_namespace": lambda _name: Namespace(uid="u", labels={}),
            "write_notice": lambda _notice: None,
            "list_pool_pods": lambda _pool: [],
            "list_pool_nodes": lambda _pool: [],
            "list_workload_pods": lambda workload: [self.leaders[f"{workload.name}-w-{self._job}-0"]],
            "list_scale_ups": lambda _pod: [],
            "read_machines": lambda _pool: Machines(),
            "create": lambda _cluster, _body: None,
            "read_ledger": lambda _namespace: self._ledger,
            "write_ledger": lambda _namespace, ledger: self._write_ledger(ledger),
        }
        answer = answers[method]

        def call(*given: Any, **named: Any) -> Any:
            time.sleep(CALL_SECONDS)
            self.calls[method] += 1
            return answer(*given, **named)

        return call


def measure(runs: int, say: Callable[[str], None], *, sizes: tuple[int, ...] = SIZES) -> list[Figure]:
    """Return the figures of each size, each beside the case before it in proportion."""
    figures: list[Figure] = []
    before: tuple[tuple[float, ...], int] | None = None
    refused, no_limit = Settings(clusters={}, allowed_namespaces=("others",)), Settings(clusters={})
    most = sizes[-1]
    at_limit, with_room = (Settings(clusters={}, limit_chips=CHIPS * most * factor) for factor in (1, 2))
    cases: tuple[tuple[int, str, Settings, NodeSource | None], ...] = (
        *((size, "", refused, None) for size in sizes),
        (most, " at a limit", at_limit, None),
        (most, " of leaders that all get one", no_limit, None),
        (most, " of leaders that all get one, with a limit that has room for all", with_room, None),
        *(
            (size, f" that are waited for, nodes by {source}", no_limit, source)
            for size in WAITED_FOR
            for source in (NodeSource.CREATION, NodeSource.AUTOSCALER)
        ),
    )
    for size, how, settings, source in cases:
        samples = []
        for run in range(runs):
            say(f"sweep of {size} pools{how}, round {run + 1} of {runs}")
            samples.append(_sweep(size, settings, source))
            if source is None and settings in (no_limit, with_room) and samples[-1][2]["create"] != size:
                raise Failed(f"{samples[-1][2]['create']} creates for {size} leaders")
        cpu = tuple(each[0] for each in samples)
        compared = before if source != NodeSource.CREATION else None
        in_proportion = tuple(value * size / compared[1] for value in compared[0]) if compared else ()
        what = f"{size} pools, {size} workloads, {size * (FOLLOWERS + 1)} waiting pods{how}"
        figures.append(Figure(section=SECTION, what=f"CPU, {what}", unit="s", samples=cpu, baseline=in_proportion))
        wall = tuple(each[1] for each in samples)
        third = "sweep_seconds" if size == most else ""
        figures.append(Figure(section=SECTION, what=f"time, {what}", unit="s", samples=wall, budget_key=third))
        figures += [
            compare(SECTION, f"calls of {method}, {size} pools{how}", "calls", float, [count])
            for method, count in sorted(samples[-1][2].items())
        ]
        before = cpu, size
    return figures


def _sweep(size: int, settings: Settings, source: NodeSource | None) -> tuple[float, float, Counter[str]]:
    world = World(size, source)
    home = ClusterSettings(endpoint="http://127.0.0.1:9", zone="us-east5-b")
    ports = Ports(
        settings=dataclasses.replace(settings, clusters={CLUSTER: home}, timeout_seconds=TIMEOUT_SECONDS),
        pools=cast("NodePools", world),
        clusters={CLUSTER: cast("Cluster", world)},
        clock=SYSTEM_CLOCK,
        threads=Threads(),
        until=time.time() + TIMEOUT_SECONDS,
    )
    cpu, began = time.process_time(), time.perf_counter()
    report = sweep(ports)
    used = time.process_time() - cpu, time.perf_counter() - began
    if report.errors:
        raise AssertionError(f"the sweep had errors: {report.errors[:3]}")
    return *used, world.calls
