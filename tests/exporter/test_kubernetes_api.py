"""Does the client of Kubernetes translate every answer, and send what it should?

Sockets are real, answers are scripted.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from exporter.watched_kinds import list_watched
from shared.core.errors import (
    AlreadyExists,
    Denied,
    InvalidRequest,
    NotFound,
    Rejected,
    Retryable,
    StaleView,
    Throttled,
    Unavailable,
)
from shared.core.kinds.table import KINDS
from shared.core.settings import CALL_SECONDS_MAX
from shared.edges.kubernetes_api import (
    CALL_SECONDS,
    TIMEOUT_SECONDS,
    Connection,
    Expired,
    KubernetesApi,
    Silence,
    Unreadable,
)
from shared.edges.kubernetes_objects import Lease, ObjectMeta, Record, Stored
from shared.edges.threads import CONNECTIONS_MAX
from shared.version import VERSION
from tests.exporter.exporter_builders import a_jobset, a_leader
from tests.exporter.scripted_kubernetes import (
    CUT,
    END,
    Listing,
    Refusal,
    ScriptedKubernetes,
    Stream,
    bookmark,
    event,
)

PODS = "/api/v1/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


class Thing(Record):
    metadata: ObjectMeta = ObjectMeta()


REFUSALS = (
    (Refusal(400, "BadRequest"), InvalidRequest),
    (Refusal(401, "Unauthorized"), Denied),
    (Refusal(403, "Forbidden"), Denied),
    (Refusal(404, "NotFound"), NotFound),
    (Refusal(405, "MethodNotAllowed"), InvalidRequest),
    (Refusal(409, "AlreadyExists"), AlreadyExists),
    (Refusal(409, "Conflict"), StaleView),
    (Refusal(410, "Expired"), Expired),
    (Refusal(422, "Invalid"), InvalidRequest),
    (Refusal(429, "TooManyRequests"), Throttled),
    (Refusal(500, "InternalError"), Unavailable),
    (Refusal(503, "ServiceUnavailable"), Unavailable),
    (Refusal(504, "Timeout"), Unavailable),
    (Refusal(302), InvalidRequest),
)


@pytest.mark.parametrize(
    ("refusal", "error"), REFUSALS, ids=[f"{each.code} {each.reason}" for each, _ in REFUSALS]
)
def test_a_refusal_becomes_the_error_that_says_what_to_do(
    api: KubernetesApi, kubernetes: ScriptedKubernetes, refusal: Refusal, error: type[Exception]
) -> None:
    kubernetes.lists["pods"].append(refusal)
    with pytest.raises(error, match=rf"GET {PODS}: {refusal.code}.*as the script says") as caught:
        api.get(PODS, Thing)
    assert type(caught.value) is error


@pytest.mark.parametrize(("code", "error"), [(429, Throttled), (503, Unavailable)])
def test_advice_on_when_to_come_back_is_kept(
    api: KubernetesApi, kubernetes: ScriptedKubernetes, code: int, error: type[Retryable]
) -> None:
    kubernetes.lists["pods"].extend([Refusal(code, retry_after="7"), Refusal(code, retry_after="soon")])
    found = []
    for _ in range(2):
        with pytest.raises(error) as caught:
            api.get(PODS, Thing)
        found.append(caught.value.retry_after_seconds)
    assert found == [7.0, None]


def test_an_object_is_read_in_part_and_unknown_fields_are_skipped(
    api: KubernetesApi, kubernetes: ScriptedKubernetes
) -> None:
    kubernetes.leases["x"] = {"kind": "Lease", "metadata": {"name": "x", "managedFields": []}, "spec": {}}
    assert api.get(f"{LEASES}/x", Thing).metadata.name == "x"


def test_an_answer_of_another_shape_is_an_error(api: KubernetesApi, kubernetes: ScriptedKubernetes) -> None:
    kubernetes.leases["x"] = {"metadata": "none"}
    with pytest.raises(Unreadable, match=r"metadata"):
        api.get(f"{LEASES}/x", Thing)


def test_writes_go_out_as_json_with_their_content_type(api: KubernetesApi, kubernetes: ScriptedKubernetes) -> None:
    created = api.create(LEASES, {"metadata": {"name": "x"}})
    assert isinstance(created, Stored)
    updated = api.update(f"{LEASES}/x", Lease(metadata=created.metadata), Lease)
    with pytest.raises(StaleView):
        api.update(f"{LEASES}/x", {"metadata": {"name": "x", "resourceVersion": "old"}})
    with pytest.raises(AlreadyExists):
        api.create(LEASES, {"metadata": {"name": "x"}})
    assert updated.metadata.resource_version
    sent = [each for each in kubernetes.requests if each.method in ("POST", "PUT")]
    assert {each.headers["Content-Type"] for each in sent} == {"application/json"}
    assert sent[1].body["metadata"] == {"name": "x", "resourceVersion": created.metadata.resource_version}


def test_a_delete_can_name_the_incarnation_it_means(api: KubernetesApi, kubernetes: ScriptedKubernetes) -> None:
    with pytest.raises(NotFound):
        api.delete(f"{LEASES}/x", uid="u", propagation="Background", grace_seconds=0)
    assert kubernetes.deleted == [
        {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": "u"},
            "propagationPolicy": "Background",
            "gracePeriodSeconds": 0,
        }
    ]


def test_the_token_is_asked_for_at_each_request(kubernetes: ScriptedKubernetes) -> None:
    tokens = iter(["one", "two"])
    api = KubernetesApi(Connection(url=kubernetes.url, token=lambda: next(tokens)))
    kubernetes.lists["pods"].append(Listing())
    for _ in range(2):
        list(api.list_pages(PODS, Thing))
    api.close()
    assert [each.headers["Authorization"] for each in kubernetes.requests] == ["Bearer one", "Bearer two"]


def test_each_request_names_the_program_and_its_version(kubernetes: ScriptedKubernetes) -> None:
    api = KubernetesApi(Connection(url=kubernetes.url), user_agent="someone")
    kubernetes.lists["pods"].append(Listing())
    list(api.list_pages(PODS, Thing))
    api.close()
    assert [each.headers["User-Agent"] for each in kubernetes.requests] == [f"someone/{VERSION}"]


def test_a_path_before_the_api_is_kept(kubernetes: ScriptedKubernetes) -> None:
    api = KubernetesApi(Connection(url=f"{kubernetes.url}/k8s/clusters/c1/"))
    kubernetes.lists["pods"].append(Listing())
    list(api.list_pages(PODS, Thing))
    api.close()
    assert kubernetes.requests[0].path == "/k8s/clusters/c1/api/v1/pods"


@pytest.mark.parametrize(
    "name", ["../../victim/pods/x", "..", ".", "a/../b", "", "a//b", "a?b=c", "a#", "%2e%2e", "a b", "a\n"]
)
def test_a_name_that_is_a_path_is_refused_and_nothing_is_sent(
    api: KubernetesApi, kubernetes: ScriptedKubernetes, name: str
) -> None:
    with pytest.raises(Rejected, match="plain names"):
        api.get(f"/api/v1/namespaces/ns/pods/{name}", Thing)
    assert kubernetes.requests == []


def test_pages_come_one_by_one(api: KubernetesApi, kubernetes: ScriptedKubernetes) -> None:
    kubernetes.lists["pods"].extend([Listing((a_leader("a"),), next_page="t"), Listing((a_leader("b"),))])
    pages = api.list_pages(PODS, Thing, {"labelSelector": "x"}, page_size=7)
    assert [each.metadata.uid for each in next(pages).items] == ["a"]
    assert len(kubernetes.requests) == 1
    assert [each.metadata.uid for each in next(pages).items] == ["b"]
    assert next(pages, None) is None
    assert [each.query for each in kubernetes.requests] == [
        {"labelSelector": "x", "limit": "7"},
        {"labelSelector": "x", "limit": "7", "continue": "t"},
    ]


def test_the_present_version_costs_one_object(api: KubernetesApi, kubernetes: ScriptedKubernetes) -> None:
    kubernetes.present_version = "4711"
    assert api.read_version(PODS) == "4711"
    assert [each.query for each in kubernetes.requests] == [{"limit": "1"}]


@pytest.mark.parametrize(("page_size", "pages"), [(500, 3), (30, 50)])
def test_a_list_that_never_ends_is_an_error_after_so_many_objects_in_pages_of_any_size(
    api: KubernetesApi, kubernetes: ScriptedKubernetes, monkeypatch: pytest.MonkeyPatch, page_size: int, pages: int
) -> None:
    monkeypatch.setattr("shared.edges.kubernetes_api.OBJECTS_MAX", 1_500)
    kubernetes.lists["pods"].append(Listing(next_page="again"))
    with pytest.raises(Unavailable, match="has not ended after 1500 objects"):
        list(api.list_pages(PODS, Thing, page_size=page_size))
    assert len(kubernetes.requests) == pages


def test_a_connection_that_nobody_takes_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    api = KubernetesApi(Connection(url=f"http://127.0.0.1:{port}"))
    with pytest.raises(Unavailable):
        api.get(PODS, Thing)


def test_a_server_that_does_not_answer_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        api = KubernetesApi(Connection(url=f"http://127.0.0.1:{server.getsockname()[1]}"), timeout_seconds=0.1)
        with pytest.raises(Unavailable):
            api.get(PODS, Thing)
        api.close()


def test_an_answer_that_comes_piece_by_piece_without_end_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time-out of a connection counts for each piece anew."""
    monkeypatch.setattr("shared.edges.kubernetes_api.CALL_SECONDS", 0.3)
    ended = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(400):
                if ended.wait(0.02):
                    return
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,), daemon=True)
        thread.start()
        api = KubernetesApi(Connection(url=f"http://127.0.0.1:{server.getsockname()[1]}"), timeout_seconds=5)
        with pytest.raises(Unavailable, match="the answer takes more than"):
            api.get(PODS, Thing)
        ended.set()
        api.close()
        thread.join(10)


