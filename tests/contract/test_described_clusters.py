"""What GKE says of a cluster: its release channel, and where its Kubernetes API is."""

import json
from collections.abc import Mapping

import pytest

from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import CLUSTER_SECONDS, open_apis
from shared.edges.google import GoogleAccount
from shared.model.errors import ClusterNotFound, Unavailable
from shared.settings import ClusterSettings, Credentials
from tests.builders import CLUSTER, NOW
from tests.clocks import StepClock
from tests.contract.counting_socket import Socket, refuse
from tests.contract.gke_world import NO_CLUSTER, Gke, open_edge

ON = {"name": "c", "releaseChannel": {"channel": "STABLE"}}
OFF: dict[str, object] = {"name": "c", "releaseChannel": {}}


def answer(body: Mapping[str, object]) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


def test_a_cluster_that_does_not_exist_has_no_channel_and_is_named(gke: Gke) -> None:
    assert gke.edge.find_channel(CLUSTER) == "REGULAR"
    with pytest.raises(ClusterNotFound, match="nowhere"):
        gke.edge.find_channel(NO_CLUSTER)


def test_a_cluster_is_read_again_in_each_tick_only(server: Socket) -> None:
    clock = StepClock(NOW)
    edge = open_edge(server.url, clock)
    server.answers = [answer(ON), answer(OFF)]

    assert [edge.find_channel(CLUSTER) for _ in range(3)] == ["STABLE"] * 3
    clock.advance(CLUSTER_SECONDS)
    assert edge.find_channel(CLUSTER) == "STABLE"
    assert server.requests == 1

    clock.advance(1)
    assert edge.find_channel(CLUSTER) == ""
    assert server.requests == 2


def test_an_answer_that_is_none_is_not_kept(server: Socket) -> None:
    edge = open_edge(server.url, StepClock(NOW))
    server.answers = [refuse("503 Service Unavailable"), answer({}), answer(OFF)]

    for _ in range(2):
        with pytest.raises(Unavailable):
            edge.find_channel(CLUSTER)
    assert edge.find_channel(CLUSTER) == ""


PLACE = {
    "name": "c",
    "controlPlaneEndpointsConfig": {
        "dnsEndpointConfig": {"endpoint": "gke-1.us-east5.gke.goog"},
        "ipEndpointsConfig": {"privateEndpoint": "10.0.0.2"},
    },
    "masterAuth": {"clusterCaCertificate": "LS0tLS1C"},
}


def test_gke_says_where_the_kubernetes_api_is_and_who_signs_it(server: Socket) -> None:
    edge = open_edge(server.url, StepClock(NOW))
    server.answers = [answer(PLACE)]

    assert edge.locate(CLUSTER) == ("https://gke-1.us-east5.gke.goog", "")
    assert edge.locate(CLUSTER, private=True) == ("https://10.0.0.2", "LS0tLS1C")


@pytest.mark.parametrize(("private", "way"), [(False, "DNS endpoint"), (True, "private address")])
def test_a_cluster_without_such_an_endpoint_is_named(server: Socket, private: bool, way: str) -> None:
    server.answers = [answer(OFF)]

    with pytest.raises(Unavailable, match=f"cluster {CLUSTER} has no {way}"):
        open_edge(server.url, StepClock(NOW)).locate(CLUSTER, private=private)


def test_a_cluster_that_is_gone_is_never_taken_for_an_object_that_is(server: Socket) -> None:
    server.answers = [refuse("404 Not Found")]
    edge = open_edge(server.url, StepClock(NOW))
    cluster = KubernetesCluster(
        open_apis({CLUSTER: ClusterSettings()}, edge, GoogleAccount(Credentials.ANONYMOUS))[CLUSTER]
    )

    with pytest.raises(ClusterNotFound):
        cluster.get_workload("JobSet", "team-a", "train")
