"""The board's server: who may ask, what it answers, and that it changes nothing."""

import json
import re
from typing import Any

import pytest
import urllib3
from werkzeug.test import Client, TestResponse

from cli.board import site
from cli.board.site import Board, listening, render_page
from cli.diagnosis.doctor import Finding, Result
from shared.model.errors import Unavailable
from tests.builders import CLUSTER, a_pod, a_pool
from tests.cli.cli_world import a_deployment, put_in_place, run
from tests.engine.world import World

PORT = 4321
HERE = f"http://127.0.0.1:{PORT}"
HOSTILE = "<img src=x onerror=alert(1)>"
PATHS = ("/", "/reading")


@pytest.fixture
def world() -> World:
    world = World()
    world.gke.pools[a_pool().name] = a_pool()
    return world


@pytest.fixture
def board(world: World) -> Board:
    board = Board(a_deployment(world), every=0.0)
    board.port = PORT
    return board


def get(
    board: Board, path: str, *, base: str = HERE, token: str | None = None, method: str = "GET"
) -> TestResponse:
    asked = board.token if token is None else token
    return Client(board).open(f"{path}?token={asked}", base_url=base, method=method)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", ["", "x", "é"])
def test_nothing_is_shown_without_the_token(board: Board, path: str, token: str) -> None:
    answer = get(board, path, token=token)

    assert (answer.status_code, answer.text[:6]) == (403, "token:")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        (f"evil.example:{PORT}", 403),
        ("127.0.0.1", 403),
        (f"127.0.0.2:{PORT}", 403),
        (f"localhost:{PORT}", 200),
    ],
)
def test_a_name_that_was_rebound_to_this_computer_is_refused(board: Board, host: str, status: int) -> None:
    assert {get(board, path, base=f"http://{host}").status_code for path in PATHS} == {status}


def test_it_answers_a_get_of_two_addresses_only_and_changes_nothing(board: Board, world: World) -> None:
    assert [get(board, path).status_code for path in (*PATHS, "/other")] == [200, 200, 404]
    assert {get(board, "/", method=each).status_code for each in ("POST", "PUT", "DELETE", "PATCH")} == {405}

    assert not [call for call in world.take_calls() if call.startswith(("create", "delete", "mark", "raise"))]
    assert world.cluster.notices == []


def test_every_answer_has_the_headers_that_bind_a_browser(board: Board) -> None:
    for headers in (get(board, "/").headers, get(board, "/", token="x").headers, get(board, "/none").headers):
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert (policy["frame-ancestors"], policy["connect-src"]) == ("'none'", "'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_the_page_loads_nothing_and_never_reads_text_as_html(board: Board) -> None:
    page = get(board, "/").text
    tags = re.findall(r"<[a-z][^>]*>", page.partition("<script")[0])

    assert len(tags) > 30
    assert [tag for tag in tags if re.search(r"\s(?:src|style|on[a-z]+)=|href=(?!\"data:,\")", tag)] == []
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|DOMParser|srcdoc", page)
    assert "textContent" in page


def test_the_page_has_its_first_reading_inside_and_a_hostile_name_is_data(world: World, board: Board) -> None:
    pod = a_pod(created_at=1.0, unschedulable_since=1.0, shape={"accelerator": HOSTILE})
    world.cluster.pods[pod.name] = pod
    world.set_jobset(template=pod.template)

    page = get(board, "/").text

    inside = re.search(r'id="reading">(.*?)</script>', page)
    assert inside is not None
    reading = json.loads(inside[1])
    assert [row["pool"] for row in reading["status"]["pools"]] == [a_pool().name]
    assert reading["clusters"] == [CLUSTER]
    assert any(text.startswith("logs: ") for text in reading["unread"])
    assert HOSTILE in json.dumps(reading)
    assert HOSTILE not in page
    assert render_page(reading) == page.encode()


def test_a_reading_is_shared_until_it_is_too_old_and_each_board_has_its_token(world: World) -> None:
    board = Board(a_deployment(world), every=3600.0)

    assert board.read() is board.read()
    assert len(board.token) == 32
    assert board.token != Board(a_deployment(world)).token


def test_an_exporter_that_is_silent_needs_a_person(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = a_deployment(world)
    once = iter([Finding(Result.BAD, "no exporter is the leader", "kubectl")])  # what is slow to read is kept
    monkeypatch.setattr(site, "check_lease", lambda *_: next(once))
    nobody: Any = object()
    deployment.apis[CLUSTER] = nobody

    board = Board(deployment, every=0.0)
    (trouble,) = [board.read() for _ in range(site.SLOW_FACTOR)][-1]["status"]["troubles"]

    assert (trouble["about"], trouble["reason"]) == ("p/us-east5/c exporter", "silent")
    assert trouble["text"].startswith("no exporter is the leader. ")
    assert trouble["text"].endswith(" Next: kubectl")


def test_a_cluster_that_does_not_answer_is_named_and_ends_no_reading(world: World, board: Board) -> None:
    world.fail("list pools", Unavailable("no answer"))

    assert f"{CLUSTER}: no answer" in board.read()["unread"]


def test_a_port_in_use_is_a_bad_option(board: Board, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, a_deployment(world))
    with listening(board):
        result = run("board", "--port", str(board.port))

    assert result.exit_code == 2
    assert f"--port: cannot be used (got {board.port}" in result.stderr


def test_the_command_prints_the_address_and_serves_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(board: Board, *, port: int, say: Any) -> None:
        with listening(board, port=port):
            answer = urllib3.request("GET", board.address)
            say(f"{answer.status} {'<title>' in answer.data.decode()}")

    monkeypatch.setattr("cli.board.site.serve_board", serve)
    put_in_place(monkeypatch, a_deployment(world))

    assert run("board").stdout == "200 True\n"