def test_the_last_piece_of_an_answer_comes_before_the_platform_ends_the_delivery() -> None:
    assert CALL_SECONDS + TIMEOUT_SECONDS + 5 <= CALL_SECONDS_MAX


def test_calls_one_after_the_other_go_over_one_connection(
    api: KubernetesApi, kubernetes: ScriptedKubernetes
) -> None:
    kubernetes.lists["pods"].extend([Listing(), Refusal(403, "Forbidden"), Listing()])
    api.get(PODS, Thing)
    with pytest.raises(Denied):
        api.get(PODS, Thing)
    api.get(PODS, Thing)

    assert api._pool.connection_from_url(kubernetes.url).num_connections == 1


@pytest.fixture
def closing_server() -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers the first request of each connection and then silently closes it."""
    seen: list[bytes] = []
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    def serve(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                seen.append(connection.recv(65536))
                if seen[-1].startswith(b"GET") and len(seen) % 2:
                    continue
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", seen
        server.shutdown(socket.SHUT_RDWR)


def test_a_get_over_a_connection_that_was_just_closed_is_asked_once_more(
    closing_server: tuple[str, list[bytes]],
) -> None:
    url, seen = closing_server
    api = KubernetesApi(Connection(url=url))
    assert api.get("/x", Thing) == Thing()
    api.close()
    assert len(seen) == 2


def test_a_watch_gives_typed_events_and_versions(api: KubernetesApi, kubernetes: ScriptedKubernetes) -> None:
    kubernetes.watches["jobsets"].append(
        Stream((event("ADDED", a_jobset("u", "5")), bookmark("9"), event("DELETED", a_jobset("u", "12"))), END)
    )
    with api.watch("/apis/jobset.x-k8s.io/v1alpha2/jobsets", {"resourceVersion": "4"}, Thing) as watch:
        events = list(watch)
    assert [(each.type, each.resource_version) for each in events] == [
        ("ADDED", "5"),
        ("BOOKMARK", "9"),
        ("DELETED", "12"),
    ]
    assert events[1].object is None


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (Stream((), CUT), Unavailable),
        (Stream(("{not json}\n",), END), Unreadable),
        (Stream(('{"type": "ADDED", "object": {"metadata": 7}}\n',), END), Unreadable),
        (Stream((event("ERROR", {"kind": "Status", "code": 403, "reason": "Forbidden"}),)), Denied),
        (Stream((event("ERROR", {"kind": "Status", "code": 500}),)), Unavailable),
        (Stream((event("ERROR", {}),)), Unavailable),
        (Stream(), Silence),
    ],
)
def test_a_watch_that_fails_says_how(
    api: KubernetesApi, kubernetes: ScriptedKubernetes, stream: Stream, error: type[Exception]
) -> None:
    kubernetes.watches["pods"].append(stream)
    silence_seconds = 0.5 if error is Silence else 30  # what has something to say may take its time
    with api.watch(PODS, {}, Thing, silence_seconds=silence_seconds) as watch, pytest.raises(error) as caught:
        list(watch)
    assert type(caught.value) is error


def test_events_are_put_together_from_any_pieces(api: KubernetesApi, kubernetes: ScriptedKubernetes) -> None:
    line = '{"type": "ADDED", "object": {"metadata": {"name": "ä", "resourceVersion": "1"}}}'
    kubernetes.watches["pods"].append(
        Stream((line[:30], line[30:70], line[70:] + "\n" + line + "\n" + line, "\n\n"), END)
    )
    with api.watch(PODS, {}, Thing) as watch:
        found: list[Any] = [each.object.metadata.name for each in watch if each.object]
    assert found == ["ä"] * 3


def test_closing_a_watch_from_another_thread_ends_it_quietly(
    api: KubernetesApi, kubernetes: ScriptedKubernetes
) -> None:
    kubernetes.watches["pods"].append(Stream((bookmark("1"),)))
    with api.watch(PODS, {}, Thing, silence_seconds=30) as watch:
        events = iter(watch)
        next(events)
        threading.Timer(0.05, watch.close).start()
        assert next(events, None) is None


def test_importing_it_loads_nothing_of_the_clients_typed_api() -> None:
    """To import all models takes ten times the CPU, and 80 MiB more."""
    typed = ("kubernetes.client.models.", "kubernetes.client.api.", "grpc", "aiohttp")
    code = f"import sys, shared.edges.kubernetes_api; print([x for x in sys.modules if x.startswith({typed})])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_watch_of_every_kind_and_every_call_at_one_time_keeps_its_connection() -> None:
    pool = Connection(url="http://127.0.0.1:1").open_pool()

    assert pool.connection_pool_kw["maxsize"] == CONNECTIONS_MAX
    assert len(list_watched(KINDS)) < CONNECTIONS_MAX
