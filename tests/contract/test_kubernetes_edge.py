"""Our cluster edge against the embedded Kubernetes: the Events it writes, and errors over HTTP.

What every implementation of the port keeps, the fake of the component tests too, is in
`test_cluster_port`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from shared.edges.cluster import KubernetesCluster
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi, Page, Unreadable
from shared.model.decisions import Notice
from shared.model.errors import KindAbsent, Unavailable
from tests.contract.stand_ins import ask

EVENTS = "/api/v1/namespaces/default/events"
COMPONENT = "a-test"


def open_edge(url: str) -> KubernetesCluster:
    return KubernetesCluster(KubernetesApi(Connection(url=url)), component=COMPONENT)


def a_notice(message: str, about: str = "shape_unsupported") -> Notice:
    """A warning about the pod with the UID `u-1`."""
    return Notice(
        kind="Pod",
        namespace="default",
        name="p",
        uid="u-1",
        reason="NodePoolRefused",
        message=message,
        warning=True,
        about=about,
    )


def list_events(url: str, uid: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask("GET", f"{url}{EVENTS}")["items"]
    return [each for each in found if each["involvedObject"].get("uid") == uid]


READS: dict[str, Callable[[KubernetesCluster], object]] = {
    "get_workload": lambda edge: edge.get_workload("JobSet", "default", "j"),
    "list_workloads": lambda edge: edge.list_workloads("JobSet", {("default", "j")}),
    "get_namespace": lambda edge: edge.get_namespace("default"),
    "list_accelerator_pods": lambda edge: list(edge.list_accelerator_pods()),
    "list_nodes": lambda edge: edge.list_nodes(["n"]),
    "list_bound_pods": lambda edge: edge.list_bound_pods("n"),
}


class Pages(KubernetesApi):
    """Answers each list with pages, and keeps what was asked."""

    def __init__(self, *pages: Page[Any]) -> None:
        super().__init__(Connection(url="http://127.0.0.1:1"))
        self.pages, self.read, self.selectors = pages, 0, list[str]()

    def list_pages(self, path: str, kind: Any, params: Any = None, **_: Any) -> Iterator[Page[Any]]:
        self.selectors.append((params or {}).get("labelSelector", ""))
        for page in self.pages:
            self.read += 1
            yield page


@pytest.mark.parametrize("read", [lambda edge: edge.list_nodes(["p"]), lambda edge: edge.list_bound_pods("n")])
def test_a_pool_with_an_object_that_cannot_be_read_may_be_in_use(read: Callable[[KubernetesCluster], Any]) -> None:
    with pytest.raises(Unreadable, match="1 pods or nodes cannot be read"):
        read(KubernetesCluster(Pages(Page(items=[], left_out=("u",)))))


A_AND_B = {("default", "a"), ("default", "b")}


def test_a_list_of_workloads_that_costs_more_pages_than_names_is_broken_off() -> None:
    api = Pages(*[Page(items=[msgspec.Raw(b'{"metadata": {"name": "other", "namespace": "default"}}')])] * 9)

    assert KubernetesCluster(api).list_workloads("JobSet", A_AND_B) == []
    assert api.read == 2


def test_a_listed_workload_that_cannot_be_read_is_left_out() -> None:
    good = b'{"metadata": {"name": "a", "namespace": "default", "uid": "u"}}'
    bad = b'{"metadata": {"name": "b", "namespace": "default", "uid": "v"}, "spec": 3}'
    api = Pages(Page(items=[msgspec.Raw(bad), msgspec.Raw(good)]))

    assert [each.name for each in KubernetesCluster(api).list_workloads("Job", A_AND_B)] == ["a"]


def test_the_nodes_of_many_pools_are_asked_for_a_hundred_pools_at_a_time() -> None:
    api = Pages()
    KubernetesCluster(api).list_nodes([f"p{at}" for at in range(150)])

    assert [each.count(",") + 1 for each in api.selectors] == [100, 50]


def test_what_is_said_again_with_other_words_changes_one_event(cluster_url: str) -> None:
    """Two writers, and the scheduler's changing words, leave one Event for a reason and a pool."""
    first, second = open_edge(cluster_url), open_edge(cluster_url)

    first.write_notice(a_notice("0/3 nodes", about="paused p-0"))
    second.write_notice(a_notice("0/4 nodes", about="paused p-0"))
    second.write_notice(a_notice("0/4 nodes", about="paused p-1"))

    found = [each for each in list_events(cluster_url, "u-1") if "nodes" in each["message"]]
    assert sorted((each["message"], each["count"]) for each in found) == [("0/4 nodes", 1), ("0/4 nodes", 2)]


def test_a_notice_is_written_once_and_counted_up_only_when_it_is_old(cluster_url: str) -> None:
    cluster = open_edge(cluster_url)

    def written_so_far() -> dict[str, Any]:
        return {event["message"]: event for event in list_events(cluster_url, "u-1")}

    for message in ("wrong topology", "wrong topology", "wrong topology", "another thing"):
        cluster.write_notice(a_notice(message, about=message))
    events = {message: event for message, event in written_so_far().items() if "nodes" not in message}
    assert {message: event["count"] for message, event in events.items()} == {
        "wrong topology": 1,
        "another thing": 1,
    }
    for event in events.values():
        event["lastTimestamp"] = "2026-01-01T00:00:00Z"
        ask("PUT", f"{cluster_url}{EVENTS}/{event['metadata']['name']}", event)
    cluster.write_notice(a_notice("wrong topology", about="wrong topology"))
    assert written_so_far()["wrong topology"]["count"] == 1, "a warm instance remembers what it wrote"
    cold = KubernetesCluster(KubernetesApi(Connection(url=cluster_url)), component=COMPONENT)
    for _ in range(2):
        cold.write_notice(a_notice("wrong topology", about="wrong topology"))

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

    with pytest.raises(KindAbsent, match="cannot tell whether /api/v1/namespaces/default exists"):
        astray.get_namespace("default")
    with pytest.raises(KindAbsent, match=r"cannot tell whether /apis/.*/namespaces/default/jobsets/train exists"):
        astray.get_workload("JobSet", "default", "train")
