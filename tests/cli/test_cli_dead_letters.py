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


@pytest.mark.parametrize("line", ["replay --dead-letters", "replay --since=1h", "dead-letters discard --all"])
@pytest.mark.parametrize("answer", ["n\n", ""], ids=["no", "nobody"])
def test_without_a_yes_nothing_is_changed(url: str, line: str, answer: str) -> None:
    bury(url, GOOD, **REFUSED)

    result = run(*line.split(), given=answer)

    assert (result.exit_code, "Aborted" in result.output) == (1, True)
    assert ("1 dead letter" in result.stderr) == (line != "replay --since=1h")
    assert (published(url, TOPIC), backlog(url)) == ([], 1)


def test_a_person_who_agrees_is_heard(url: str) -> None:
    bury(url, GOOD, **REFUSED)

    result = run("replay", "--dead-letters", given="y\n")

    assert (result.exit_code, len(published(url)), backlog(url)) == (0, 1, 0)
    assert "Publish 1 dead letter again? [y/N]" in result.stderr


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
