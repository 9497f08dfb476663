"""The board's server: who may ask, its answers, and that it changes nothing without being told."""

import json
import re
from typing import Any

import pytest
import urllib3
from werkzeug.test import Client, TestResponse

from cli.board import readings
from cli.board import site as sites
from cli.board.acts import Act, ActFailed
from cli.board.listening import listening
from cli.board.site import BODY_BYTES_MAX, TOKEN_HEADER, Site
from cli.diagnosis.findings import Finding, Result
from cli.exit_codes import BadInput
from shared.model.errors import Unavailable
from tests.builders import CLUSTER, a_pod, a_pool
from tests.cli.cli_world import NOWHERE, a_deployment, put_in_place, run
from tests.engine.world import World

PORT = 4321
HERE = f"http://127.0.0.1:{PORT}"
HOSTILE = "<img src=x onerror=alert(1)>"
GETS = ("/", "/events", f"/history?cluster={CLUSTER}&workload=train")


@pytest.fixture
def world() -> World:
    world = World()
    world.gke.pools[a_pool().name] = a_pool()
    return world


@pytest.fixture
def pressed() -> list[str]:
    return []


def a_site(world: World, pressed: list[str], *, write: bool = True) -> Site:
    def press() -> str:
        pressed.append("pressed")
        return "done"

    act = Act(name="press", label="Press", about="It is pressed.", perform=press)
    site = Site(a_deployment(world), write=write, acts=[act], every=1.0)
    site.port = PORT
    return site


@pytest.fixture
def site(world: World, pressed: list[str]) -> Site:
    return a_site(world, pressed)


@pytest.fixture
def read_only(world: World, pressed: list[str]) -> Site:
    return a_site(world, pressed, write=False)


def get(site: Site, path: str, *, base: str = HERE, token: str | None = None, **headers: str) -> TestResponse:
    joint = "&" if "?" in path else "?"
    given = site.token if token is None else token
    return Client(site).get(f"{path}{joint}token={given}", base_url=base, headers=headers)


def post(
    site: Site,
    path: str = "/acts/press",
    *,
    base: str = HERE,
    body: bytes = b"{}",
    changed: dict[str, str | None] | None = None,
) -> TestResponse:
    """A POST as the page sends it; `changed` replaces or drops its headers."""
    sent = {TOKEN_HEADER: site.token, "Origin": HERE, "Content-Type": "application/json"} | (changed or {})
    headers = {key: value for key, value in sent.items() if value is not None}
    return Client(site).post(path, base_url=base, data=body, headers=headers)


@pytest.mark.parametrize("path", GETS)
@pytest.mark.parametrize("token", ["", "x", "é"])
def test_nothing_is_shown_without_the_token(site: Site, path: str, token: str) -> None:
    answer = get(site, path, token=token)

    assert (answer.status_code, answer.json["text"][:6]) == (403, "token:")  # type: ignore[index]


@pytest.mark.parametrize(
    "base", ["http://evil.example", f"http://evil.example:{PORT}", "http://127.0.0.1", f"http://127.0.0.2:{PORT}"]
)
def test_a_name_that_was_rebound_to_this_computer_is_refused(site: Site, pressed: list[str], base: str) -> None:
    assert {get(site, path, base=base).status_code for path in GETS} == {403}
    assert post(site, base=base, changed={"Origin": base}).status_code == 403
    assert pressed == []


def test_both_names_of_this_computer_are_accepted(site: Site) -> None:
    assert get(site, "/", base=f"http://localhost:{PORT}").status_code == 200
    assert (
        post(site, base=f"http://localhost:{PORT}", changed={"Origin": f"http://localhost:{PORT}"}).status_code
        == 200
    )


@pytest.mark.parametrize("origin", ["https://evil.example", "null", f"http://127.0.0.1:{PORT + 1}", None, ""])
def test_a_page_of_another_site_changes_nothing(site: Site, pressed: list[str], origin: str | None) -> None:
    answer = post(site, changed={"Origin": origin})

    assert (answer.status_code, pressed) == (403, [])
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({TOKEN_HEADER: None}, 403),
        ({TOKEN_HEADER: "x"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": None}, 415),
    ],
)
def test_a_form_or_a_guessed_token_changes_nothing(
    site: Site, pressed: list[str], changed: dict[str, str | None], status: int
) -> None:
    assert (post(site, changed=changed).status_code, pressed) == (status, [])


