"""`replay` and `dead-letters` on a broker: what comes back, what goes, that nothing is lost."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.access.connections import Deployment, PulledMessage
from cli.access.deployment import PUSHED
from cli.messages.replay import DeadLetter, strip, walk_dead_letters
from cli.printing import parse_since
from shared.model.errors import Unavailable
from shared.model.messages import Message, format_message
from standins.google.tests.fakegke_worlds import serving_google
from tests.builders import a_demand_event
from tests.cli.cli_world import a_deployment, put_in_place, read_json, run
from tests.cli.scenes import find_topic, subscribe
from tests.contract.gke_world import ask
from tests.engine.world import World

P = "projects/p"
TOPIC, ENDS, DEAD_LETTERS = (find_topic(part) for part in ("provision", "provision-ends", "dead-letters"))
SUBSCRIPTIONS = {part: f"{P}/subscriptions/x-{part}" for part in (*PUSHED, "dead-letters")}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A Pub/Sub with a deployment's topics and subscriptions, which tests pull, and logs."""
    with serving_google(pubsub=True, logs=tmp_path, project="p") as google:
        subscribe(google.ports["rest"], SUBSCRIPTIONS)
        yield google.ports["rest"]


@pytest.fixture
def world() -> World:
    world = World()
    world.clock.pause(10_000_000)  # after everything that the broker dates
    return world


@pytest.fixture
def deployment(url: str, world: World, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    deployment = a_deployment(world, google=url, project="p", name="x")
    put_in_place(monkeypatch, deployment)
    return deployment


def bury(url: str, message: Message, **attributes: str) -> str:
    """Put a message with more attributes among the dead letters; return its ID."""
    body = {"data": base64.b64encode(message.data).decode(), "attributes": message.attributes | attributes}
    return str(ask("POST", f"{url}/v1/{DEAD_LETTERS}:publish", {"messages": [body]})["messageIds"][0])


def published(url: str, topic: str = TOPIC) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask("GET", f"{url}/admin/messages?topic={topic}")["messages"]
    return found


def backlog(url: str) -> int:
    found = ask("GET", f"{url}/admin/subscriptions")["subscriptions"]
    return int(next(each["backlog"] for each in found if each["name"] == SUBSCRIPTIONS["dead-letters"]))


def drain(url: str, name: str) -> int:
    """Pull and acknowledge what waits; return how many that were."""
    path = f"{url}/v1/{SUBSCRIPTIONS[name]}"
    found = ask("POST", f"{path}:pull", {"maxMessages": 100, "returnImmediately": True}).get(
        "receivedMessages", []
    )
    if found:
        ask("POST", f"{path}:acknowledge", {"ackIds": [each["ackId"] for each in found]})
    return len(found)


GOOD = format_message(a_demand_event())
OF_WORKLOAD = format_message(a_demand_event(uid=""))
SOURCE = "CloudPubSubDeadLetterSourceSubscription"
REFUSED = {SOURCE: "x-provision", "CloudPubSubDeadLetterSourceDeliveryCount": "20"}


def test_dead_letters_go_back_as_they_were_first_published(url: str, deployment: Deployment) -> None:
    bury(url, GOOD, **REFUSED)
    bury(url, OF_WORKLOAD, **{SOURCE: "x-collect"})

    result = run("replay", "--dead-letters", given="y\n")

    assert (result.exit_code, backlog(url)) == (0, 0)
    assert "Publish 2 dead letters again? [y/N]" in result.stderr
    assert [each["attributes"] for each in published(url)] == [GOOD.attributes, OF_WORKLOAD.attributes]
    assert [base64.b64decode(each["data"]) for each in published(url)] == [GOOD.data, OF_WORKLOAD.data]
    assert "2 published again, 0 not selected" in result.stdout


@pytest.mark.parametrize("error", [Unavailable("lost"), KeyboardInterrupt()])
def test_whatever_interrupts_it_no_dead_letter_is_lost(
    url: str, deployment: Deployment, error: BaseException
) -> None:
    body = {"data": base64.b64encode(GOOD.data).decode(), "attributes": GOOD.attributes | REFUSED}
    ask("POST", f"{url}/v1/{DEAD_LETTERS}:publish", {"messages": [body] * 150})
    topic, batches = deployment.pubsub.open_topic(TOPIC), list[Any]()

    def publish(messages: list[Message]) -> None:
        """Publish; of the second batch the answer or the operator is lost."""
        batches.append(messages)
        if len(batches) > 1:
            raise error
        topic.publish(messages)

    with pytest.raises(type(error)):
        walk_dead_letters(deployment.pubsub, SUBSCRIPTIONS["dead-letters"], handle=publish)

    assert len(published(url)) + backlog(url) == 150
    assert drain(url, "dead-letters") == min(100, backlog(url) or 50), "the rest can be pulled again at once"


def test_a_time_brings_back_what_was_acknowledged_since(url: str, deployment: Deployment) -> None:
    ask("POST", f"{url}/v1/{TOPIC}:publish", {"messages": [{"data": "eA=="}] * 3})
    ask("POST", f"{url}/v1/{ENDS}:publish", {"messages": [{"data": "eA=="}]})
    assert [drain(url, name) for name in PUSHED] == [3, 3, 1, 1]

    result = run("replay", "--since", "2020-01-01T00:00:00Z", "--yes")

    assert result.exit_code == 0
    names = [SUBSCRIPTIONS[each] for each in PUSHED]
    assert result.stdout == "".join(f"{name} is set back to 2020-01-01T00:00:00Z\n" for name in names)
    assert [drain(url, name) for name in PUSHED] == [3, 3, 1, 1]


def test_a_subscription_that_is_absent_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_place(monkeypatch, a_deployment(google=url, project="p", name="bare"))

    result = run("replay", "--since", "1h", "--yes")

    assert result.exit_code == 3
    assert f"{P}/subscriptions/bare-provision" in result.stderr


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("3d", 259_200)])
def test_how_long_ago_is_a_time(text: str, seconds: int) -> None:
    assert parse_since(text, now=1e9) == 1e9 - seconds


