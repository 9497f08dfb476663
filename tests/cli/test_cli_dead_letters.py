"""`letters` lists, shows, replays and discards, asks before a change, and skips the hopeless."""

from typing import Any

import pytest

from cli.access.operator_access import Deployment
from cli.messages.dead_letters import (
    FUNCTION_ATTRIBUTE,
    MESSAGE_ID_ATTRIBUTE,
    Choice,
    DeadLetterQueue,
    publish_again,
)
from shared.core.messages import Message
from shared.edges.pubsub_topic import PubsubTopic
from tests.audit_entries import an_entry, as_message
from tests.cli.cli_world import read_json, run
from tests.cli.test_cli_replay import (
    GOOD,
    MALFORMED,
    REFUSED,
    SUBSCRIPTIONS,
    TOPIC,
    backlog,
    bury,
    deployment,
    drain,
    published,
    url,
    world,
)
from tests.component.world import World

__all__ = ["deployment", "url", "world"]
pytestmark = pytest.mark.usefixtures("deployment")


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A person at a terminal; the questions are noted, and they agree while the list is short."""
    asked: list[str] = []

    def ask(question: str, **_: bool) -> bool:
        asked.append(question)
        return len(asked) < 2

    monkeypatch.setattr("cli.messages.asking.typer.confirm", ask)
    monkeypatch.setattr("cli.messages.asking.has_terminal", lambda: True)
    return asked


def test_dead_letters_are_listed_shown_and_stay(url: str) -> None:
    bury(url, GOOD, **REFUSED)
    bury(url, Message(b"?", {}), **MALFORMED)

    listed = read_json("letters", "list")["letters"]
    (one,) = read_json("letters", "list", "--reason", "event_malformed")["letters"]
    shown = run("letters", "show", one["message_id"])

    assert [each["reason"] for each in listed] == ["cluster_unknown", "event_malformed"]
    assert (shown.exit_code, shown.stdout) == (0, "tpu-provisioner-reason: event_malformed\n\n?\n")
    assert "2 dead letters" in run("letters", "list").stdout
    assert backlog(url) == 2


def test_an_empty_dead_letter_blocks_no_other(url: str) -> None:
    bury(url, Message(b"", {}), **MALFORMED)
    bury(url, GOOD, **REFUSED)

    result = run("letters", "replay", "--yes")

    assert result.exit_code == 0, result.stderr
    assert "1 published again, 0 not selected\n1 dead letter cannot be published" in result.stdout
    assert (len(published(url)), backlog(url)) == (1, 1)


class TopicThatRefuses(PubsubTopic):
    """Whose function makes a dead letter of each message at once."""

    url = ""

    def publish(self, messages: Any) -> list[str]:
        """Publish, and bury what was published."""
        ids = super().publish(messages)
        for message, message_id in zip(messages, ids, strict=True):
            bury(self.url, message, **REFUSED, **{MESSAGE_ID_ATTRIBUTE: message_id})
        return ids


def test_a_dead_letter_that_returns_at_once_is_counted_once_by_a_clock_that_is_ahead(
    url: str, deployment: Deployment
) -> None:
    bury(url, GOOD, **REFUSED)
    queue = DeadLetterQueue(deployment.pubsub, SUBSCRIPTIONS["dead_letters"], now=4e9)
    topic = TopicThatRefuses(deployment.open_publisher, TOPIC)
    topic.url = url

    report = publish_again(queue, topic, Choice(), progress=lambda _count: None)

    assert (len(report.dead_letters), report.published, report.kept, report.newer) == (1, 1, 0, 1)
    assert (len(published(url)), backlog(url), drain(url, "dead_letters")) == (1, 1, 1)


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

    agreed = run("letters", "replay")
    bury(url, GOOD, **REFUSED)
    refused = run("letters", "discard", "--all")

    assert answer == [
        "Publish 1 dead letter (1 cluster_unknown) again?",
        "Remove 1 dead letter (1 cluster_unknown) for good?",
    ]
    assert (agreed.exit_code, refused.exit_code, refused.stderr) == (0, 2, "error: nothing was changed\n")
    assert (len(published(url)), backlog(url)) == (1, 1)


def test_a_replay_by_time_says_what_the_topic_keeps(answer: list[str]) -> None:
    run("replay", "--since", "3d", "--function", "provision")

    (asked,) = answer
    assert asked.startswith("Deliver the messages of provision again from ")
    assert "The topic events keeps messages for 1d0h, which is less than that. Pub/Sub cannot count" in asked


@pytest.mark.parametrize(
    "options", [("replay", "--dead-letters"), ("replay", "--since=1h"), ("letters", "discard", "--all")]
)
def test_where_nobody_can_be_asked_nothing_is_changed(url: str, options: tuple[str, ...]) -> None:
    bury(url, GOOD, **REFUSED)

    result = run(*options)

    assert (result.exit_code, "--yes: is needed" in result.stderr) == (2, True)
    assert (published(url, TOPIC), backlog(url)) == ([], 1)


def test_named_dead_letters_are_removed_and_the_others_stay(url: str) -> None:
    first = bury(url, GOOD, **REFUSED)
    bury(url, Message(b"", {}), **MALFORMED)

    result = run("letters", "discard", first, "--yes")

    assert (result.exit_code, result.stdout) == (0, "1 removed, 1 not selected\n")
    (left,) = read_json("letters", "list")["letters"]
    assert left["reason"] == "event_malformed"


@pytest.mark.parametrize("command", ["replay", "discard"])
def test_an_id_that_no_dead_letter_has_is_named_and_the_others_are_answered(url: str, command: str) -> None:
    known = bury(url, GOOD, **REFUSED)

    result = run("letters", command, known, "no-such-id", "--yes")

    message = "no dead letter has the ID 'no-such-id'; tpu-provisioner letters list shows them\n"
    assert (result.exit_code, result.stderr, backlog(url)) == (1, message, 0)


@pytest.mark.parametrize("command", ["replay", "discard"])
def test_a_named_dead_letter_that_a_reason_leaves_out_is_told_from_one_that_is_absent(
    url: str, command: str
) -> None:
    known = bury(url, GOOD, **REFUSED)

    result = run("letters", command, known, "--reason", "event_malformed", "--yes")

    message = "its reason is cluster_unknown, and --reason names event_malformed\n"
    assert (result.exit_code, backlog(url)) == (1, 1)
    assert result.stderr == f"dead letter {known} stays, because {message}"


def test_a_named_end_of_an_operation_says_which_setting_it_needs(url: str, answer: list[str]) -> None:
    known = bury(url, as_message(an_entry("Delete")), **{FUNCTION_ATTRIBUTE: "settle"})

    result = run("letters", "replay", known)

    assert (result.exit_code, backlog(url), answer) == (1, 1, ["Publish 0 dead letters again?"])
    message = "it is the end of a node pool operation, and TPU_PROVISIONER_OPERATIONS_TOPIC is not set\n"
    assert result.stderr == f"dead letter {known} stays, because {message}"


def test_dead_letters_that_are_newer_than_the_clock_are_listed_and_can_be_named(url: str, world: World) -> None:
    world.clock.advance(-20_000_000)  # now everything is newer than each run
    bury(url, GOOD, **REFUSED)
    bury(url, GOOD, **REFUSED)

    listed = read_json("letters", "list")["letters"]
    first, second = (each["message_id"] for each in listed)

    assert "2 dead letters" in run("letters", "list").stdout
    assert run("letters", "show", first).exit_code == 0
    assert "1 published again, 0 not selected" not in run("letters", "replay", "--yes").stdout
    assert "1 published again, 1 not selected" in run("letters", "replay", first, "--yes").stdout
    assert run("letters", "discard", second, "--yes").stdout == "1 removed, 0 not selected\n"
    assert (len(published(url)), backlog(url)) == (1, 0)


def test_dead_letters_that_came_during_the_run_are_told_when_all_are_removed(url: str, world: World) -> None:
    bury(url, GOOD, **REFUSED)
    (first,) = read_json("letters", "list")["letters"]

    assert read_json("letters", "discard", "--all", "--yes") == {
        "letters": [first],
        "discarded": 1,
        "left": 0,
        "newer": 0,
        "bounded": False,
    }
    world.clock.advance(-20_000_000)
    bury(url, GOOD, **REFUSED)
    text = run("letters", "discard", "--all", "--yes").stdout
    data = read_json("letters", "discard", "--all", "--yes")

    told = (
        "1 dead letter came after the run began, by this computer's clock; list with: tpu-provisioner letters list"
    )
    assert text == f"0 removed, 0 not selected\n{told}\n"
    assert (data["discarded"], data["newer"], backlog(url)) == (0, 1, 1)


def test_an_id_that_is_shown_and_absent_ends_with_2() -> None:
    result = run("letters", "show", "no such id")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "ID: no dead letter has it (got 'no such id')" in result.stderr
