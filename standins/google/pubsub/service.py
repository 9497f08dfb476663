"""The operations of `google.pubsub.v1`, once, from request message to response message.

Everything answers at once except `Pull`, which may wait.
"""

import asyncio
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.field_mask_pb2 import FieldMask
from google.pubsub_v1 import types
from google.pubsub_v1.services.publisher.transports.rest_base import _BasePublisherRestTransport
from google.pubsub_v1.services.subscriber.transports.rest_base import _BaseSubscriberRestTransport

from standins.google.api import Caller, Rule, read_rules
from standins.google.pubsub import conversions
from standins.google.pubsub.bells import Bells
from standins.google.pubsub.conversions import message_class
from standins.google.pubsub.model.broker import Broker
from standins.google.pubsub.model.names import invalid

MAX_PAGE = 1_000


_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def list_services() -> dict[str, list[Rule]]:
    """Return the rules of each service by its full name: of the methods that are answered here."""
    transports = {"Publisher": _BasePublisherRestTransport, "Subscriber": _BaseSubscriberRestTransport}
    return {
        f"google.pubsub.v1.{name}": [
            rule for rule in read_rules([transport], types) if hasattr(Service, _name_verb(rule.method))
        ]
        for name, transport in transports.items()
    }


class Service:
    """Answer every operation on one broker; a refusal is an `ApiError`."""

    def __init__(self, broker: Broker, bells: Bells) -> None:
        self.broker, self._bells = broker, bells

    async def answer(self, method: str, request: Any, caller: Caller) -> Any:
        """Answer a method; a pull waits for messages as long as its caller does."""
        act = getattr(self, _name_verb(method))
        until = asyncio.get_running_loop().time() + caller.patience_seconds
        while True:
            response = act(request)
            left = until - asyncio.get_running_loop().time()
            if method != "Pull" or response.received_messages or request.return_immediately or left <= 0:
                return response
            await self._bells.wait(request.subscription, left)

    def create_topic(self, request: Any) -> Any:
        """Create a topic."""
        return conversions.topic_resource(self.broker.create_topic(request.name, conversions.topic_terms(request)))

    def get_topic(self, request: Any) -> Any:
        """Return a topic."""
        return conversions.topic_resource(self.broker.topic(request.topic))

    def delete_topic(self, request: Any) -> Any:
        """Delete a topic."""
        self.broker.delete_topic(request.topic)
        return Empty()

    def list_topics(self, request: Any) -> Any:
        """List the topics of a project."""
        names, token = _page(_within(self.broker.topics, request.project), request)
        topics = [conversions.topic_resource(self.broker.topics[name]) for name in names]
        return message_class("ListTopicsResponse")(topics=topics, next_page_token=token)

    def publish(self, request: Any) -> Any:
        """Publish messages and return their ids."""
        drafts = [conversions.draft_of(message) for message in request.messages]
        return message_class("PublishResponse")(message_ids=self.broker.publish(request.topic, drafts))

    def _show(self, name: str) -> Any:
        subscription = self.broker.subscription(name)
        return conversions.subscription_resource(subscription, self.broker.topics.get(subscription.topic))

    def create_subscription(self, request: Any) -> Any:
        """Create a subscription."""
        self.broker.create_subscription(request.name, conversions.subscription_terms(request))
        return self._show(request.name)

    def get_subscription(self, request: Any) -> Any:
        """Return a subscription."""
        return self._show(request.subscription)

    def update_subscription(self, request: Any) -> Any:
        """Change those fields of a subscription that the mask names."""
        name = request.subscription.name
        merged = _merged(self._show(name), request.subscription, request.update_mask)
        self._change(name, merged, keeps_topic="topic" not in request.update_mask.paths)
        return self._show(name)

    def _change(self, name: str, resource: Any, *, keeps_topic: bool) -> None:
        terms = conversions.subscription_terms(resource)
        if keeps_topic:  # of a deleted topic the terms keep the name
            terms = dataclasses.replace(terms, topic=self.broker.subscription(name).terms.topic)
        self.broker.change_subscription(name, terms)

    def modify_push_config(self, request: Any) -> Any:
        """Change where a subscription pushes to; an empty config makes it a pull subscription."""
        resource = self._show(request.subscription)
        resource.push_config.CopyFrom(request.push_config)
        self._change(request.subscription, resource, keeps_topic=True)
        return Empty()

    def list_subscriptions(self, request: Any) -> Any:
        """List the subscriptions of a project."""
        names, token = _page(_within(self.broker.subscriptions, request.project), request)
        shown = [self._show(name) for name in names]
        return message_class("ListSubscriptionsResponse")(subscriptions=shown, next_page_token=token)

    def delete_subscription(self, request: Any) -> Any:
        """Delete a subscription."""
        self.broker.delete_subscription(request.subscription)
        return Empty()

    def acknowledge(self, request: Any) -> Any:
        """Acknowledge deliveries."""
        self.broker.acknowledge(request.subscription, _present_ack_ids(request))
        return Empty()

    def modify_ack_deadline(self, request: Any) -> Any:
        """Extend leases, or give them up with a deadline of 0."""
        ack_ids = _present_ack_ids(request)
        self.broker.modify_ack_deadline(request.subscription, ack_ids, request.ack_deadline_seconds)
        return Empty()

    def pull(self, request: Any) -> Any:
        """Hand out what is available now, possibly nothing."""
        batch = self.broker.pull(request.subscription, limit=request.max_messages)
        terms = self.broker.subscription(request.subscription).terms
        return message_class("PullResponse")(
            received_messages=[conversions.received_message(delivery, terms) for delivery in batch]
        )

    def create_snapshot(self, request: Any) -> Any:
        """Take a snapshot of a subscription."""
        snapshot = self.broker.create_snapshot(request.name, request.subscription)
        snapshot.description = message_class("Snapshot")(labels=request.labels)
        return conversions.snapshot_resource(snapshot)

    def get_snapshot(self, request: Any) -> Any:
        """Return a snapshot."""
        return conversions.snapshot_resource(self.broker.snapshot(request.snapshot))

    def list_snapshots(self, request: Any) -> Any:
        """List the snapshots of a project."""
        names, token = _page(_within(self.broker.snapshots, request.project), request)
        shown = [conversions.snapshot_resource(self.broker.snapshots[name]) for name in names]
        return message_class("ListSnapshotsResponse")(snapshots=shown, next_page_token=token)

    def delete_snapshot(self, request: Any) -> Any:
        """Delete a snapshot."""
        self.broker.delete_snapshot(request.snapshot)
        return Empty()

    def seek(self, request: Any) -> Any:
        """Put a subscription back to a time or to a snapshot."""
        if request.HasField("time"):
            self.broker.seek(request.subscription, moment=conversions.moment_of(request.time))
        else:
            self.broker.seek(request.subscription, snapshot=request.snapshot or None)
        return message_class("SeekResponse")()


