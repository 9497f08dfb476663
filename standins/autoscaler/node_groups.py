"""The groups of a cluster's autoscaled pools, over the APIs of GKE and Compute Engine."""

from typing import Any

import httpx

from standins.autoscaler.picture import Group, Node
from standins.autoscaler.reading import read_group, read_template

Json = dict[str, Any]
_API = "https://www.googleapis.com"
_NOT_FOUND = 404
_USABLE = ("RUNNING", "RUNNING_WITH_ERROR", "RECONCILING")


class NodeGroups:
    """Reads and changes the groups of one cluster.

    `client` has the address of both APIs; `cluster` is `projects/P/locations/L/clusters/C`. Every
    call raises httpx.HTTPError.
    """

    def __init__(self, client: httpx.Client, cluster: str) -> None:
        self._client = client
        self._cluster = cluster
        self._templates: dict[str, Node] = {}

    def read(self) -> tuple[Group, ...]:
        """Return the groups of the autoscaled pools that can be used, without queued provisioning.

        A pool that goes while it is read is left out.
        """
        pools = self._get(f"/v1/{self._cluster}/nodePools").get("nodePools") or []
        found = (self._read_group(pool, url) for pool in pools if _is_scaled(pool) for url in _urls(pool))
        return tuple(each for each in found if each is not None)

    def resize(self, group: Group, size: int) -> None:
        """Give a group another size."""
        self._post(f"{_manager(group)}/resize", params={"size": size})

    def delete(self, group: Group, names: tuple[str, ...]) -> None:
        """Delete instances of a group, which keeps so many fewer."""
        instances = [f"zones/{group.zone}/instances/{name}" for name in names]
        self._post(f"{_manager(group)}/deleteInstances", json={"instances": instances})

    def _read_group(self, pool: Json, url: str) -> Group | None:
        answer = self._client.get(url)
        if answer.status_code == _NOT_FOUND:
            return None
        group = answer.raise_for_status().json()
        instances, page = list[Json](), ""
        while True:
            listed = self._client.post(f"{url}/listManagedInstances", params={"pageToken": page})
            if listed.status_code == _NOT_FOUND:
                return None
            answer = listed.raise_for_status().json()
            instances += answer.get("managedInstances") or []
            if not (page := answer.get("nextPageToken", "")):
                return read_group(pool, group, instances, self._find_template(group))

    def _find_template(self, group: Json) -> Node:
        path = _path(group["instanceTemplate"])
        if path not in self._templates:
            template = self._get(path)
            zone = group["instanceGroup"].split("/instanceGroups/", 1)[0]
            machine = self._get(f"{_path(zone)}/machineTypes/{template['properties']['machineType']}")
            self._templates[path] = read_template(template, machine)
        return self._templates[path]

    def _get(self, path: str) -> Json:
        return dict(self._client.get(path).raise_for_status().json())

    def _post(self, path: str, **options: Any) -> None:
        self._client.post(path, **options).raise_for_status()


def _is_scaled(pool: Json) -> bool:
    queued = (pool.get("queuedProvisioning") or {}).get("enabled")
    scaled = (pool.get("autoscaling") or {}).get("enabled")
    return bool(scaled) and not queued and pool.get("status") in _USABLE


def _urls(pool: Json) -> list[str]:
    return [_path(each) for each in pool.get("instanceGroupUrls") or []]


def _manager(group: Group) -> str:
    return _path(group.id).replace("/instanceGroups/", "/instanceGroupManagers/")


def _path(url: str) -> str:
    return url.removeprefix(_API)
