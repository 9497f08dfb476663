"""`status` on known situations: what it prints, at which width, and how it ends."""

import dataclasses
from collections.abc import Callable

import pytest
from msgspec import structs
from rich.console import Console

from cli.access.connections import Deployment
from cli.explanation.history_text import print_history
from cli.explanation.why import tell
from cli.fleet.status import print_status, read_status
from cli.printing import Format, format_age, print_data
from shared.model.errors import Unavailable
from tests.builders import CLUSTER, NOW
from tests.cli.cli_world import a_deployment, list_printed, put_in_place, read_json, run
from tests.engine.world import World


def test_looking_changes_nothing(half_served: World) -> None:
    half_served.take_calls()
    before = list(half_served.cluster.notices)

    shown = read_json("status")

    assert [(row["state"], row["chips"]) for row in shown["pools"]] == [("RUNNING", 16), ("ERROR", 16)]
    assert [(row["reason"], row["next_try"]) for row in shown["waiting"]] == [("paused", "2027-01-15T08:01:00Z")]
    assert not [
        call for call in half_served.take_calls() if call.startswith(("create", "delete", "mark", "raise"))
    ]
    assert half_served.cluster.notices == before


def test_a_cluster_that_cannot_be_asked_hides_no_other(
    half_served: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    down, answer = f"{CLUSTER}-down", half_served.gke.list

    def list_pools(cluster: str) -> list[object]:
        if cluster == down:
            raise Unavailable("no answer")
        return list(answer(cluster))

    monkeypatch.setattr(half_served.gke, "list", list_pools)
    deployment, live = a_deployment(half_served), half_served.cluster
    books = dict.fromkeys((down, CLUSTER), deployment.ports.books[CLUSTER])
    ports = structs.replace(deployment.ports, clusters={down: live, CLUSTER: live}, books=books)
    put_in_place(monkeypatch, dataclasses.replace(deployment, ports=ports))

    result = run("status")

    assert result.exit_code == 3
    assert "2 pools with 32 chips" in result.stdout
    assert f"error: {down}: no answer" in result.stderr


PRINTED: dict[str, Callable[[Console, Deployment], None]] = {
    "status": lambda console, deployment: print_status(console, read_status(deployment.ports), wide=False),
    "status -o wide": lambda console, deployment: print_status(console, read_status(deployment.ports), wide=True),
    "why": lambda console, deployment: print_history(
        console, tell(deployment, CLUSTER, "", "default", "train"), several=True, form=Format.TABLE, now=NOW
    ),
}


@pytest.mark.parametrize("command", PRINTED)
@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_everything_within_its_width(half_served: World, width: int, command: str) -> None:
    deployment = a_deployment(half_served)

    lines = list_printed(lambda console: PRINTED[command](console, deployment), width=width, terminal=True)

    assert max(len(line) for line in lines) <= width
    if command == "why":
        assert lines[0] == "p/us-east5/c", "of several clusters each is named"
    else:
        assert lines[-1].startswith("2 pools with 32 chips, 1 slice waiting")


def test_a_wide_terminal_shows_the_same_lines_as_a_file_gets(half_served: World) -> None:
    status = read_status(a_deployment(half_served).ports)

    shown, kept = (
        list_printed(lambda console: print_status(console, status, wide=True), terminal=terminal)
        for terminal in (True, False)
    )

    assert [line.rstrip() for line in shown] == kept


def test_an_exporter_that_never_ran_has_no_lease(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, a_deployment(world, lease_name="tpu-provisioner-exporter"))

    shown = run("doctor").stdout

    assert "Lease tpu-provisioner/tpu-provisioner-exporter does not exist: no exporter has run" in shown
    assert "\np/us-east5/c exporter: helm upgrade tpu-provisioner-exporter infra/helm " in shown


def test_no_color_is_heard(half_served: World) -> None:
    assert half_served.gke.pools
    plain = run("status", environ={"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "120"}).stdout
    coloured = run("status", environ={"FORCE_COLOR": "1", "COLUMNS": "120", "TERM": "xterm-256color"}).stdout

    assert "\x1b[3" not in plain
    assert "\x1b[3" in coloured


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (3599, "59m"),
        (3600, "1h0m"),
        (86_400, "1d0h"),
        (90_000, "1d1h"),
        (None, "?"),
    ],
)
def test_ages_are_written_as_kubectl_does(seconds: float | None, text: str) -> None:
    assert format_age(seconds) == text


@pytest.mark.parametrize(
    ("form", "text"), [(Format.JSON, '{\n  "b": "é",\n  "a": 1\n}\n'), (Format.YAML, "b: é\na: 1\n")]
)
def test_programs_get_fields_in_their_order_and_letters_as_they_are(
    form: Format, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_data({"b": "é", "a": 1}, form)

    assert capsys.readouterr().out == text
