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
from shared.edges.kubernetes import PAGE_SIZE, KubernetesApi, Page, Unreadable
from shared.model.errors import KindAbsent, Unavailable
from shared.model.names import ObjectName
from shared.model.times import format_time
from shared.model.workloads import Notice
from tests.builders import NOW
from tests.clocks import StepClock
from tests.contract.stand_ins import ask

EVENTS = "/api/v1/namespaces/default/events"
COMPONENT = "a-test"


def open_edge(url: str, clock: StepClock | None = None) -> KubernetesCluster:
    api = KubernetesApi(Connection(url=url))
    return KubernetesCluster(api, component=COMPONENT, clock=clock or StepClock(NOW))


def say(edge: KubernetesCluster, message: str, about: str = "") -> None:
    """Write a warning about the pod with the UID `u-1`."""
    pod = ObjectName(kind="Pod", namespace="default", name="p", uid="u-1")
    words = {"reason": "NodePoolRefused", "message": message, "about": about or message}
    edge.write_notice(Notice(subject=pod, warning=True, **words))


def list_events(url: str, words: str) -> list[dict[str, Any]]:
    """Return the Events about that pod whose message has these words."""
    events: list[dict[str, Any]] = ask("GET", f"{url}{EVENTS}")["items"]
    return [each for each in events if each["involvedObject"].get("uid") == "u-1" and words in each["message"]]


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

    def __init__(self, *pages: Page) -> None:
        super().__init__(Connection(url="http://127.0.0.1:1"))
        self.pages, self.read, self.selectors = pages, 0, list[str]()

    def list_pages(self, path: str, params: Any = None, **_: Any) -> Iterator[Page]:
        self.selectors.append((params or {}).get("labelSelector", ""))
        for page in self.pages:
            self.read += 1
            yield page


@pytest.mark.parametrize("read", [lambda edge: edge.list_nodes(["p"]), lambda edge: edge.list_bound_pods("n")])
def test_a_pool_with_an_object_that_cannot_be_read_may_be_in_use(read: Callable[[KubernetesCluster], Any]) -> None:
    with pytest.raises(Unreadable, match="cannot be read, so it may be in use"):
        read(KubernetesCluster(Pages(Page(items=[msgspec.Raw(b'{"metadata": {"uid": 7}}')]))))


A_AND_B = {("default", "a"), ("default", "b")}


def test_a_list_of_workloads_that_costs_more_pages_than_names_is_broken_off() -> None:
    others = [msgspec.Raw(b'{"metadata": {"name": "other", "namespace": "default"}}')] * PAGE_SIZE
    api = Pages(*[Page(items=others)] * 9)

    assert KubernetesCluster(api).list_workloads("JobSet", A_AND_B) == []
    assert api.read == 2


def test_a_listed_workload_that_cannot_be_read_is_left_out() -> None:
    good = msgspec.Raw(b'{"metadata": {"name": "a", "namespace": "default", "uid": "u"}}')
    bad = msgspec.Raw(b'{"metadata": {"name": "b", "namespace": "default", "uid": "v"}, "spec": 3}')
    api = Pages(Page(items=[bad, good]))

    assert [each.name for each in KubernetesCluster(api).list_workloads("Job", A_AND_B)] == ["a"]


def test_the_nodes_of_many_pools_are_asked_for_a_hundred_pools_at_a_time() -> None:
    api = Pages()
    KubernetesCluster(api).list_nodes([f"p{at}" for at in range(150)])

    assert [each.count(",") + 1 for each in api.selectors] == [100, 50]


def test_what_is_said_again_with_other_words_changes_one_event(cluster_url: str) -> None:
    """Two writers, and the scheduler's changing words, leave one Event for a reason and a pool."""
    first, second = open_edge(cluster_url), open_edge(cluster_url)

    say(first, "0/3 nodes", about="paused p-0")
    say(second, "0/4 nodes", about="paused p-0")
    say(second, "0/4 nodes", about="paused p-1")

    messages = [each["message"] for each in list_events(cluster_url, "nodes")]
    assert messages == ["0/4 nodes", "0/4 nodes"]


def test_a_notice_is_an_event_on_its_object_with_the_time_of_the_last_writing(cluster_url: str) -> None:
    clock = StepClock(NOW)
    cluster = open_edge(cluster_url, clock)
    say(cluster, "wrong topology")
    clock.pause(60)
    say(cluster, "wrong topology")

    (event,) = list_events(cluster_url, "wrong topology")
    source, about = event["source"], event["involvedObject"]["kind"]
    assert (event["type"], event["reason"], source, about) == (
        "Warning",
        "NodePoolRefused",
        {"component": COMPONENT},
        "Pod",
    )
    assert event["firstTimestamp"] == format_time(NOW)
    assert event["lastTimestamp"] == format_time(clock.now())


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
