"""The command line of the fake GKE, and that its documentation knows every switch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from standins.fakegke.cli import app
from standins.fakegke.faults.fault_rules import SWITCHES

if TYPE_CHECKING:
    from typer.testing import Result

    from standins.fakegke.tests.fakegke_worlds import ServedWorld

PAGE = Path(__file__).parents[3] / "docs" / "fake-gke.md"


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def test_faults_are_scripted_from_the_command_line(served: ServedWorld) -> None:
    url = ("--url", served.rest)
    added = _run("fault", "add", "outcome", "--pool", "bad-*", "--set", "kind=quota", "--count", "1", *url)
    fault = json.loads(added.stdout)["added"][0]
    assert (fault["kind"], fault["pool"], fault["count"]) == ("quota", "bad-*", 1)
    assert "bad-*" in _run("fault", "list", *url).stdout
    assert _run("fault", "clear", str(fault["number"]), *url).stdout == "removed 1\n"


def test_pools_and_calls_are_shown_as_tables(served: ServedWorld) -> None:
    served.create("pool-of-mine")
    assert "pool-of-mine" in _run("pools", "--url", served.rest).stdout
    assert "CreateNodePool" in _run("calls", "--url", served.rest, "--last", "1").stdout


def test_a_ports_file_will_do_instead_of_an_address(served: ServedWorld, tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    path.write_text(json.dumps(served.fake.ports))
    assert _run("pools", "--url", str(path)).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (("fault", "add", "nope", "--url", "http://127.0.0.1:9"), "valid switches: "),
        (("fault", "add", "read_lag", "--set", "seconds", "--url", "http://127.0.0.1:9"), "valid: field=value"),
        (("pools", "--url", "http://127.0.0.1:9"), "is no running fake GKE"),
        (("pools", "--url", "no-such-file"), "is no running fake GKE"),
    ],
)
def test_a_command_that_cannot_work_says_why(arguments: tuple[str, ...], fragment: str) -> None:
    ended = _run(*arguments)
    assert ended.exit_code == 2
    assert fragment in ended.stderr


@pytest.mark.parametrize("name", sorted(SWITCHES))
def test_the_page_explains_each_switch_in_the_words_of_the_code(name: str) -> None:
    common = set(SWITCHES["stuck_stopping"].__struct_fields__)
    own = ", ".join(f"`{field}`" for field in SWITCHES[name].__struct_fields__ if field not in common)
    assert f"| `{name}` | {SWITCHES[name].__doc__} | {own} |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("error", [OSError("No space left on device"), ValueError("a bug")], ids=["disk", "bug"])
def test_an_error_long_after_the_start_is_not_told_as_a_wrong_argument(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fail(_settings: object) -> None:
        raise error

    monkeypatch.setattr("standins.fakegke.server.serve", fail)

    result = _run("serve", "--project=p", "--location=us-east5", "--cluster=c")

    assert (result.exit_code, result.stderr) == (1, "")


def test_an_address_of_pubsub_that_is_no_url_is_refused() -> None:
    result = _run("serve", "--project=p", "--location=us-east5", "--cluster=c", "--pubsub=127.0.0.1:80")

    assert result.exit_code == 2
    assert result.stderr.startswith("error: --pubsub: is not a URL (got '127.0.0.1:80'); valid: http://HOST")