def test_the_token_in_the_address_alone_changes_nothing(site: Site, pressed: list[str]) -> None:
    answer = post(site, f"/acts/press?token={site.token}", changed={TOKEN_HEADER: None})

    assert (answer.status_code, pressed) == (403, [])


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_no_other_method_acts(site: Site, pressed: list[str], method: str) -> None:
    headers = {TOKEN_HEADER: site.token, "Origin": HERE, "Content-Type": "application/json"}
    answer = Client(site).open(
        f"/acts/press?token={site.token}", method=method, base_url=HERE, headers=headers, data=b"{}"
    )

    assert (answer.status_code, pressed) == (405, [])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/events", "/history"])
def test_the_pages_answer_a_get_only(site: Site, path: str, method: str) -> None:
    answer = Client(site).open(f"{path}?token={site.token}", method=method, base_url=HERE)

    assert answer.status_code == 405


def test_a_get_of_everything_changes_nothing(site: Site, world: World, pressed: list[str]) -> None:
    site._read()
    for path in ("/", "/acts/press", "/acts/replay-letter?message_id=1"):
        get(site, path)

    assert not [call for call in world.take_calls() if call.startswith(("create", "delete", "mark", "raise"))]
    assert (world.cluster.notices, pressed) == ([], [])


def test_a_read_only_board_acts_on_nothing(read_only: Site, pressed: list[str]) -> None:
    for name in ("press", "replay-letter", "discard-letter"):
        answer = post(read_only, f"/acts/{name}", body=b'{"message_id": "1"}')
        assert answer.status_code == 403
        assert "read-only; start it with --write" in answer.json["text"]  # type: ignore[index]
    assert pressed == []
    assert read_only._read()["write"] is False


