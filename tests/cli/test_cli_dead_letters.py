"""`dead-letters` lists with the reasons of the log, and discards; both ask before a change."""

import dataclasses
import json
from pathlib import Path

import pytest

from cli.access.connections import Deployment
from shared.model.messages import Message
from tests.cli.cli_world import logs_of, put_in_place, read_json, run
from tests.cli.test_cli_replay import GOOD, REFUSED, TOPIC, backlog, bury, deployment, published, url, world

__all__ = ["deployment", "url", "world"]
pytestmark = pytest.mark.usefixtures("deployment")


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A person at a terminal; the questions are noted, and they agree while the list is short."""
    asked: list[str] = []

    def ask(question: str, **_: bool) -> bool:
        asked.append(question)
        return len(asked) < 2

    monkeypatch.setattr("cli.messages.replay.typer.confirm", ask)
    monkeypatch.setattr("cli.messages.replay.has_terminal", lambda: True)
    return asked


def test_dead_letters_are_listed_with_what_the_log_says_of_their_event(
    url: str, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bury(url, GOOD, **REFUSED)
    bury(url, Message(b"?", {}), **REFUSED)
    about = {"event_id": GOOD.attributes["ce-id"], "severity": "ERROR"}
    records = [
        {**about, "reason": "unavailable", "message": "no answer"},
        {**about, "reason": "permission_denied", "message": "no rights"},
        {"event_id": "another", "reason": "busy", "message": "of another"},
    ]
    dated = [{"time": f"2027-01-15T07:00:0{at}Z", **each} for at, each in enumerate(records)]
    (tmp_path / "provision.log").write_text("\n".join(map(json.dumps, dated)))

    with logs_of(tmp_path) as logs:
        put_in_place(monkeypatch, dataclasses.replace(deployment, open_logs=logs))
        listed = read_json("dead-letters", "list")["dead_letters"]
        shown = run("dead-letters", "list").stdout

    assert [(each["reason"], each["error"]) for each in listed] == [
        ("permission_denied", "no rights"),
        ("attempts_exhausted", ""),
    ]
    assert (listed[0]["attributes"], listed[1]["data"]) == (GOOD.attributes | REFUSED, "?")
    assert shown.splitlines()[0].split() == ["ID", "PUBLISHED", "FUNCTION", "SUBJECT", "REASON", "MESSAGE"]
    assert "2 dead letters" in shown
    assert backlog(url) == 2


def test_a_dead_letter_that_one_pull_brings_twice_is_published_once(
    url: str, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(url, GOOD, **REFUSED)
    pull = deployment.pubsub.pull
    monkeypatch.setattr(deployment.pubsub, "pull", lambda subscription: pull(subscription) * 2)

    assert "1 published again, 0 not selected" in run("replay", "--dead-letters", "--yes").stdout
    assert (len(published(url)), backlog(url)) == (1, 0)


def test_a_person_is_asked_with_the_number_and_may_say_no(url: str, answer: list[str]) -> None:
    bury(url, GOOD, **REFUSED)

    agreed = run("replay", "--dead-letters")
    bury(url, GOOD, **REFUSED)
    refused = run("dead-letters", "discard", "--all")

    assert answer == ["Publish 1 dead letter again?", "Remove 1 dead letter for good?"]
    assert (agreed.exit_code, refused.exit_code, refused.stderr) == (0, 2, "error: nothing was changed\n")
    assert (len(published(url)), backlog(url)) == (1, 1)


@pytest.mark.parametrize(
    "options", [("replay", "--dead-letters"), ("replay", "--since=1h"), ("dead-letters", "discard", "--all")]
)
def test_where_nobody_can_be_asked_nothing_is_changed(url: str, options: tuple[str, ...]) -> None:
    bury(url, GOOD, **REFUSED)

    result = run(*options)

    assert (result.exit_code, "--yes: is needed" in result.stderr) == (2, True)
    assert (published(url, TOPIC), backlog(url)) == ([], 1)


def test_named_dead_letters_are_removed_and_the_others_stay(url: str) -> None:
    first, second = bury(url, GOOD, **REFUSED), bury(url, GOOD, **REFUSED)

    result = run("dead-letters", "discard", first, "no-such-id", "--yes")

    assert (result.exit_code, result.stdout) == (1, "1 removed, 1 not selected\n")
    assert (
        result.stderr == "no dead letter has the ID 'no-such-id'; tpu-provisioner dead-letters list shows them\n"
    )
    (left,) = read_json("dead-letters", "list")["dead_letters"]
    assert left["message_id"] == second
    assert read_json("dead-letters", "discard", "--all", "--yes") == {
        "dead_letters": [left | {"reason": ""}],
        "discarded": 1,
        "left": 0,
    }
