"""A fake GKE, served or as its model alone, with a clock that the test moves, or as a process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from google.auth.credentials import AnonymousCredentials
from google.cloud import container_v1
from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerRestTransport
from google.cloud.container_v1.types import cluster_service

from standins.google.gke.clock import Clock
from standins.google.gke.fake_gke import FakeGke
from standins.google.gke.faults import parse_fault
from standins.google.gke.scenario import Scenario, parse_scenario
from standins.google.server import Google, Settings
from standins.kit.processes import StandIn, running_stand_in

PROJECT, LOCATION, ZONE = "demo", "us-east5", "us-east5-b"


class World:
    """A client of the fake, and a cluster."""

    client: Any
    cluster = "alpha"

    @property
    def parent(self) -> str:
        return f"projects/{PROJECT}/locations/{LOCATION}/clusters/{self.cluster}"

    def create(self, name: str = "pool-1", **changes: Any) -> Any:
        return self.client.create_node_pool(parent=self.parent, node_pool=slice_pool(name, **changes))

    def pool(self, name: str = "pool-1") -> Any:
        return self.client.get_node_pool(name=f"{self.parent}/nodePools/{name}")

    def pools(self) -> list[Any]:
        return list(self.client.list_node_pools(parent=self.parent).node_pools)


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


def open_transport(rest: str) -> ClusterManagerRestTransport:
    """Return how the official client reaches a fake at this address."""
    host, nobody = rest.removeprefix("http://"), AnonymousCredentials()  # type: ignore[no-untyped-call]
    return ClusterManagerRestTransport(host=host, url_scheme="http", credentials=nobody)


class Verbs:
    """The client's verbs on the model, such as `create_node_pool`, without a network."""

    def __init__(self, gke: FakeGke) -> None:
        self._gke = gke

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        method = verb.title().replace("_", "")
        wrapper: Any = getattr(cluster_service, f"{method}Request")

        def call(request: Any = None, **fields: Any) -> Any:
            answer = self._gke.call(method, wrapper.pb(wrapper(request or fields)))
            return getattr(cluster_service, answer.DESCRIPTOR.name).wrap(answer)

        return call


class InProcessWorld(World):
    """The model itself, with the capacity that a scenario says."""

    def __init__(self, **scenario: Any) -> None:
        self.clock = Clock()
        facts: Scenario = parse_scenario({"machines_everywhere": True, **scenario})[0]
        self.gke = FakeGke(clock=self.clock, seed=7, scenario=facts)
        self.gke.add_cluster(PROJECT, LOCATION, self.cluster, [ZONE])
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
        settings = Settings(
            project=PROJECT,
            seed=7,
            manual_clock=True,
            machines_everywhere=True,
            clusters=[self.cluster],
            zones=[ZONE],
        )
        self.fake = Google(settings)
        self._loop.run(self.fake.start())
        self.rest = self.fake.ports["rest"]
        self._admin = httpx.Client(base_url=self.rest)
        self._transport = open_transport(self.rest)
        self.client = container_v1.ClusterManagerClient(transport=self._transport)

    def advance(self, seconds: float) -> None:
        self._admin.post("/admin/clock", json={"advance_seconds": seconds}).raise_for_status()

    def add_fault(self, **fault: Any) -> None:
        self._admin.post("/admin/faults", json=fault).raise_for_status()

    def close(self) -> None:
        self._transport.close()  # type: ignore[no-untyped-call]
        self._admin.close()
        self._loop.run(self.fake.stop())


@contextmanager
def fake_process(folder: Path, *arguments: str) -> Iterator[StandIn]:
    """Start a fake for project demo, cluster alpha in us-east5, with all machines."""
    place = ("--project=demo", "--location=us-east5", "--cluster=alpha", "--zone=us-east5-b")
    with running_stand_in(folder, "standins.google", *place, "--machines-everywhere", *arguments) as stand_in:
        yield stand_in
