"""One fake control plane, the edge over it, and the bodies of pools; how any stand-in is asked."""

from itertools import count
from typing import Any

import urllib3
from msgspec import structs

from shared.edges.gke import GkeAdds, GkeTakes
from shared.edges.google import GoogleAccount
from shared.edges.process import SYSTEM_CLOCK
from shared.model import labels
from shared.model.times import Clock
from shared.settings import Credentials, Settings
from tests.builders import a_claim
from tests.demands import a_demand, a_pool_body

NO_CLUSTER = "projects/p/locations/us-east5/clusters/nowhere"
NUMBERS = count()


def ask(method: str, url: str, body: Any = None) -> Any:
    """Send JSON, return JSON; anything but a success fails the test with the answer's text."""
    answer = urllib3.request(method, url, json=body) if body is not None else urllib3.request(method, url)
    assert answer.status < 300, f"{method} {url}: {answer.status}: {answer.data.decode()}"
    return answer.json()


class Edge(GkeAdds, GkeTakes):
    """What both functions together may do."""


def open_edge(url: str, clock: Clock = SYSTEM_CLOCK) -> Edge:
    """Return the product's edge over a stand-in."""
    return Edge(url, GoogleAccount(Credentials.ANONYMOUS), clock=clock)


class Gke:
    """The control plane and the edge over it."""

    def __init__(self, ports: dict[str, str]) -> None:
        self.url = ports["rest"]
        self.edge = open_edge(self.url)

    def fault(self, switch: str, **fields: Any) -> None:
        ask("POST", f"{self.url}/admin/faults", {"switch": switch, **fields})

    def advance(self, seconds: float) -> None:
        ask("POST", f"{self.url}/admin/clock", {"advance_seconds": seconds})


def a_body(use: Settings | None = None, **shape: Any) -> dict[str, Any]:
    """Build a pool body of a name that no other test has."""
    flex = labels.FLEX_START in (shape.get("selectors") or {})
    claim = structs.replace(a_claim(), name=f"job{next(NUMBERS)}")
    return a_pool_body(a_demand(use=use, **shape), claim=claim, empty=flex, created_at=1_800_000_000)


def a_gpu_pool_body(sharing: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build the body of a pool with a GPU in each node, of which GKE may make three."""
    gpu = {"acceleratorType": "nvidia-l4", "acceleratorCount": "1"} | (sharing or {})
    config = {"machineType": "g2-standard-12", "accelerators": [gpu]}
    scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3}
    name = f"gpu{next(NUMBERS)}"
    locations = ["us-east5-b"]
    return {"name": name, "config": config, "locations": locations, "initialNodeCount": 1, "autoscaling": scaling}
