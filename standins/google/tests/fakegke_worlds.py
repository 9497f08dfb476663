"""A fake GKE, served or as its model alone, with a clock that the test moves, or as a process."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud import container_v1
from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerRestTransport
from google.cloud.container_v1.types import cluster_service

from standins.google.errors import ApiError
from standins.google.gke.errors import LostReply
from standins.google.gke.faults.fault_rules import FaultPlan, parse_fault
from standins.google.gke.faults.scenario import Scenario
from standins.google.gke.model.clock import ManualClock
from standins.google.gke.model.fake_gke import FakeGke
from standins.google.server import Google, Settings
from standins.kit.processes import StandIn, running_stand_in

PROJECT, LOCATION, ZONE = "demo", "us-east5", "us-east5-b"
LONG = 5_000.0
EMPTY: dict[str, Any] = {"initial_node_count": 0, "autoscaling": {"enabled": True, "max_node_count": 4}}
"""What makes a pool begin without nodes."""


@dataclass(frozen=True)
class Refusal:
    """How a call was refused, served or not."""

    code: str
    reason: str
    text: str


class World(ABC):
    """A client of the fake, and the power over its clock and faults; each test has clusters of its
    own.
    """

    client: Any
    cluster = "alpha"
    zonal = "zonal"

    @property
    def parent(self) -> str:
        return f"projects/{PROJECT}/locations/{LOCATION}/clusters/{self.cluster}"

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""

    @abstractmethod
    def add_fault(self, **fault: Any) -> None:
        """Add one fault, spelt as in a faults file."""

    def refusal(self, call: Callable[[], Any]) -> Refusal:
        """Return how a call is refused; an accepted call fails the test."""
        try:
            answer = call()
        except ApiError as error:
            return Refusal(error.code.name, error.reason, error.message)
        except LostReply as lost:
            return Refusal(lost.how.upper(), "", "")
        except GoogleAPICallError as error:
            return _refusal_of(error)
        raise AssertionError(f"the call was accepted: {answer}")

    def create(self, name: str = "pool-1", **changes: Any) -> Any:
        return self.client.create_node_pool(parent=self.parent, node_pool=slice_pool(name, **changes))

    def delete(self, name: str = "pool-1") -> Any:
        return self.client.delete_node_pool({"name": f"{self.parent}/nodePools/{name}"}, retry=None)

    def pool(self, name: str = "pool-1") -> Any:
        return self.client.get_node_pool(name=f"{self.parent}/nodePools/{name}")

    def pools(self) -> list[Any]:
        return list(self.client.list_node_pools(parent=self.parent).node_pools)

    def operation(self, operation: Any) -> Any:
        return self.client.get_operation(
            name=f"projects/{PROJECT}/locations/{LOCATION}/operations/{operation.name}"
        )

    def created(self, name: str = "pool-1", **changes: Any) -> Any:
        """Create a pool, let its operation end, and return the operation."""
        operation = self.create(name, **changes)
        self.advance(LONG)
        return self.operation(operation)


def slice_pool(name: str = "pool-1", **changes: Any) -> container_v1.NodePool:
    """Return a valid multi-host pool of four v6e hosts; `config` and other fields can be replaced
    or extended.
    """
    config = {"machine_type": "ct6e-standard-4t", "spot": True, **changes.pop("config", {})}
    fields: dict[str, Any] = {
        "name": name,
        "initial_node_count": 4,
        "locations": [ZONE],
        "placement_policy": {"type_": container_v1.NodePool.PlacementPolicy.Type.COMPACT, "tpu_topology": "4x4"},
        **changes,
    }
    return container_v1.NodePool(config=config, **fields)


def cpu_pool(name: str = "pool-1", **changes: Any) -> container_v1.NodePool:
    """Return a valid pool of one small CPU machine."""
    config = {"machine_type": "e2-standard-4", **changes.pop("config", {})}
    return container_v1.NodePool(
        **{"name": name, "initial_node_count": 1, "locations": [ZONE], "config": config, **changes}
    )


def open_transport(rest: str) -> ClusterManagerRestTransport:
    """Return how the official client reaches a fake at this address."""
    host, nobody = rest.removeprefix("http://"), AnonymousCredentials()  # type: ignore[no-untyped-call]
    return ClusterManagerRestTransport(host=host, url_scheme="http", credentials=nobody)


def _refusal_of(error: GoogleAPICallError) -> Refusal:
    body = error.response.json()["error"]
    return Refusal(body["status"], error.reason or "", body["message"])


class Verbs:
    """The client's verbs on the model, such as `create_node_pool`, without a network."""

    def __init__(self, gke: FakeGke) -> None:
        self._gke = gke

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        method = verb.title().replace("_", "")
        wrapper: Any = getattr(cluster_service, f"{method}Request")

        def call(request: Any = None, *, retry: None = None, **fields: Any) -> Any:
            answer = self._gke.call(method, wrapper.pb(wrapper(request or fields)))
            return getattr(cluster_service, answer.DESCRIPTOR.name).wrap(answer)

        return call


