"""The contract of the port `DeadLetters`, for two implementations: the edge and the fake.

The edge publishes to the local Pub/Sub; the fake is that of the component tests. A message that can
never succeed is kept byte for byte, or handed back: it is never lost in between.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from google.auth.credentials import AnonymousCredentials

from shared.core.errors import Unavailable
from shared.core.messages import Message
from shared.core.ports import DeadLetters
from shared.edges.pubsub_topic import PubsubTopic, open_publisher_over_rest
from tests.component.fakes import FakeDeadLetters
from tests.contract.stand_ins import ask, stand_in

ANONYMOUS = AnonymousCredentials()  # type: ignore[no-untyped-call]
TOPIC = "projects/p/topics/dead-letters"


@dataclass
class Letters:
    """One implementation, the same one out of reach, and what was kept."""

    port: DeadLetters
    out_of_reach: DeadLetters
    list_kept: Callable[[], list[Message]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with stand_in(tmp_path_factory.mktemp("pubsub"), "standins.pubsub", "serve") as ports:
        ask("PUT", f"{ports['rest']}/v1/{TOPIC}", {})
        yield ports["rest"]


def topic_at(url: str, topic: str = TOPIC) -> PubsubTopic:
    return PubsubTopic(lambda: open_publisher_over_rest(url, ANONYMOUS), topic)


@pytest.fixture(params=["edge", "fake"])
def letters(request: pytest.FixtureRequest) -> Letters:
    if request.param == "fake":
        fake, down = FakeDeadLetters(), FakeDeadLetters()
        down.down = True
        return Letters(fake, down, lambda: fake.kept)
    url: str = request.getfixturevalue("url")

    def list_kept() -> list[Message]:
        found = ask("GET", f"{url}/admin/messages?topic={TOPIC}")["messages"]
        return [Message(base64.b64decode(each.get("data", "")), each["attributes"]) for each in found]

    return Letters(topic_at(url), topic_at("http://127.0.0.1:9"), list_kept)


@pytest.mark.parametrize("data", [b"\x00\xff not json", b""])
def test_a_message_is_kept_byte_for_byte_with_its_attributes(letters: Letters, data: bytes) -> None:
    message = Message(data, {"ce-id": "1", "tpu-provisioner-reason": "event_malformed"})
    before = len(letters.list_kept())
    letters.port.keep(message)

    assert letters.list_kept()[before:] == [message]


def test_out_of_reach_it_hands_the_message_back(letters: Letters) -> None:
    before = letters.list_kept()
    with pytest.raises(Unavailable):
        letters.out_of_reach.keep(Message(b"x", {}))

    assert letters.list_kept() == before


@pytest.mark.parametrize("topic", ["projects/p/topics/no-such-topic", "not a topic"])
def test_a_topic_that_is_not_there_hands_the_message_back(url: str, topic: str) -> None:
    """The fake has no topic. Retrying cannot mend it, but dropping the message would lose it."""
    with pytest.raises(Unavailable):
        topic_at(url, topic).keep(Message(b"x", {}))
