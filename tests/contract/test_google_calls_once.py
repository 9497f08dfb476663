"""Each call is one request, whatever its answer becomes: counted at the other side's socket.

And what GKE says of a cluster: its release channel, and where its Kubernetes API is.
"""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import CLUSTER_SECONDS, open_apis
from shared.edges.google import GoogleAccount
from shared.model.errors import Busy, ClusterNotFound, Throttled, Unavailable
from shared.model.pools import NodePool, PoolStatus
from shared.settings import ClusterSettings, Credentials
from tests.builders import CLUSTER, NOW
from tests.clocks import StepClock
from tests.contract.gke_world import Edge, LeapingClock, a_body, open_edge
from tests.raw_server import Socket, answer

GROUP = "https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroupManagers/g"
POOL = NodePool(name="p", status=PoolStatus.RUNNING, group_urls=(GROUP,))
CALLS: dict[str, Callable[[Edge], object]] = {
    "create": lambda edge: edge.create(CLUSTER, a_body()),
    "get": lambda edge: edge.get(CLUSTER, "p"),
    "list": lambda edge: edge.list(CLUSTER),
    "find_channel": lambda edge: edge.find_channel(CLUSTER),
    "delete": lambda edge: edge.delete(CLUSTER, "p"),
    "raise_maximum": lambda edge: edge.raise_maximum(CLUSTER, "p", 4),
    "lower_maximum": lambda edge: edge.lower_maximum(CLUSTER, "p", 4),
    "list_operations": lambda edge: edge.list_operations(CLUSTER),
    "read_machines": lambda edge: edge.read_machines(POOL),
}
ROW = b'{"name": "p", "managedInstances": [{"instance": "i", "instanceStatus": "RUNNING"}]}'
GOOD = answer(ROW)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kept", [False, True], ids=["a new connection", "a kept connection"])
def test_a_lost_reply_is_one_call(server: Socket, call: str, kept: bool) -> None:
    edge = open_edge(server.url)
    if kept:
        server.answers = [GOOD, GOOD]
        edge.get(CLUSTER, "p")
        edge.read_machines(POOL)
        server.requests = 0

    with pytest.raises(Unavailable):
        CALLS[call](edge)
    assert server.requests == 1


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, "307 Moved\r\nLocation: /again"])
def test_an_answer_that_a_client_may_try_again_is_one_call(server: Socket, call: str, status: int | str) -> None:
    server.answers = [answer(status=str(status))] * 3

    with pytest.raises(Throttled if status == 429 else Unavailable):
        CALLS[call](open_edge(server.url))
    assert server.requests == 1


def test_a_refusal_s_words_come_from_the_answer(server: Socket) -> None:
    body = b'{"error": {"code": 400, "status": "FAILED_PRECONDITION", "message": "busy"}}'
    server.answers = [answer(body, "400 Bad Request")]

    with pytest.raises(Busy, match="busy"):
        open_edge(server.url).list(CLUSTER)


def test_an_answer_that_comes_in_drops_ends_with_the_total_deadline(server: Socket) -> None:
    """Each piece comes in time; all of them together do not."""
    server.answers = [[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n" * 500_000]]

    with pytest.raises(Unavailable, match="the answer takes more than 30 s"):
        open_edge(server.url, LeapingClock(10.0)).list(CLUSTER)
    assert server.requests == 1


@pytest.mark.parametrize(("exempt", "requests"), [("", 2), ("gke.invalid", 0)])
@pytest.mark.parametrize("call", ["get", "read_machines"])
def test_the_proxy_of_the_environment_is_read_once(
    server: Socket, call: str, exempt: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read the environment for each request takes a tenth of the CPU of an event."""
    server.answers = [GOOD, GOOD]
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", exempt)
    edge = open_edge("http://gke.invalid")
    for _ in range(2):
        with suppress(Unavailable):  # without the proxy there is no such host
            CALLS[call](edge)
        monkeypatch.delenv("HTTP_PROXY", raising=False)

    assert server.requests == requests


PLACES = {
    "dnsEndpointConfig": {"endpoint": "gke-1.us-east5.gke.goog"},
    "ipEndpointsConfig": {"privateEndpoint": "10.0.0.2"},
}
ON = {"releaseChannel": {"channel": "STABLE"}, "controlPlaneEndpointsConfig": PLACES}
ON |= {"name": "c", "masterAuth": {"clusterCaCertificate": "LS0tLS1C"}}
STABLE, OFF = (answer(json.dumps(body).encode()) for body in (ON, {"name": "c", "releaseChannel": {}}))
NAMELESS, BUSY = answer(b"{}"), answer(status="503 Service Unavailable")


def test_a_cluster_is_read_again_in_each_tick_only(server: Socket) -> None:
    server.answers, clock = [STABLE, OFF], StepClock(NOW)
    edge = open_edge(server.url, clock)

    assert [edge.find_channel(CLUSTER) for _ in range(3)] == ["STABLE"] * 3
    clock.pause(CLUSTER_SECONDS)
    assert edge.find_channel(CLUSTER) == "STABLE"
    assert server.requests == 1

    clock.pause(1)
    assert edge.find_channel(CLUSTER) == ""
    assert server.requests == 2


def test_an_answer_that_is_none_is_not_kept(server: Socket) -> None:
    server.answers, edge = [BUSY, NAMELESS, OFF], open_edge(server.url)

    for _ in range(2):
        with pytest.raises(Unavailable):
            edge.find_channel(CLUSTER)
    assert edge.find_channel(CLUSTER) == ""


def test_gke_says_where_the_kubernetes_api_is_and_who_signs_it(server: Socket) -> None:
    server.answers, edge = [STABLE], open_edge(server.url)

    assert edge.locate(CLUSTER) == ("https://gke-1.us-east5.gke.goog", "")
    assert edge.locate(CLUSTER, private=True) == ("https://10.0.0.2", "LS0tLS1C")


@pytest.mark.parametrize(("private", "way"), [(False, "DNS endpoint"), (True, "private address")])
def test_a_cluster_without_such_an_endpoint_is_named(server: Socket, private: bool, way: str) -> None:
    server.answers = [OFF]

    with pytest.raises(Unavailable, match=f"cluster {CLUSTER} has no {way}"):
        open_edge(server.url).locate(CLUSTER, private=private)


def test_a_cluster_that_is_gone_is_never_taken_for_an_object_that_is(server: Socket) -> None:
    server.answers = [answer(status="404 Not Found")]
    apis = open_apis({CLUSTER: ClusterSettings()}, open_edge(server.url), GoogleAccount(Credentials.ANONYMOUS))

    with pytest.raises(ClusterNotFound):
        KubernetesCluster(apis[CLUSTER]).get_workload("JobSet", "team-a", "train")
