"""A drop-in for ``shared/edges/pubsub_topic.py`` over bare gRPC: no generated client.

It defines only the messages that it needs, and takes only the happy path; no token, as to a stand-in.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.events import Message
    from shared.edges.google_rest import GoogleRest

_TIMEOUT_SECONDS = 10.0
_PACKAGE = "google.pubsub.v1"
_STRING, _BYTES, _MESSAGE = 9, 12, 11
_ONE, _MANY = 1, 3
_FIELDS: dict[str, tuple[tuple[str, int, int, int, str], ...]] = {
    "PublishRequest": (("topic", 1, _STRING, _ONE, ""), ("messages", 2, _MESSAGE, _MANY, "PubsubMessage")),
    "PublishResponse": (("message_ids", 1, _STRING, _MANY, ""),),
    "PubsubMessage": (
        ("data", 1, _BYTES, _ONE, ""),
        ("attributes", 2, _MESSAGE, _MANY, "PubsubMessage.AttributesEntry"),
    ),
}
"""Name, number, type, label and type name of each field, from
https://github.com/googleapis/googleapis/blob/master/google/pubsub/v1/pubsub.proto."""


class PubsubTopic:
    """One topic over gRPC, at the address in `BENCHMARK_PUBSUB_GRPC`."""

    def __init__(self, _rest: GoogleRest, topic: str) -> None:
        """Prepare; nothing is sent yet. The connection is not the one that the original is given."""
        self._topic = topic
        channel = grpc.insecure_channel(os.environ["BENCHMARK_PUBSUB_GRPC"])
        self._request, response = _build_messages()
        self._send: Any = channel.unary_unary(
            f"/{_PACKAGE}.Publisher/Publish",
            request_serializer=self._request.SerializeToString,
            response_deserializer=response.FromString,
        )

    def publish(self, messages: Sequence[Message]) -> list[str]:
        """Publish a batch and return the message ids."""
        batch = [{"data": each.data, "attributes": each.attributes} for each in messages]
        answer = self._send(self._request(topic=self._topic, messages=batch), timeout=_TIMEOUT_SECONDS)
        return list(answer.message_ids)

    def keep(self, message: Message) -> None:
        """Keep one message that can never succeed."""
        self.publish([message])


def _build_messages() -> tuple[Any, Any]:
    """Return the classes of request and response, in a pool of their own."""
    file = descriptor_pb2.FileDescriptorProto(name="publish.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        _add_fields(file.message_type.add(name=name), fields)
    entry = next(each for each in file.message_type if each.name == "PubsubMessage").nested_type.add()
    entry.name = "AttributesEntry"
    entry.options.map_entry = True
    _add_fields(entry, (("key", 1, _STRING, _ONE, ""), ("value", 2, _STRING, _ONE, "")))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes: Any = message_factory.GetMessageClassesForFiles([file.name], pool)
    return classes[f"{_PACKAGE}.PublishRequest"], classes[f"{_PACKAGE}.PublishResponse"]


def _add_fields(message: Any, fields: tuple[tuple[str, int, int, int, str], ...]) -> None:
    for name, number, kind, label, type_name in fields:
        full_name = f".{_PACKAGE}.{type_name}" if type_name else None
        message.field.add(name=name, number=number, type=kind, label=label, type_name=full_name)
