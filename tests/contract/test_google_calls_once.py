"""Each call is one request, whatever its answer becomes: counted at the other side's socket."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from shared.model.errors import Busy, Throttled, Unavailable
from shared.model.pools import NodePool, PoolStatus
from tests.builders import CLUSTER
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
