"""The commands read the functions' settings and a few more; what is wrong is told all at once."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.access.deployment import OperatorSettings, name_services, name_subscription, name_topic
from cli.app import app
from cli.exit_codes import EPILOG, ExitCode
from shared.model.errors import Misconfigured
from tests.cli.cli_world import run
from tests.docs.test_commands import check_ours

ROOT = Path(__file__).resolve().parents[2]
NARROW = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
COMMANDS = {"status", "why", "explain", "plan", "replay", "doctor", "board", "usage"}


def find_command(words: tuple[str, ...]) -> Any:
    found: Any = typer.main.get_command(app)
    for word in words:
        found = found.commands[word]
    return found


def list_commands(words: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of each command that runs something."""
    inside = getattr(find_command(words), "commands", {})
    return [each for name in inside for each in list_commands((*words, name))] if inside else [words]


def test_names_follow_from_project_and_name() -> None:
    own = OperatorSettings(project="p", name="blue")

    assert name_subscription(own, "collect-ends") == "projects/p/subscriptions/blue-collect-ends"
    assert name_topic(own) == "projects/p/topics/blue-workload-events"
    assert name_services(own, "collect") == ' AND jsonPayload.service=("blue-collect")'
    assert name_services(OperatorSettings()) == ""
    with pytest.raises(Misconfigured, match="TPU_PROVISIONER_PROJECT: is required by this command"):
        name_topic(OperatorSettings())


GROUPS = [(), ("dead-letters",)]
BOUNDS: dict[tuple[str, ...], list[str]] = {("board",): ["[default: 0; 0<=x<=65535]", "[default: 5; 1<=x<=3600]"]}
"""Of the port, and of the seconds between two readings."""


@pytest.mark.parametrize("command", [*GROUPS, *list_commands()], ids=" ".join)
def test_every_help_fits_80_columns_and_explains_each_option(command: tuple[str, ...]) -> None:
    shown = run(*command, "--help", environ=NARROW)
    lines, found = shown.stdout.splitlines(), find_command(command)

    assert (shown.exit_code, "Commands:" in shown.stdout) == (0, command in GROUPS)
    assert command not in GROUPS or run(*command, environ=NARROW).output == shown.output
    assert re.findall(r"\[.*<=.*\]", shown.stdout) == BOUNDS.get(command, [])
    assert [line for line in lines if len(line) > 80 or "…" in line] == []
    assert [line for line in shown.stdout.partition("Commands:")[2].splitlines() if line.endswith("...")] == []
    assert [each.name for each in found.params if not each.help] == []
    examples = re.findall(r"Example: tpu-provisioner (.*)", shown.stdout)
    assert all(check_ours(example.split()) == "" for example in examples)
    if len(command) == 1 and command not in GROUPS:
        assert " ".join(EPILOG.split()) in " ".join(shown.stdout.split())
        assert examples or command == ("doctor",)


def test_the_page_lists_every_command_option_and_exit_code() -> None:
    page = (ROOT / "docs/cli.md").read_text()
    options = {
        option
        for command in COMMANDS
        for option in re.findall(r"(--[a-z-]+)", run(command, "--help").stdout)
        if option not in ("--help", "--int")
    }

    assert sorted(option for option in options if option not in page) == []
    assert sorted(code for code in ExitCode if f"| {int(code)} |" not in page) == []
    assert {command.callback.__name__ for command in app.registered_commands if command.callback} == COMMANDS
