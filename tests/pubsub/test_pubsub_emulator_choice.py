"""How the conformance suite gets Google's emulator: which way, which container, what it says without either."""

from __future__ import annotations

import json
import re
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import emulator_choice
import pytest
from emulator_choice import VARIABLE, EmulatorMissingError, Way, choose_way
from pubsub_servers import IMAGE, running_emulator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOWHERE = "unix:///nowhere/docker.sock"
CLIENT = '#!/bin/sh\ntest -S "${DOCKER_HOST#unix://}"\n'
"""A docker command that succeeds where an engine may answer."""


class Engine(socketserver.ThreadingUnixStreamServer):
    """As much of Docker's API as it takes to be asked for a container; it can pull nothing unless told so."""

    def __init__(self, path: Path, *, has_image: bool) -> None:
        self.host, self.has_image = f"unix://{path}", has_image
        self.created: dict[str, Any] = {}
        self.asked: list[str] = []
        super().__init__(str(path), _Answers)

    def answer(self, asked: str, body: bytes) -> tuple[int, Any]:
        """Return the code and body for a method and path, less the API's version and the query."""
        self.asked.append(asked)
        if asked == "POST /containers/create":
            self.created = json.loads(body)
        known = {
            "GET /version": (200, {"ApiVersion": "1.41"}),
            f"GET /images/{IMAGE}/json": (200, {"Id": "sha256:0"})
            if self.has_image
            else (404, {"message": "No such image"}),
            "POST /containers/create": (201, {"Id": "c0"}),
            "POST /containers/c0/start": (204, None),
            "GET /containers/c0/json": (200, {"Id": "c0", "State": {"Status": "exited"}, "Config": {"Tty": True}}),
            "GET /containers/c0/logs": (200, "no java here"),
            "DELETE /containers/c0": (204, None),
        }
        return known.get(asked, (500, {"message": f"registry out of reach: {asked}"}))


class _Answers(BaseHTTPRequestHandler):
    server: Engine

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = re.sub(r"^/v[\d.]+", "", self.path).partition("?")[0]
        code, said = self.server.answer(f"{self.command} {path}", body)
        told = b"" if said is None else said.encode() if isinstance(said, str) else json.dumps(said).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815  # the base class calls them so

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(params=[True])
def engine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine that testcontainers finds."""
    with Engine(tmp_path / "socket", has_image=request.param) as engine:
        threading.Thread(target=engine.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        yield engine
        engine.shutdown()


@pytest.fixture(autouse=True)
def _nothing_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with gcloud, its emulator and java."""
    sdk = tmp_path / "sdk"
    launcher = sdk / emulator_choice.BELOW_SDK
    for program in (sdk / "bin/gcloud", sdk / "bin/java", launcher):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(sdk / "bin"))
    _add_client(sdk / "bin")
    return launcher


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any of these."""
    monkeypatch.setenv("PATH", str(tmp_path))
    _add_client(tmp_path)
    monkeypatch.setattr(emulator_choice, "PACKAGED_SDK", tmp_path)


def _add_client(folder: Path) -> None:
    (folder / "docker").write_text(CLIENT)
    (folder / "docker").chmod(0o755)


@pytest.mark.usefixtures("engine")
def test_the_installed_emulator_is_taken_where_there_is_one(installed: Path):
    assert choose_way() is Way.INSTALLED
    assert emulator_choice.find_launcher() == installed


@pytest.mark.usefixtures("engine", "bare")
def test_else_a_container_where_an_engine_answers():
    assert choose_way() is Way.CONTAINER


@pytest.mark.usefixtures("engine", "installed")
@pytest.mark.parametrize("way", Way)
def test_a_variable_picks_one_on_purpose(way: Way, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, way)

    assert choose_way() is way


@pytest.mark.usefixtures("bare")
def test_without_either_it_says_how_to_get_each():
    with pytest.raises(
        EmulatorMissingError, match=r"gcloud components install pubsub-emulator.*or a Docker engine"
    ):
        choose_way()


@pytest.mark.usefixtures("installed")
def test_a_container_that_was_asked_for_is_not_replaced_in_silence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "container")

    with pytest.raises(EmulatorMissingError, match="as TEST_PUBSUB_EMULATOR=container asks for it"):
        choose_way()


@pytest.mark.usefixtures("bare")
def test_no_client_is_no_engine(tmp_path: Path):
    (tmp_path / "docker").unlink()

    with pytest.raises(EmulatorMissingError):
        choose_way()


def test_another_word_is_refused_with_those_that_are_known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "docker")

    with pytest.raises(ValueError, match="TEST_PUBSUB_EMULATOR=docker: must be one of installed, container"):
        choose_way()


@pytest.mark.usefixtures("bare")
def test_the_container_is_an_exact_release_on_the_loopback_address(engine: Engine, tmp_path: Path):
    with (
        pytest.raises(RuntimeError, match=r"did not start; its log ends with:\nno java here"),
        running_emulator(tmp_path),
    ):
        pass

    command = r"gcloud beta emulators pubsub start --project=conformance --host-port=127\.0\.0\.1:\d+"
    assert re.fullmatch(r"gcr\.io/google\.com/cloudsdktool/google-cloud-cli:\d+\.0\.0-emulators", IMAGE)
    assert engine.created["Image"] == IMAGE
    assert re.fullmatch(command, " ".join(engine.created["Cmd"]))
    assert engine.created["HostConfig"]["NetworkMode"] == "host"
    assert not engine.created["HostConfig"].get("PortBindings")
    assert engine.asked[-1] == "DELETE /containers/c0"


@pytest.mark.usefixtures("engine", "bare")
@pytest.mark.parametrize("engine", [False], indirect=True)
def test_an_engine_that_cannot_pull_is_named_as_the_reason(tmp_path: Path):
    with (
        pytest.raises(EmulatorMissingError, match=r"does not run gcr\.io.*registry out of reach"),
        running_emulator(tmp_path),
    ):
        pass