class InProcessWorld(World):
    """The model itself."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        scenario = Scenario(machines_everywhere=True)
        self.gke = FakeGke(clock=self.clock, seed=7, scenario=scenario, faults=FaultPlan([]))
        self.gke.add_cluster(PROJECT, LOCATION, self.cluster, [ZONE])
        self.gke.add_cluster(PROJECT, ZONE, self.zonal)
        self.client = Verbs(self.gke)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.gke.agenda.run_due()

    def add_fault(self, **fault: Any) -> None:
        self.gke.faults.add(parse_fault(fault))


class LoopThread:
    """An event loop in a thread of its own, for servers beside blocking clients."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout=60)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=60)
        self.loop.close()


class ServedWorld(World):
    """The fake served on a free port, with the official client."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self._begun = 0
        settings = Settings(project=PROJECT, gke=True, seed=7, manual_clock=True, machines_everywhere=True)
        self.fake = Google(settings)
        self._loop.run(self.fake.start())
        self.rest = self.fake.ports["rest"]
        self._admin = httpx.Client(base_url=self.rest)
        self.transport = open_transport(self.rest)
        self.client = container_v1.ClusterManagerClient(transport=self.transport)

    def begin(self) -> ServedWorld:
        """Give the next test fresh clusters and no faults."""
        self.clear_faults()
        self._begun += 1
        self.cluster, self.zonal = f"alpha-{self._begun}", f"zonal-{self._begun}"
        self._loop.run(self._add_clusters())
        return self

    async def _add_clusters(self) -> None:
        self.fake.gke.add_cluster(PROJECT, LOCATION, self.cluster, [ZONE])
        self.fake.gke.add_cluster(PROJECT, ZONE, self.zonal)

    def advance(self, seconds: float) -> None:
        self._admin.post("/admin/clock", json={"advance_seconds": seconds}).raise_for_status()

    def add_fault(self, **fault: Any) -> None:
        self._admin.post("/admin/faults", json=fault).raise_for_status()

    def clear_faults(self) -> None:
        self._admin.delete("/admin/faults").raise_for_status()

    def admin(self, path: str) -> Any:
        return self._admin.get(path).raise_for_status().json()

    def close(self) -> None:
        self.transport.close()  # type: ignore[no-untyped-call]
        self._admin.close()
        self._loop.run(self.fake.stop())


class FakeProcess:
    """A running `python -m standins.google.gke serve`."""

    def __init__(self, stand_in: StandIn) -> None:
        self.child, self.log = stand_in.child, stand_in.log
        self.rest = stand_in.addresses["rest"]


@contextmanager
def fake_process(folder: Path, *arguments: str) -> Iterator[FakeProcess]:
    """Start a fake for project demo, cluster alpha in us-east5, with all machines."""
    place = (
        "--project=demo",
        "--location=us-east5",
        "--cluster=alpha",
        "--zone=us-east5-b",
        "--machines-everywhere",
    )
    with running_stand_in(folder, "standins.google", *place, *arguments) as stand_in:
        yield FakeProcess(stand_in)
