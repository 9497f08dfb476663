"""The pods and nodes of a cluster, and the Events about them, over the Kubernetes API."""

import uuid
from datetime import UTC, datetime
from typing import Any

import httpx

from standins.autoscaler.picture import Event, Node, Pod
from standins.autoscaler.reading import read_node, read_pod

Json = dict[str, Any]
_NOT_FOUND = 404
_PAGE = 500
_NAME = "cluster-autoscaler"
_TAINT = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}


class PodsAndNodes:
    """Reads the cluster; every call raises httpx.HTTPError."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def read_pods(self) -> tuple[Pod, ...]:
        """Return the pods that have not finished."""
        found = (read_pod(each) for each in self._list("/api/v1/pods"))
        return tuple(each for each in found if each is not None)

    def read_nodes(self) -> tuple[Node, ...]:
        """Return the nodes."""
        return tuple(read_node(each) for each in self._list("/api/v1/nodes"))

    def begin_removal(self, node: str) -> None:
        """Taint a node that is about to be removed, so that no pod is bound to it."""
        answer = self._client.get(f"/api/v1/nodes/{node}")
        if answer.status_code == _NOT_FOUND:
            return
        taints = answer.raise_for_status().json().get("spec", {}).get("taints") or []
        patch = {"spec": {"taints": [*(each for each in taints if each["key"] != _TAINT["key"]), _TAINT]}}
        headers = {"Content-Type": "application/merge-patch+json"}
        self._client.patch(f"/api/v1/nodes/{node}", json=patch, headers=headers).raise_for_status()

    def evict(self, pod: Pod) -> None:
        """Delete a pod with its own grace; one that is gone already is fine."""
        answer = self._client.delete(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
        if answer.status_code != _NOT_FOUND:
            answer.raise_for_status()

    def write(self, event: Event) -> None:
        """Write an Event; one that is refused, as in a namespace that goes, is lost."""
        namespace = event.pod.namespace if event.pod is not None else "default"
        answer = self._client.post(f"/api/v1/namespaces/{namespace}/events", json=_describe(event, namespace))
        if not answer.is_client_error:
            answer.raise_for_status()

    def _list(self, path: str) -> list[Json]:
        found: list[Json] = []
        query: dict[str, str | int] = {"limit": _PAGE}
        while True:
            answer = self._client.get(path, params=query).raise_for_status().json()
            found += answer["items"]
            query["continue"] = answer["metadata"].get("continue") or ""
            if not query["continue"]:
                return found


def _describe(event: Event, namespace: str) -> Json:
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about: Json = {"apiVersion": "v1", "kind": "Node", "name": event.node, "uid": event.node}
    if event.pod is not None:
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": event.pod.name}
        about["uid"] = event.pod.uid
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about['name']}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
        "involvedObject": about,
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": _NAME},
        "reportingComponent": _NAME,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