def test_a_dead_letter_that_says_nothing_of_itself_is_still_shown() -> None:
    dead_letter = DeadLetter(PulledMessage("a", "1", "2026-01-01T00:00:00Z", Message(b"", {})))

    assert (dead_letter.function, dead_letter.read("ce-subject")) == ("", "")
    assert strip(Message(b"", {"ce-id": "1", **REFUSED})) == Message(b"", {"ce-id": "1"})


def test_dead_letters_are_listed_with_what_the_log_says_of_their_event(
    url: str, deployment: Deployment, tmp_path: Path
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
    pull, pulls = deployment.pubsub.pull, list[int]()

    def pull_twice(subscription: str) -> list[PulledMessage]:
        found = pull(subscription) * 2
        pulls.append(len(found))
        return found

    monkeypatch.setattr(deployment.pubsub, "pull", pull_twice)

    assert "1 published again, 0 not selected" in run("replay", "--dead-letters", "--yes").stdout
    assert (len(published(url)), backlog(url)) == (1, 0)
    assert "0 dead letters" in run("dead-letters", "list").stdout
    assert pulls == [2, 0, 0, 0, 0, 0, 0], "an empty answer does not prove an empty queue"


@pytest.mark.parametrize("line", ["replay --dead-letters", "replay --since=1h", "dead-letters discard --all"])
@pytest.mark.parametrize("answer", ["n\n", ""], ids=["no", "nobody"])
def test_without_a_yes_nothing_is_changed(url: str, deployment: Deployment, line: str, answer: str) -> None:
    bury(url, GOOD, **REFUSED)

    result = run(*line.split(), given=answer)

    assert (result.exit_code, "Aborted" in result.output) == (1, True)
    assert ("1 dead letter" in result.stderr) == (line != "replay --since=1h")
    assert (published(url, TOPIC), backlog(url)) == ([], 1)


def test_named_dead_letters_are_removed_and_the_others_stay(url: str, deployment: Deployment) -> None:
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