def _name_verb(method: str) -> str:
    return _CAPITAL.sub("_", method).lower()


def _present_ack_ids(request: Any) -> Sequence[str]:
    if not request.ack_ids:
        raise invalid("ack_ids", [], "at least one ack id")
    ack_ids: Sequence[str] = request.ack_ids
    return ack_ids


def _merged(current: Any, wanted: Any, mask: Any) -> Any:
    """Return the current resource with the masked fields taken from the wanted one."""
    if not mask.paths:
        raise invalid("update_mask", [], "at least one field to change")
    checked = FieldMask(paths=list(mask.paths))
    if not checked.IsValidForDescriptor(current.DESCRIPTOR):
        fields = ", ".join(field.name for field in current.DESCRIPTOR.fields)
        raise invalid("update_mask", list(mask.paths), f"paths below these fields: {fields}")
    for path in mask.paths:
        if "." not in path:
            current.ClearField(path)
    checked.MergeMessage(wanted, current, replace_message_field=True, replace_repeated_field=True)
    return current


def _within(names: dict[str, Any], project: str) -> list[str]:
    return [name for name in names if name.startswith(f"{project}/")]


def _page(names: list[str], request: Any) -> tuple[list[str], str]:
    """Return one page of sorted names and the token of the next.

    A token is the last name of its page.
    """
    rest = [name for name in sorted(names) if name > request.page_token]
    size = min(request.page_size or MAX_PAGE, MAX_PAGE)
    page = rest[:size]
    return page, page[-1] if len(rest) > size else ""
