"""One fake control plane, the two ways to it, and the situations that its callers can meet."""

import dataclasses
from collections.abc import Callable
from itertools import count
from typing import Any

from google.cloud.container_v1 import ClusterManagerClient

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.gke import GkeNodePools
from shared.edges.google_account import GoogleAccount
from shared.engine.outside import NodePools
from shared.model.times import Clock
from shared.needs.demands import decide_demand
from shared.needs.node_pool_body import build_node_pool
from shared.settings import Credentials, Settings
from standins.fakegke.tests.fakegke_worlds import open_transport
from tests.builders import CLUSTER, a_jobset, a_pod, settings
from tests.contract.stand_ins import ask
from tests.demands import a_demand, expect_demand
from tests.unit.test_elastic import a_gpu_body, a_gpu_job
from tests.unit.test_kind_job import a_pod as a_job_pod

NO_CLUSTER = "projects/p/locations/us-east5/clusters/nowhere"
NUMBERS = count()


def open_edge(url: str, clock: Clock = SYSTEM_CLOCK) -> GkeNodePools:
    """Return the product's edge over a stand-in."""
    return GkeNodePools(url, GoogleAccount(Credentials.ANONYMOUS), clock=clock)


class LeapingClock:
    """A clock that goes on by some seconds, or back, each time that it is read."""

    def __init__(self, step: float) -> None:
        self._now, self._step = 0.0, step

    def now(self) -> float:
        self._now += self._step
        return self._now

    def pause(self, _seconds: float) -> None:
        """Nothing here pauses."""


class Gke:
    """The control plane and the two ways to it."""

    def __init__(self, ports: dict[str, str]) -> None:
        self.url = ports["rest"]
        self.edge = open_edge(self.url)
        self.edge.open()
        self.official = ClusterManagerClient(transport=open_transport(self.url))

    def fault(self, switch: str, **fields: Any) -> None:
        ask("POST", f"{self.url}/admin/faults", {"switch": switch, **fields})

    def advance(self, seconds: float) -> None:
        ask("POST", f"{self.url}/admin/clock", {"advance_seconds": seconds})

    def calls(self, pool: str, method: str) -> int:
        listed = ask("GET", f"{self.url}/admin/calls")["calls"]
        return sum(1 for call in listed if call["pool"] == pool and call["method"] == method)


def a_body(use: Settings | None = None, **shape: Any) -> dict[str, Any]:
    """Build a pool body of a name that no other test has."""
    use = use or settings()
    job = f"job{next(NUMBERS)}"
    pod = a_pod(jobset=job, shape=shape)
    demand = a_demand(pod=pod, jobset=a_jobset(name=job, template=pod.template), use=use)
    return build_node_pool(demand, attempt=0, created_at=1_800_000_000, settings=use)


def a_gpu_pool_body() -> dict[str, Any]:
    """Build the body of a pool that can be resized: its nodes have a GPU each and form no slice."""
    job = f"job{next(NUMBERS)}"
    pod = dataclasses.replace(a_job_pod(None, template=a_gpu_body()), controller_name=job, unschedulable=True)
    workload = dataclasses.replace(a_gpu_job(parallelism=1, completions=1), name=job)
    demand = expect_demand(decide_demand(CLUSTER, pod, workload, settings()))
    return build_node_pool(demand, attempt=0, created_at=1_800_000_000, settings=settings())


def fail(code: str, text: str, reason: str = "") -> Callable[[Gke, str], None]:
    def arrange(gke: Gke, _name: str) -> None:
        gke.fault("fail_sync", code=code, text=text, reason=reason, method="[CDGL]*")

    return arrange


def lost(how: str) -> Callable[[Gke, str], None]:
    def arrange(gke: Gke, _name: str) -> None:
        gke.fault("lose_reply", how=how, method="*")

    return arrange


def call_port(port: NodePools, method: str, body: dict[str, Any], *, cluster: str = CLUSTER) -> object:
    """Make one call about the pool of a body."""
    name = str(body["name"])
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: port.create(cluster, body),
        "get": lambda: port.get(cluster, name),
        "list": lambda: port.list(cluster),
        "delete": lambda: port.delete(cluster, name),
        "resize": lambda: port.resize(cluster, name, 2),
    }
    return calls[method]()