def test_a_board_with_write_acts(site: Site, pressed: list[str]) -> None:
    answer = post(site)

    assert (answer.status_code, answer.json, pressed) == (200, {"text": "done"}, ["pressed"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 413),
        (b" " * (BODY_BYTES_MAX + 1), 413),
        (b"{", 400),
        (b"[]", 400),
        (b'{"message_id": 1}', 400),
        (b'{"other": "1"}', 400),
        (b"\xff", 400),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(site: Site, pressed: list[str], body: bytes, status: int) -> None:
    assert (post(site, body=body).status_code, pressed) == (status, [])


@pytest.mark.parametrize("message_id", ["", "../x", "a b", "x" * 65])
def test_an_id_that_is_none_is_refused(site: Site, message_id: str) -> None:
    answer = post(site, "/acts/replay-letter", body=json.dumps({"message_id": message_id}).encode())

    assert (answer.status_code, answer.json["text"]) == (400, "message_id: is required")  # type: ignore[index]


@pytest.mark.parametrize(
    ("error", "status"), [(BadInput("wrong"), 400), (ActFailed("broken"), 502), (Unavailable("no answer"), 502)]
)
def test_an_act_that_fails_says_why(world: World, error: Exception, status: int) -> None:
    def fail() -> str:
        raise error

    site = Site(a_deployment(world), write=True, acts=[Act(name="fail", label="", about="", perform=fail)])
    site.port = PORT

    answer = post(site, "/acts/fail")

    assert (answer.status_code, answer.json) == (status, {"text": str(error)})


@pytest.mark.parametrize(
    ("path", "status"), [("/acts/", 404), ("/acts/none", 404), ("/acts/../press", 404), ("/other", 404)]
)
def test_what_is_not_there_is_not_found(site: Site, path: str, status: int) -> None:
    method = post if path.startswith("/acts") else get
    assert method(site, path).status_code == status


def test_every_answer_has_the_headers_that_bind_a_browser(site: Site) -> None:
    answers = [get(site, "/"), get(site, "/", token="x"), get(site, "/none"), post(site)]

    for headers in (answer.headers for answer in answers):
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert (policy["frame-ancestors"], policy["connect-src"]) == ("'none'", "'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_the_page_loads_nothing_and_never_reads_text_as_html(site: Site) -> None:
    page = get(site, "/").get_data(as_text=True)
    tags = re.findall(r"<[a-z][^>]*>", page.partition("<script>")[0])

    assert len(tags) > 50
    assert [tag for tag in tags if re.search(r"\s(?:src|style|on[a-z]+)=|href=(?!\"data:,\")", tag)] == []
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|DOMParser|srcdoc", page)
    assert "textContent" in page


def test_a_hostile_name_is_data_and_nothing_else(world: World, site: Site) -> None:
    pod = a_pod(created_at=1.0, unschedulable_since=1.0, shape={"accelerator": HOSTILE})
    world.cluster.pods[pod.name] = pod
    world.set_jobset(template=pod.template)

    read = site._read()

    assert HOSTILE in json.dumps(read, ensure_ascii=False)
    assert HOSTILE not in get(site, "/").get_data(as_text=True)


def test_a_reading_has_what_the_other_commands_read(site: Site) -> None:
    read = site._read()

    assert [row["pool"] for row in read["status"]["pools"]] == [a_pool().name]
    assert [lane["title"] for lane in read["lanes"]] == ["slot 0"]
    assert read["clusters"] == [CLUSTER]
    assert read["acts"] == [{"name": "press", "label": "Press", "about": "It is pressed."}]
    assert any(text.startswith("decisions: ") for text in read["unread"])
    assert any("TPU_PROVISIONER_SUBSCRIPTIONS" in text for text in read["unread"])


def test_an_exporter_that_is_silent_needs_a_person(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(a_deployment(world, exporter_url=NOWHERE))
    lease = Finding(
        check="p/us-east5/c exporter", result=Result.BAD, text="no exporter is the leader", mend="kubectl"
    )
    monkeypatch.setattr(readings, "check_lease", lambda _deployment, _cluster: [lease])
    nobody: Any = object()
    site._deployment.apis[CLUSTER] = nobody

    troubles = site._read()["status"]["troubles"]

    assert [(each["about"], each["reason"]) for each in troubles] == [
        ("p/us-east5/c exporter", "silent"),
        ("exporter", "silent"),
    ]
    assert troubles[0]["text"].startswith("no exporter is the leader. ")
    assert troubles[0]["text"].endswith(" Next: kubectl")
    assert troubles[1]["text"].startswith(f"there is no answer at {NOWHERE}: ")


def test_a_cluster_that_does_not_answer_is_named_and_ends_no_reading(
    world: World, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_cluster: str) -> None:
        raise Unavailable("no answer")

    monkeypatch.setattr(world.gke, "list", refuse)

    assert f"{CLUSTER}: no answer" in site._read()["unread"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("cluster=none&workload=train", "cluster: is not one of the settings"),
        (f"cluster={CLUSTER}&workload={HOSTILE}", "WORKLOAD: "),
        (f"cluster={CLUSTER}", "WORKLOAD: "),
    ],
)
def test_a_history_of_what_is_no_workload_is_refused(site: Site, query: str, text: str) -> None:
    answer = get(site, f"/history?{query}")

    assert (answer.status_code, answer.json["text"][: len(text)]) == (400, text)  # type: ignore[index]


def test_a_history_is_that_of_why(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    class Told:
        def as_data(self) -> dict[str, Any]:
            return {"entries": [{"text": "created"}], "unread": []}

    asked: list[tuple[str, ...]] = []

    def tell(_deployment: Any, *names: str) -> Told:
        asked.append(names)
        return Told()

    monkeypatch.setattr(sites, "tell", tell)

    answer = get(site, f"/history?cluster={CLUSTER}&namespace=ml&workload=train")

    assert asked == [(CLUSTER, "ml", "train")]
    assert answer.json["entries"] == [{"text": "created"}]  # type: ignore[index]


def test_every_board_has_a_token_of_its_own(world: World) -> None:
    tokens = {Site(a_deployment(world)).token for _ in range(10)}

    assert len(tokens) == 10
    assert min(len(token) for token in tokens) >= 32


def test_a_port_in_use_is_a_bad_option(site: Site, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, a_deployment(world))
    with listening(site):
        result = run("board", "--port", str(site.port))

    assert result.exit_code == 2
    assert f"--port: cannot be used (got {site.port}" in result.stderr


def test_the_command_prints_the_address_and_serves_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(site: Site, *, port: int, say: Any) -> None:
        with listening(site, port=port):
            answer = urllib3.request("GET", site.address)
            say(f"{answer.status} {site._write} {'<title>' in answer.data.decode()}")

    monkeypatch.setattr("cli.board.listening.serve_board", serve)
    put_in_place(monkeypatch, a_deployment(world))

    assert run("board").stdout == "200 False True\n"
    assert run("board", "--write").stdout == "200 True True\n"
