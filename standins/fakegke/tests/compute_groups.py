"""The instance groups of a served fake, called as Compute Engine is."""

from typing import Any

import httpx
from google.cloud import container_v1

from standins.fakegke.tests.fakegke_worlds import EMPTY, LOCATION, PROJECT, ZONE, ServedWorld

PLACES = (f"zones/{ZONE}", f"regions/{LOCATION}")
STOCKOUT = "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"


class Groups:
    """The calls of Compute Engine on the one group of a pool."""

    def __init__(self, served: ServedWorld, place: str = PLACES[0]) -> None:
        self.name = served.pool().instance_group_urls[0].rsplit("/", 1)[-1]
        self._rest = served.rest
        self._cluster = served.cluster
        root = f"{served.rest}/compute/v1/projects/{PROJECT}/{place}"
        self._url = f"{root}/instanceGroupManagers/{self.name}"

    def node_names(self) -> list[str]:
        """Return the nodes of the pool, by name."""
        rows = httpx.get(f"{self._rest}/admin/pools").raise_for_status().json()["pools"]
        (row,) = [row for row in rows if row["cluster"] == self._cluster]
        return list(row["node_names"])

    def read(self) -> Any:
        return httpx.get(self._url).raise_for_status().json()

    def instances(self) -> list[dict[str, Any]]:
        return list(self.ask_page().raise_for_status().json()["managedInstances"])

    def ask_page(self, token: str = "") -> httpx.Response:
        return httpx.post(f"{self._url}/listManagedInstances", params={"pageToken": token})

    def errors(self) -> list[dict[str, Any]]:
        return list(httpx.get(f"{self._url}/listErrors").raise_for_status().json()["items"])

    def template(self) -> Any:
        path = self.read()["instanceTemplate"].removeprefix("https://www.googleapis.com")
        return httpx.get(f"{self._rest}{path}").raise_for_status().json()

    def machine_type(self) -> Any:
        name = self.template()["properties"]["machineType"]
        url = f"{self._rest}/compute/v1/projects/{PROJECT}/zones/{ZONE}/machineTypes/{name}"
        return httpx.get(url).raise_for_status().json()

    def resize(self, size: int) -> httpx.Response:
        return httpx.post(f"{self._url}/resize", params={"size": size})

    def delete(self, names: list[str]) -> httpx.Response:
        return httpx.post(f"{self._url}/deleteInstances", json={"instances": names})


def created_empty(served: ServedWorld, **changes: Any) -> Groups:
    """Create a pool without nodes, and return its group."""
    operation = served.create(**(EMPTY | changes))
    served.advance(30)
    assert served.operation(operation).error.code == 0
    assert served.pool().status == container_v1.NodePool.Status.RUNNING
    return Groups(served)


def sold_out(served: ServedWorld, kind: str = "stockout") -> None:
    """Let Compute Engine make no instance of any pool."""
    served.add_fault(switch="outcome", kind=kind)
