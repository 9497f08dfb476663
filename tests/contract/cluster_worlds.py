"""The implementations of the port `Cluster`: the edge over the embedded cluster, and the fake.

The fake gets a copy of the objects that the embedded cluster has, so both must answer alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from shared.edges.disk_objects import read_disk
from shared.edges.event_writer import StoredEvent, read_scale_up
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.edges.kubernetes_cluster import KubernetesCluster
from shared.edges.node_taints import Node, view_node
from shared.edges.workload_objects import Pod, read_workload, view_pod
from shared.engine.outside import Cluster
from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.readings import Notice
from shared.model.times import parse_time
from tests.component.fakes import FakeCluster
from tests.contract.stand_ins import ask

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
EVENTS = "/api/v1/namespaces/default/events"
COMPONENT = "a-test"


@dataclass
class ClusterWorld:
    """One implementation, and the messages of the Events written through it, by an object's UID."""

    port: Cluster
    list_told: Callable[[str], list[str]]


def a_notice(message: str) -> Notice:
    """A warning about the pod with the UID `u-1`."""
    return Notice(
        kind="Pod",
        namespace="default",
        name="p",
        uid="u-1",
        reason="NodePoolRefused",
        message=message,
        warning=True,
    )


def open_edge(url: str) -> KubernetesCluster:
    return KubernetesCluster(KubernetesApi(Connection(url=url)), component=COMPONENT)


def list_events(url: str, uid: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask("GET", f"{url}{EVENTS}")["items"]
    return [each for each in found if each["involvedObject"].get("uid") == uid]


def edge_world(url: str) -> ClusterWorld:
    return ClusterWorld(open_edge(url), lambda uid: [each["message"] for each in list_events(url, uid)])


def fake_world(url: str) -> ClusterWorld:
    """Return a fake with the objects that a cluster has now."""
    fake = FakeCluster()
    for body in ask("GET", f"{url}/api/v1/namespaces")["items"]:
        fake.namespace_labels[body["metadata"]["name"]] = body["metadata"].get("labels", {})
    for body in ask("GET", f"{url}/api/v1/nodes")["items"]:
        pool = body["metadata"].get("labels", {}).get(labels.NODE_POOL, "")
        fake.nodes.setdefault(pool, []).append(body["metadata"]["name"])
        fake.node_views[body["metadata"]["name"]] = view_node(msgspec.convert(body, Node))
    for body in ask("GET", f"{url}{JOBSETS}")["items"]:
        fake.add(read_workload(get_kind("JobSet"), body))
    for body in ask("GET", f"{url}/api/v1/persistentvolumeclaims")["items"]:
        meta = body["metadata"]
        disk = read_disk(KubernetesApi(Connection(url=url)), meta["namespace"], meta["name"])
        if disk is not None:
            fake.disks[meta["namespace"], meta["name"]] = disk
    for body in ask("GET", f"{url}/api/v1/pods")["items"]:
        pod = view_pod(msgspec.convert(body, Pod))
        fake.add(pod)
        deleted_at = parse_time(body["metadata"].get("deletionTimestamp"))
        if deleted_at is not None:
            fake.deleted_at[pod.namespace, pod.name] = deleted_at
    for body in ask("GET", f"{url}/api/v1/events")["items"]:
        if error := read_scale_up(msgspec.convert(body, StoredEvent)):
            fake.scale_ups.setdefault(body["involvedObject"]["uid"], []).append(error)
    return ClusterWorld(fake, lambda uid: [each.message for each in fake.notices if each.uid == uid])
