"""Our cluster edge against the embedded Kubernetes: the Events it writes, and errors over HTTP.

What every implementation of the port keeps, the fake of the component tests too, is in
`test_cluster_port`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from shared.edges.ledger_objects import NAME as LEDGER

from shared.edges.kubernetes_api import Connection, KubernetesApi, Unreadable
from shared.edges.kubernetes_cluster import KubernetesCluster
from shared.edges.kubernetes_objects import ObjectMeta, Page
from shared.edges.node_taints import Node
from shared.engine.outside import Ledger
from shared.model import labels
from shared.model.errors import KindAbsent, StaleView, Unavailable
from tests.contract.cluster_worlds import COMPONENT, EVENTS, a_notice, list_events, open_edge
from tests.contract.stand_ins import ask

READS: dict[str, Callable[[KubernetesCluster], object]] = {
    "get_pod": lambda edge: edge.get_pod("default", "p"),
    "get_workload": lambda edge: edge.get_workload("JobSet", "default", "j"),
    "get_namespace": lambda edge: edge.get_namespace("default"),
    "read_ledger": lambda edge: edge.read_ledger("default"),
    "list_waiting_leaders": lambda edge: list(edge.list_waiting_leaders()),
    "list_waiting_followers": lambda edge: list(edge.list_waiting_followers()),
    "list_pool_pods": lambda edge: edge.list_pool_pods("n"),
}


def test_some_nodes_cost_one_small_page_for_a_hundred_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster has up to 15,000 nodes; one of them is enough."""
    asked: list[int] = []

    def list_pages(_path: str, _kind: object, _params: object, *, page_size: int) -> Iterator[Page[Node]]:
        for at in range(3):
            asked.append(page_size)
            meta = ObjectMeta(name=f"n{at}", labels={labels.NODE_POOL: "p0"})
            yield Page(items=[Node(metadata=meta)])

    api = KubernetesApi(Connection(url="http://127.0.0.1:1", token=None))
    monkeypatch.setattr(api, "list_pages", list_pages)
    found = KubernetesCluster(api).find_pools_of_nodes([f"p{at}" for at in range(150)], some=True)

    assert found == {"n0": "p0"}
    assert asked == [50, 50]


@pytest.mark.parametrize("unread", ["nodes", "pods"])
def test_a_pool_with_an_object_that_cannot_be_read_may_be_in_use(
    monkeypatch: pytest.MonkeyPatch, unread: str
) -> None:
    node = Node(metadata=ObjectMeta(name="n", labels={labels.NODE_POOL: "p"}))

    def list_pages(path: str, *_: object, **__: object) -> Iterator[Page[Any]]:
        yield Page(items=[node] if "nodes" in path else [], left_out=("u",) if unread in path else ())

    api = KubernetesApi(Connection(url="http://127.0.0.1:1", token=None))
    monkeypatch.setattr(api, "list_pages", list_pages)
    edge = KubernetesCluster(api)

    with pytest.raises(Unreadable, match="1 pods or nodes cannot be read"):
        edge.list_pool_pods("p")
    assert edge.find_pools_of_nodes(["p"], some=True) == {"n": "p"}


def test_a_notice_is_written_once_and_counted_up_only_when_it_is_old(cluster_url: str) -> None:
    cluster = open_edge(cluster_url)

    def written_so_far() -> dict[str, Any]:
        return {event["message"]: event for event in list_events(cluster_url, "u-1")}

    for message in ("wrong topology", "wrong topology", "wrong topology", "another thing"):
        cluster.write_notice(a_notice(message))
    events = written_so_far()
    assert {message: event["count"] for message, event in events.items()} == {
        "wrong topology": 1,
        "another thing": 1,
    }
    for event in events.values():
        event["lastTimestamp"] = "2026-01-01T00:00:00Z"
        ask("PUT", f"{cluster_url}{EVENTS}/{event['metadata']['name']}", event)
    cluster.write_notice(a_notice("wrong topology"))
    assert written_so_far()["wrong topology"]["count"] == 1, "a warm instance remembers what it wrote"
    cold = KubernetesCluster(KubernetesApi(Connection(url=cluster_url)), component=COMPONENT)
    for _ in range(2):
        cold.write_notice(a_notice("wrong topology"))

    written = written_so_far()["wrong topology"]
    assert written["count"] == 2
    assert (written["type"], written["reason"], written["source"]["component"]) == (
        "Warning",
        "NodePoolRefused",
        COMPONENT,
    )
    assert written["involvedObject"]["kind"] == "Pod"
    assert "2026-01-01T00:00:00Z" < written["firstTimestamp"] <= written["lastTimestamp"]


def test_an_api_out_of_reach_is_unavailable_and_never_absence() -> None:
    nowhere = KubernetesCluster(KubernetesApi(Connection(url="http://127.0.0.1:9")))

    for read in READS.values():
        with pytest.raises(Unavailable):
            read(nowhere)


def test_a_404_that_is_not_about_the_jobset_is_no_proof_that_it_is_gone(cluster_url: str) -> None:
    """Its absence deletes pools: a wrong address or an uninstalled JobSet must not look like it."""
    astray = KubernetesCluster(KubernetesApi(Connection(url=f"{cluster_url}/wrong/prefix")))

    with pytest.raises(Unavailable, match="cannot tell whether namespace default exists"):
        astray.get_namespace("default")
    with pytest.raises(KindAbsent, match="cannot tell whether workloads of kind JobSet exist"):
        astray.get_workload("JobSet", "default", "train")


@pytest.mark.parametrize(
    "text",
    ["", "16", "{}", '{"namespace":"a","chips":-1,"made_at":1}', '{"namespace":"a","chips":1e400,"made_at":1}'],
)
def test_a_reservation_that_cannot_be_read_is_left_out_and_the_others_count(cluster_url: str, text: str) -> None:
    """A hand that edits the ledger stops nothing."""
    maps = f"{cluster_url}/api/v1/namespaces/kube-public/configmaps"
    good = '{"namespace":"a","chips":16,"made_at":1800000000.0}'
    ask("POST", maps, {"metadata": {"name": LEDGER}, "data": {"bad": text, "good": good}})
    try:
        found = open_edge(cluster_url).read_ledger("kube-public")
    finally:
        ask("DELETE", f"{maps}/{LEDGER}")

    assert {name: each.chips for name, each in found.entries.items()} == {"good": 16}


def test_a_ledger_whose_namespace_is_gone_is_a_matter_of_a_later_try(cluster_url: str) -> None:
    with pytest.raises(StaleView, match="no-such-namespace"):
        open_edge(cluster_url).write_ledger("no-such-namespace", Ledger(version="", entries={}))
