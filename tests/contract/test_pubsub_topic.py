"""What is published is stored as it is, in one call; an error says if it may be tried again."""

import json

import pytest

from shared.edges.google import GoogleAccount, PubsubTopic
from shared.model import errors
from shared.model.messages import Message
from shared.settings import Credentials
from tests.contract.counting_socket import Socket, answer
from tests.contract.stand_ins import ask, serve_google

TOPIC = "projects/p/topics/events"
MESSAGES = [Message(b"{}", {"ce-id": "a"}), Message(b"\xff\x00", {"ce-id": "b"})]
NOBODY = GoogleAccount(Credentials.ANONYMOUS)


def test_a_batch_is_stored_as_it_is() -> None:
    with serve_google(pubsub=True) as ports:
        ask("PUT", f"{ports['rest']}/v1/{TOPIC}", {})

        assert len(set(PubsubTopic(TOPIC, NOBODY, ports["rest"]).publish(MESSAGES))) == 2

        stored = ask("GET", f"{ports['rest']}/admin/messages?topic={TOPIC}")["messages"]
    assert [(each["data"], each["attributes"]) for each in stored] == [
        ("e30=", {"ce-id": "a"}),
        ("/wA=", {"ce-id": "b"}),
    ]


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "INVALID_ARGUMENT", errors.InvalidRequest),
        (400, "FAILED_PRECONDITION", errors.Busy),
        (403, "PERMISSION_DENIED", errors.Denied),
        (404, "NOT_FOUND", errors.NotFound),
        (429, "RESOURCE_EXHAUSTED", errors.Throttled),
        (503, "UNAVAILABLE", errors.Unavailable),
        (418, "", errors.Unavailable),  # of a proxy: it says nothing of the messages
    ],
)
def test_a_refusal_is_one_call_and_the_next_batch_is_stored(
    server: Socket, status: int, code: str, error: type[errors.ProvisionerError]
) -> None:
    topic = PubsubTopic(TOPIC, NOBODY, server.url)
    body = json.dumps({"error": {"status": code, "message": "no"}}).encode()
    server.answers = [answer(body, f"{status} No"), answer(b'{"messageIds": ["1", "2"]}')]

    with pytest.raises(error) as refusal:
        topic.publish(MESSAGES)
    assert (type(refusal.value), server.requests) == (error, 1)

    assert topic.publish(MESSAGES) == ["1", "2"]


@pytest.mark.parametrize("body", [b'{"messageIds": ["1"]}', b"[]", b"<html>"])
def test_an_answer_without_an_id_for_each_message_proves_nothing(server: Socket, body: bytes) -> None:
    server.answers = [answer(body)]

    with pytest.raises(errors.Unavailable, match="the answer cannot be read"):
        PubsubTopic(TOPIC, NOBODY, server.url).publish(MESSAGES)
