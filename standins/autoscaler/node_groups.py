"""What the autoscaler sees and does in one look: groups, pods, nodes, and the look itself."""

import time
import uuid
from datetime import UTC, datetime
from typing import Any

import httpx

from standins.autoscaler.model import Autoscaler
from standins.autoscaler.picture import (
    Action,
    Event,
    GiveUp,
    Group,
    Instance,
    InstanceError,
    RemoveNodes,
    Resize,
    Seen,
)
from standins.kit.fitting import Node, is_finished, read_node, read_pod
from standins.kit.lifecycle import write_record

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
                return read_group(pool, group, instances, self._find_template(url))

    def _find_template(self, url: str) -> Node:
        if url not in self._templates:
            self._templates[url] = read_node(self._get(f"/admin{url}"))
        return self._templates[url]

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


def read_group(pool: Json, group: Json, instances: list[Json], template: Node) -> Group:
    """Return the group of an autoscaled pool, from the answers about it."""
    scaling, config = pool.get("autoscaling") or {}, pool.get("config") or {}
    return Group(
        id=group["instanceGroup"],
        pool=pool["name"],
        zone=group["instanceGroup"].split("/zones/", 1)[1].split("/", 1)[0],
        smallest=int(scaling.get("minNodeCount") or scaling.get("totalMinNodeCount") or 0),
        largest=int(scaling.get("maxNodeCount") or scaling.get("totalMaxNodeCount") or 0),
        target=int(group.get("targetSize") or 0),
        all_or_none=(group.get("targetSizePolicy") or {}).get("mode") == "BULK",
        queued=bool(config.get("flexStart")),
        template=template,
        instances=tuple(_read_instance(each) for each in instances),
    )


def _read_instance(raw: Json) -> Instance:
    errors = ((raw.get("lastAttempt") or {}).get("errors") or {}).get("errors") or []
    error = InstanceError(errors[0].get("code", ""), errors[0].get("message", "")) if errors else None
    action = str(raw.get("currentAction", ""))
    creating, deleting = action.startswith("CREATING"), action in ("DELETING", "ABANDONING")
    return Instance(raw["instance"].rpartition("/")[2], creating, deleting, error if creating else None)


_NAME = "cluster-autoscaler"


def _describe(event: Event) -> Json:
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name, namespace = event.pod.name, event.pod.namespace
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": event.pod.uid}
    return {
        "metadata": {"name": f"{name}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
        "involvedObject": about,
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "reportingComponent": _NAME,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


class Looking:
    """Looks and acts. `kubernetes` is its API; `speed` is virtual seconds for each real one."""

    def __init__(self, autoscaler: Autoscaler, groups: NodeGroups, kubernetes: httpx.Client, speed: float) -> None:
        self._autoscaler, self._groups, self._kubernetes = autoscaler, groups, kubernetes
        self._speed = speed
        self._begun = time.monotonic()

    def look(self) -> None:
        """Do one loop; an API that does not answer, or refuses, ends the loop and is logged."""
        try:
            groups = self._groups.read()
            # Without autoscaled pools there is nothing to do: a large cluster is not read in vain.
            pods, nodes = (self._list("pods"), self._list("nodes")) if groups else ([], [])
            unfinished = tuple(read_pod(each) for each in pods if not is_finished(each))
            now = (time.monotonic() - self._begun) * self._speed
            for action in self._autoscaler.look(now, Seen(unfinished, tuple(map(read_node, nodes)), groups)):
                self._act(action)
        except httpx.HTTPStatusError as error:
            write_record("refused", "WARNING", answer=error.response.text[:500], url=str(error.request.url))
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            write_record("cannot look", "WARNING", error=repr(error))

    def _list(self, plural: str) -> list[Json]:
        return list(self._kubernetes.get(f"/api/v1/{plural}").raise_for_status().json()["items"])

    def _act(self, action: Action) -> None:
        if isinstance(action, Event):
            path = f"/api/v1/namespaces/{action.pod.namespace}/events"
            answer = self._kubernetes.post(path, json=_describe(action))
            if not answer.is_client_error:  # one that is refused, as in a namespace that goes, is lost
                answer.raise_for_status()
        elif isinstance(action, Resize):
            self._groups.resize(action.group, action.size)
            write_record("resized", pool=action.group.pool, before=action.group.target, size=action.size)
        elif isinstance(action, GiveUp):
            self._groups.delete(action.group, action.instances)
            write_record("gave up", pool=action.group.pool, instances=len(action.instances))
        elif isinstance(action, RemoveNodes):
            # The fake GKE drains the nodes; GKE's own autoscaler taints them and evicts their pods.
            self._groups.delete(action.group, action.nodes)
            write_record("removed nodes", pool=action.group.pool, nodes=list(action.nodes))
