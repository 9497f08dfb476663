"""Does the client of Kubernetes translate every answer, and send what it should?

Sockets are real, answers are scripted.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from exporter.watch import Watch
from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi, Stored, Unreadable
from shared.model.errors import Denied, InvalidRequest, Rejected, Throttled, Unavailable
from tests.exporter.scripted_kubernetes import END, Listing, Refusal, ScriptedKubernetes, Stream, bookmark, event
from tests.raw_server import Socket

PODS = "/api/v1/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


@pytest.mark.parametrize(
    ("refusal", "error", "pause"),
    [
        (Refusal(302), InvalidRequest, None),
        (Refusal(429, retry_after="7"), Throttled, 7.0),
        (Refusal(503, retry_after="soon"), Unavailable, None),
    ],
)
def test_a_refusal_becomes_the_error_that_says_what_to_do_and_when(
    kubernetes: ScriptedKubernetes, refusal: Refusal, error: type[Exception], pause: float | None
) -> None:
    kubernetes.lists["pods"].append(refusal)
    with pytest.raises(error, match=rf"GET {PODS}: {refusal.code}.*as the script says") as caught:
        kubernetes.api.get(PODS, Stored)
    assert getattr(caught.value, "retry_after_seconds", None) == pause


def test_an_answer_of_another_shape_is_an_error(kubernetes: ScriptedKubernetes) -> None:
    kubernetes.leases["x"] = {"metadata": "none"}
    with pytest.raises(Unreadable, match=r"metadata"):
        kubernetes.api.get(f"{LEASES}/x", Stored)


@pytest.mark.parametrize(
    "name", ["../../victim/pods/x", "..", ".", "", "a//b", "a?b=c", "a#", "%2e%2e", "a b", "a\n"]
)
def test_a_name_that_is_a_path_is_refused_and_nothing_is_sent(kubernetes: ScriptedKubernetes, name: str) -> None:
    with pytest.raises(Rejected, match="plain names"):
        kubernetes.api.get(f"/api/v1/namespaces/ns/pods/{name}", Stored)
    assert kubernetes.requests == []


@pytest.mark.parametrize(("page_size", "pages"), [(500, 3), (30, 50)])
def test_a_list_that_never_ends_is_an_error_after_so_many_objects_in_pages_of_any_size(
    kubernetes: ScriptedKubernetes, monkeypatch: pytest.MonkeyPatch, page_size: int, pages: int
) -> None:
    monkeypatch.setattr("shared.edges.kubernetes.OBJECTS_MAX", 1_500)
    kubernetes.lists["pods"].append(Listing(next_page="again"))
    with pytest.raises(Unavailable, match="has not ended after 1500 objects"):
        list(kubernetes.api.list_pages(PODS, page_size=page_size))
    assert len(kubernetes.requests) == pages


def stall() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    time.sleep(60)


def drip() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"1\r\n \r\n"


@pytest.mark.parametrize(("answer", "words"), [(stall, "no answer"), (drip, "the answer takes more than")])
def test_an_answer_that_does_not_come_or_comes_piece_by_piece_without_end_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Iterator[bytes]], words: str
) -> None:
    """The time-out of a connection counts for each piece anew."""
    monkeypatch.setattr("shared.edges.kubernetes.CALL_SECONDS", 0.3)
    with Socket() as server:
        server.answers = [answer()]
        api = KubernetesApi(Connection(url=server.url), timeout_seconds=0.5)
        with pytest.raises(Unavailable, match=words):
            api.get(PODS, Stored)


@pytest.mark.parametrize(
    ("ask", "requests"),
    [(lambda api: api.get(PODS, Stored), 2), (lambda api: api.patch(f"{LEASES}/x", {}), 1)],
    ids=["a read, once more", "a write, which may have arrived, not"],
)
def test_a_request_is_sent_again_after_its_connection_broke(
    ask: Callable[[KubernetesApi], object], requests: int
) -> None:
    with Socket() as server:
        with pytest.raises(Unavailable, match="no answer"):
            ask(KubernetesApi(Connection(url=server.url)))
        assert server.requests == requests


def open_watch(api: KubernetesApi) -> Watch:
    return Watch(PODS, api.stream(PODS, {"watch": "1"}, silence_seconds=30))


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (Stream(("{not json}\n",), END), Unreadable),
        (Stream(('{"type": "ADDED", "object": {"metadata": 7}}\n',), END), Unreadable),
        (Stream((event("ERROR", {"kind": "Status", "code": 403, "reason": "Forbidden"}),)), Denied),
        (Stream((event("ERROR", {"kind": "Status", "code": 500}),)), Unavailable),
        (Stream((event("ERROR", {}),)), Unavailable),
    ],
)
def test_a_watch_that_fails_says_how(
    kubernetes: ScriptedKubernetes, stream: Stream, error: type[Exception]
) -> None:
    kubernetes.watches["pods"].append(stream)
    with pytest.raises(error) as caught:
        list(open_watch(kubernetes.api))
    assert type(caught.value) is error


def test_events_are_put_together_from_any_pieces(kubernetes: ScriptedKubernetes) -> None:
    line = '{"type": "ADDED", "object": {"metadata": {"name": "ä", "resourceVersion": "1"}}}'
    kubernetes.watches["pods"].append(
        Stream((line[:30], line[30:70], line[70:] + "\n" + line + "\n" + line, "\n\n"), END)
    )
    found = [msgspec.json.decode(each.object)["metadata"]["name"] for each, _ in open_watch(kubernetes.api)]
    assert found == ["ä"] * 3


def test_closing_a_watch_from_another_thread_ends_it_quietly(kubernetes: ScriptedKubernetes) -> None:
    kubernetes.watches["pods"].append(Stream((bookmark("1"),)))
    watch = open_watch(kubernetes.api)
    events = iter(watch)
    next(events)
    threading.Timer(0.05, watch.close).start()
    assert next(events, None) is None


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("shared.edges.kubernetes", ("kubernetes", "grpc", "aiohttp")),
        ("shared.deliver", ("kubernetes", "pydantic", "oauthlib", "aiohttp", "yaml")),
        ("exporter.process", ("kubernetes", "pydantic", "oauthlib", "aiohttp", "yaml")),
        # To import all models takes ten times the CPU, and 80 MiB more.
        ("cli.access.connections", ("kubernetes.client.models.", "kubernetes.client.api.", "aiohttp")),
    ],
)
def test_what_only_a_kubeconfig_needs_is_loaded_nowhere_else(module: str, left_out: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([x for x in sys.modules if x.startswith({left_out})])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
