"""What can never succeed is kept in a real topic of the local Pub/Sub, or handed back: never lost in between."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
import urllib3

from shared.core.errors import Unavailable
from shared.core.events import Message
from shared.edges.google_rest import GoogleRest
from shared.edges.pubsub_topic import PubsubTopic
from tests.contract.stand_ins import ask, stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "projects/p/topics/dead-letters"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with stand_in(tmp_path_factory.mktemp("pubsub"), "local.pubsub", "serve") as ports:
        ask("PUT", f"{ports['rest']}/v1/{TOPIC}", {})
        yield ports["rest"]


def dead_letters(url: str, topic: str = TOPIC) -> PubsubTopic:
    return PubsubTopic(GoogleRest(url, http=urllib3.PoolManager(), token=None), topic)


def test_a_message_is_kept_byte_for_byte_with_its_attributes(url: str) -> None:
    message = Message(b"\x00\xff not json", {"ce-id": "1", "tpu-provisioner-reason": "event_malformed"})
    dead_letters(url).keep(message)
    (kept,) = ask("GET", f"{url}/admin/messages?topic={TOPIC}")["messages"]

    assert base64.b64decode(kept["data"]) == message.data
    assert kept["attributes"] == message.attributes


def test_a_message_without_data_is_kept_by_its_attributes(url: str) -> None:
    dead_letters(url).keep(Message(b"", {"tpu-provisioner-reason": "event_malformed"}))


@pytest.mark.parametrize("topic", ["projects/p/topics/no-such-topic", "not a topic"])
def test_a_topic_that_is_not_there_hands_the_message_back(url: str, topic: str) -> None:
    """Retrying cannot mend it, but dropping the message would lose it."""
    with pytest.raises(Unavailable):
        dead_letters(url, topic).keep(Message(b"x", {}))


def test_pubsub_out_of_reach_hands_the_message_back() -> None:
    with pytest.raises(Unavailable):
        dead_letters("http://127.0.0.1:9").keep(Message(b"x", {}))
