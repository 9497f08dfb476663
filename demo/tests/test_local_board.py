"""The board's buttons of the local stack: faults, a crash, examples; a command without a stack."""

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cli.access.cli_settings import read_environment
from cli.board.acts import Act
from demo.board import local_acts
from demo.board.__main__ import app
from demo.board.beside_run import board_beside
from demo.board.local_acts import EXAMPLES, LOST_REPLY, STOCKOUT, list_acts
from demo.loop import applying
from demo.stack.background import State
from demo.stack.commands import Addresses, StackSettings
from demo.stack.layout import CLUSTER, LOCATION, PROJECT, ZONE, Layout
from demo.stack.operator_environment import operator_environment
from demo.stack.supervisor import ProcessState
from tests.contract.stand_ins import ask, stand_in

NOWHERE = "http://127.0.0.1:9"
KUBECONFIG = f"""
apiVersion: v1
kind: Config
current-context: local
clusters: [{{name: local, cluster: {{server: {NOWHERE}}}}}]
contexts: [{{name: local, context: {{cluster: local, user: local}}}}]
users: [{{name: local, user: {{token: t}}}}]
"""


def addresses(gke: str = NOWHERE) -> Addresses:
    names = ("kubernetes", "kubeconfig", "pubsub_rest", "pubsub_grpc", "exporter", "logging")
    return Addresses(**dict.fromkeys(names, NOWHERE), gke_rest=gke, functions={})


def find(acts: list[Act], name: str) -> Act:
    return next(act for act in acts if act.name == name)


@pytest.fixture(scope="module")
def gke(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    where = (f"--project={PROJECT}", f"--location={LOCATION}", f"--cluster={CLUSTER}", f"--zone={ZONE}")
    with stand_in(tmp_path_factory.mktemp("gke"), "standins.google", "serve", *where) as ports:
        yield ports["rest"]


@pytest.mark.parametrize(("name", "fault"), [("stockout", STOCKOUT), ("lost-reply", LOST_REPLY)])
def test_a_fault_is_added_and_cleared(tmp_path: Path, gke: str, name: str, fault: dict[str, Any]) -> None:
    acts = list_acts(Layout(tmp_path), addresses(gke))

    find(acts, name).perform()
    (found,) = ask("GET", f"{gke}/admin/faults")["faults"]
    find(acts, "clear-faults").perform()

    assert fault.items() <= found.items()
    assert ask("GET", f"{gke}/admin/faults")["faults"] == []


def a_state(pid: int) -> State:
    process = ProcessState("exporter", pid, None, 0)
    return State(supervisor_pid=1, settings=StackSettings(), addresses=addresses(), processes=[process])


def test_the_exporter_is_killed_as_a_crash_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(local_acts, "read_state", lambda _layout: a_state(process.pid))

    told = find(list_acts(Layout(tmp_path), addresses()), "kill-exporter").perform()

    assert process.wait(20) == -9
    assert told == "the exporter is killed; the supervisor starts it again"


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_created_under_a_new_name(monkeypatch: pytest.MonkeyPatch, example: str) -> None:
    sent: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            served = [{"kind": "JobSet", "name": "jobsets", "namespaced": True}]
            return httpx.Response(200, json={"resources": served})
        body = httpx.Response(200, content=request.content).json()
        if body["kind"] == "JobSet":
            sent.append(body)
        metadata = {"name": "made", "namespace": "default", "uid": "u"}
        return httpx.Response(201, json=body | {"metadata": metadata})

    client = httpx.Client(transport=httpx.MockTransport(answer), base_url=NOWHERE)
    monkeypatch.setattr(applying, "open_client", lambda _kubeconfig, **_options: client)

    told = local_acts.apply_example("kubeconfig", example)

    assert told == "created default/made"
    (metadata,) = [body["metadata"] for body in sent]
    assert "name" not in metadata
    assert metadata["generateName"].endswith("-")


def test_the_names_of_the_buttons_are_parts_of_an_address(tmp_path: Path) -> None:
    names = [act.name for act in list_acts(Layout(tmp_path), addresses())]

    assert len(names) == len(set(names)) > 4
    assert all(name.replace("-", "").isalnum() and name == name.lower() for name in names)


def test_without_a_stack_the_command_says_how_to_start_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["--home", str(tmp_path)])

    assert result.exit_code == 2
    assert "make up" in result.stderr


def test_a_demo_s_board_is_served_and_changes_nothing(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    reached = dataclasses.replace(addresses(), kubeconfig=str(kubeconfig))
    stack: Any = SimpleNamespace(layout=Layout(tmp_path), settings=StackSettings(), addresses=reached)
    messages: list[str] = []

    with board_beside(stack, messages.append):
        url = messages[0].removeprefix("the board: ")
        token, origin = url.partition("token=")[2], url.partition("/?")[0]
        page = httpx.get(url)
        headers = {"X-Board-Token": token, "Origin": origin, "Content-Type": "application/json"}
        act = httpx.post(f"{origin}/acts/replay-letter", headers=headers, content='{"message_id": "1"}')

    assert (page.status_code, "<title>" in page.text) == (200, True)
    assert (act.status_code, "read-only" in act.text) == (403, True)


def test_the_settings_of_a_stack_open_its_deployment(tmp_path: Path) -> None:
    found = operator_environment(Layout(tmp_path), StackSettings(), addresses())

    assert read_environment(found)[1].subscriptions["dead_letters"]
