"""Whether a cluster is on a release channel: GKE is asked, and its answer counts for minutes."""

import json
from collections.abc import Mapping

import pytest

from shared.edges.gke import CHANNEL_SECONDS
from shared.model.errors import ClusterNotFound, Unavailable
from tests.builders import CLUSTER, NOW
from tests.clocks import StepClock
from tests.contract.counting_socket import Socket, refuse
from tests.contract.gke_world import NO_CLUSTER, Gke, open_edge

GKE = ("standins.google", "serve", "--project=p", "--location=us-east5", "--cluster=c", "--manual-clock")
ON = {"name": "c", "releaseChannel": {"channel": "STABLE"}}
OFF: dict[str, object] = {"name": "c", "releaseChannel": {}}


def answer(body: Mapping[str, object]) -> bytes:
    text = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


def test_a_cluster_that_does_not_exist_has_no_channel_and_is_named(gke: Gke) -> None:
    assert gke.edge.find_channel(CLUSTER) == "REGULAR"
    with pytest.raises(ClusterNotFound, match="nowhere"):
        gke.edge.find_channel(NO_CLUSTER)


def test_the_channel_is_read_again_after_some_minutes_only(server: Socket) -> None:
    clock = StepClock(NOW)
    edge = open_edge(server.url, clock)
    server.answers = [answer(ON), answer(OFF)]

    assert [edge.find_channel(CLUSTER) for _ in range(3)] == ["STABLE"] * 3
    clock.advance(CHANNEL_SECONDS)
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
