"""Runs of the functions on the fake GKE that go through every kind of situation.

The fake's log of calls shows what each function needs.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from shared.deliver import deliver, deliver_sweep
from shared.engine.outside import Ports
from shared.model.names import build_pool_name
from shared.needs.capacity_texts import read_policies
from shared.needs.demand import Demand
from shared.needs.demands import decide_demand
from tests.audit_entries import an_entry, as_message
from tests.builders import CLUSTER, a_demand_event, a_jobset, a_pod, a_push, an_over_event, settings
from tests.clocks import StepClock
from tests.component.fakes import FakeCluster
from tests.contract.gke_world import open_edge
from tests.contract.stand_ins import ask
from tests.unit.test_elastic import a_gpu_body, a_gpu_job
from tests.unit.test_kind_job import a_pod as a_job_pod

NOW = 1_800_000_000.0
ZONES = "[{priorities: [{location: {zones: [us-east5-b, us-east5-a]}}]}]"
LISTED: dict[str, Any] = {"capacity_policies": read_policies(ZONES)}


class RecordingCluster(FakeCluster):
    """Says whether anything was asked of it."""

    asked = False

    def begin(self, method: str) -> None:
        self.asked = True
        super().begin(method)


class Run:
    """One function on the fake GKE, in a world of its own."""

    def __init__(self, url: str, job: str) -> None:
        self.url, self.job = url, job
        self.cluster, self.clock = RecordingCluster(), StepClock(NOW)
        self.pools = open_edge(url)
        self.pod, self.jobset = a_pod(jobset=job, unschedulable_since=NOW - 3600), a_jobset(name=job)
        self.workload = self.jobset
        self.cluster.add(self.pod, self.workload)

    def ports(self, **overrides: Any) -> Ports:
        return Ports(
            settings=settings(**overrides), pools=self.pools, clusters={CLUSTER: self.cluster}, clock=self.clock
        )

    def provision(self, **overrides: Any) -> None:
        deliver("provision", a_push(a_demand_event(self.pod)), self.ports(**overrides))

    def collect(self) -> None:
        deliver("collect", a_push(an_over_event(name=self.job)), self.ports())

    def settle(self, act: str, **overrides: Any) -> None:
        demand = decide_demand(CLUSTER, self.pod, self.workload, settings())
        assert isinstance(demand, Demand)
        entry = an_entry(act, pool=build_pool_name(demand.claim))
        deliver("settle", a_push(as_message(entry)), self.ports(**overrides))

    def sweep(self, **overrides: Any) -> None:
        deliver_sweep(self.ports(**overrides))

    def want(self, pods: int) -> None:
        """Let a Job want so many pods with a GPU each, of which one waits."""
        job = a_gpu_job(parallelism=pods, completions=pods)
        waiting = dataclasses.replace(
            a_job_pod(None, template=a_gpu_body()), name=f"{self.job}-x", unschedulable=True
        )
        self.pod = dataclasses.replace(
            waiting, uid=self.job, controller_name=self.job, unschedulable_since=NOW - 60
        )
        self.workload = dataclasses.replace(job, name=self.job)
        self.cluster.add(self.workload, self.pod)

    def let_nodes_come(self) -> None:
        """Show the cluster the nodes of each pool of the fake; the waiting pod can use none."""
        for pool in ask("GET", f"{self.url}/admin/pools")["pools"]:
            self.cluster.nodes[pool["pool"]] = pool["node_names"]
        self.cluster.pods.clear()

    def pass_time(self) -> None:
        ask("POST", f"{self.url}/admin/clock", {"advance_seconds": 3000})

    def starve(self) -> None:
        """Let GKE find no capacity for a pool of a sweep, so that the next one reads the groups."""
        ask("POST", f"{self.url}/admin/faults", {"switch": "outcome", "kind": "stockout"})
        self.sweep(**LISTED)
        ask("POST", f"{self.url}/admin/clock", {"advance_seconds": 120})
        self.clock.advance(120)
        self.sweep(**LISTED)
        ask("DELETE", f"{self.url}/admin/faults")
        self.pass_time()

    def end_workload(self) -> None:
        self.cluster.pods.clear()
        self.cluster.add(dataclasses.replace(self.jobset, terminal="Completed", terminal_since=NOW))


def record_provision(run: Run) -> None:
    """Create; find the own pool; count chips; retry after a failed pool; grow an elastic pool."""
    ask("POST", f"{run.url}/admin/faults", {"switch": "outcome", "kind": "stockout"})
    run.provision(limit_chips=1000)
    run.pass_time()
    ask("DELETE", f"{run.url}/admin/faults")
    run.clock.advance(3000)
    run.provision()
    for pods in (1, 3):
        run.want(pods)
        run.provision()
        run.pass_time()


def record_collect(run: Run) -> None:
    """Give a pool back."""
    run.end_workload()
    run.collect()


def record_sweep(run: Run) -> None:
    """Create for leaders past the grace; delete for ended workloads; remove nodes; grow a pool.
    The elastic pool has a list of capacity, so it gives up nodes that GKE has not made.
    """
    run.starve()
    run.want(3)
    run.sweep(**LISTED)
    run.pass_time()
    run.want(1)
    run.cluster.pods.clear()
    run.sweep(**LISTED)
    run.let_nodes_come()
    for _ in range(3):
        run.sweep(grace_seconds=0, **LISTED)
    run.pod = a_pod(jobset=run.job)
    run.cluster.add(run.pod)
    run.sweep()
    run.pass_time()
    run.end_workload()
    run.sweep()
    for pods in (1, 3):
        run.want(pods)
        run.sweep()
        run.pass_time()


def prepare_settle(run: Run) -> None:
    """Let the creation of a slice's pool fail, and an elastic pool run."""
    pod, workload = run.pod, run.workload
    ask("POST", f"{run.url}/admin/faults", {"switch": "outcome", "kind": "stockout"})
    run.provision()
    run.pass_time()
    ask("DELETE", f"{run.url}/admin/faults")
    run.want(1)
    run.provision()
    run.pod, run.workload = pod, workload
    run.pools = open_edge(run.url)  # that of another process, which knows nothing yet
    run.clock.advance(3000)


def record_settle(run: Run) -> None:
    """Replace a failed pool; grow an elastic pool; give the place to a slice that waits for one."""
    run.settle("Create", limit_chips=1000)
    run.want(3)
    waits = a_pod(jobset=f"{run.job}-next", uid="of-next", unschedulable_since=NOW - 60)
    run.cluster.add(a_jobset(name=f"{run.job}-next"), waits)
    run.settle("Delete")


RUNS: dict[str, Callable[[Run], None]] = {
    "provision": record_provision,
    "collect": record_collect,
    "settle": record_settle,
    "sweep": record_sweep,
}
PREPARED: dict[str, Callable[[Run], None]] = {"collect": Run.provision, "settle": prepare_settle}
"""What somebody else does before, whose calls do not count."""
