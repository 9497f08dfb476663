"""Google's APIs in this process, and a fake GKE: its model alone, served, or as a process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from google.auth.credentials import AnonymousCredentials
from google.cloud import container_v1
from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerRestTransport

from standins.google.gke.clock import Clock
from standins.google.gke.fake_gke import FakeGke
from standins.google.gke.faults import FaultPlan, parse_fault
from standins.google.gke.scenario import parse_scenario
from standins.google.gke.state import World
from standins.google.server import Google, Settings
from standins.kit.processes import StandIn, running_stand_in

PROJECT, LOCATION, ZONE = "demo", "us-east5", "us-east5-b"
PARENT = f"projects/{PROJECT}/locations/{LOCATION}/clusters/alpha"


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


class InProcessWorld:
    """The model itself, with the capacity that a scenario says."""

    def __init__(self, **scenario: Any) -> None:
        self.clock = Clock()
        facts, _ = parse_scenario({"machines_everywhere": True, **scenario})
        self.gke = FakeGke(World(self.clock, 7, facts, FaultPlan()))
        self.pools = self.gke.world.clusters[self.gke.add_cluster(PROJECT, LOCATION, "alpha", [ZONE])].pools

    def create(self, pool: container_v1.NodePool) -> None:
        request = container_v1.CreateNodePoolRequest(parent=PARENT, node_pool=pool)
        self.gke.call("CreateNodePool", container_v1.CreateNodePoolRequest.pb(request))

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.gke.agenda.run_due()

    def add_fault(self, **fault: Any) -> None:
        self.gke.faults.add(parse_fault(fault))


@contextmanager
def serving_google(**settings: Any) -> Iterator[Google]:
    """Serve Google's APIs in a thread of this process; another process costs a second."""
    loop, google = asyncio.new_event_loop(), Google(Settings(**settings))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(google.start(), loop).result(timeout=60)
        yield google
        asyncio.run_coroutine_threadsafe(google.stop(), loop).result(timeout=60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=60)
        loop.close()


class ServedWorld:
    """The fake served on a free port, with the official client."""

    def __init__(self, google: Google) -> None:
        self.gke, self.rest = google.gke, google.ports["rest"]
        self.admin = httpx.Client(base_url=f"{self.rest}/admin", trust_env=False)
        self.client = container_v1.ClusterManagerClient(transport=open_transport(self.rest))

    def create(self, **changes: Any) -> Any:
        return self.client.create_node_pool(parent=PARENT, node_pool=slice_pool(**changes))

    def pool(self) -> Any:
        return self.client.get_node_pool(name=f"{PARENT}/nodePools/pool-1")

    def advance(self, seconds: float) -> None:
        self.admin.post("/clock", json={"advance_seconds": seconds}).raise_for_status()

    def add_fault(self, **fault: Any) -> None:
        self.admin.post("/faults", json=fault).raise_for_status()


@contextmanager
def serving_world() -> Iterator[ServedWorld]:
    """Serve a fake whose clock stands still, with the cluster alpha."""
    clock = {"seed": 7, "manual_clock": True, "machines_everywhere": True}
    with serving_google(project=PROJECT, clusters=["alpha"], zones=[ZONE], **clock) as google:
        world = ServedWorld(google)
        with world.admin, world.client:
            yield world


@contextmanager
def fake_process(folder: Path, *arguments: str) -> Iterator[StandIn]:
    """Start a fake for project demo, cluster alpha in us-east5, with all machines."""
    place = ("--project=demo", "--location=us-east5", "--cluster=alpha", "--zone=us-east5-b")
    with running_stand_in(folder, "standins.google", *place, "--machines-everywhere", *arguments) as stand_in:
        yield stand_in
