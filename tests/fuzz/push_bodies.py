"""Pub/Sub pushes: every body ends decided, kept as a dead letter, or handed back to be retried."""

import base64
import dataclasses
from dataclasses import dataclass
from typing import Any, cast

from google.pubsub_v1.services.publisher import PublisherClient
from google.pubsub_v1.types import PublishRequest, PublishResponse, PubsubMessage

from shared.core.errors import MalformedEvent
from shared.core.messages import Event, ObjectName, format_message
from shared.edges.pubsub_topic import PubsubTopic
from shared.push import parse_push
from tests.builders import CLUSTER, a_demand_event, a_pool, a_push, a_workload_demand, an_over_event
from tests.component.world import World
from tests.fuzz.border import Border, Lost
from tests.fuzz.recording import recording
from tests.fuzz.spoiling import Recipe, spoil, spoil_text, write

_OTHER = ObjectName(kind="RayCluster", namespace="team-a", name="serving", uid="0f9c")
_EVENTS: tuple[Event, ...] = (
    a_demand_event(),
    dataclasses.replace(a_demand_event(), workload=None, incarnation="7"),
    a_workload_demand(),
    a_workload_demand(uid=""),
    an_over_event(),
    an_over_event("scaled", incarnation="generation 4"),
    dataclasses.replace(an_over_event("deleted"), subject=_OTHER),
    dataclasses.replace(a_demand_event(), cluster=CLUSTER.replace("/p/", "/q/")),
)
_POOL = a_pool()
_DATA = tuple(format_message(event).data for event in _EVENTS)
_ENVELOPES = tuple(a_push(event) for event in _EVENTS)


class CannedPublisher:
    """Stores what is published, as it goes over the wire."""

    def __init__(self) -> None:
        self.sent: list[PubsubMessage] = []

    def open(self) -> PublisherClient:
        return cast("PublisherClient", self)

    def publish(self, request: dict[str, Any], *, retry: None, timeout: float) -> PublishResponse:
        del retry, timeout
        sent = PublishRequest.deserialize(PublishRequest.serialize(PublishRequest(request)))
        self.sent += sent.messages
        return PublishResponse(message_ids=[str(number) for number in range(len(sent.messages))])


@dataclass(frozen=True, slots=True)
class Pushed:
    """One push, and what it meets."""

    body: bytes
    function: str
    has_pool: bool
    keeps_dead_letters: bool


def _build(recipe: Recipe) -> Pushed:
    which = recipe.number(len(_EVENTS))
    data = spoil_text(recipe, write(spoil(recipe, _DATA[which])))
    envelope: Any = spoil(recipe, _ENVELOPES[which], changes_max=recipe.choose((0, 0, 2)))
    body = _fill(envelope, data)
    return Pushed(
        body=spoil_text(recipe, body) if recipe.number(4) == 1 else body,
        function=recipe.choose(("provision", "collect")),
        has_pool=bool(recipe.number(2)),
        keeps_dead_letters=recipe.number(8) != 1,
    )


def _fill(envelope: Any, data: bytes) -> bytes:
    """Return the text of an envelope around some data, if it still has a place for data."""
    message = envelope.get("message") if isinstance(envelope, dict) else None
    if isinstance(message, dict) and isinstance(message.get("data"), str):
        message["data"] = base64.b64encode(data).decode()
    return write(envelope)


def _check(pushed: Pushed) -> None:
    publisher = CannedPublisher()
    with recording() as records:
        world = World(records, keep_dead_letters=pushed.keeps_dead_letters)
        if pushed.has_pool:
            world.pools.add(CLUSTER, _POOL)
        ports = world.ports
        if pushed.keeps_dead_letters:
            topic = PubsubTopic(publisher.open, "projects/p/topics/dead")
            world.ports = dataclasses.replace(ports, dead_letters=topic)
        answer = world.deliver(pushed.body, pushed.function)
    messages = [record for record in records.found if record.get("logger") == "functions"]
    if len(messages) != 1 or not messages[0].get("reason"):
        raise Lost(f"answered {answer.status} with these records: {messages}")
    decided = messages[0]["decision"] not in ("reject", "none")
    if answer.status < 300 and not decided and not _is_kept(publisher.sent, pushed):
        raise Lost(f"acknowledged without a decision, and not kept: {messages}")
    if decided and publisher.sent:
        raise Lost("decided and kept: the message would be delivered once more")


def _is_kept(sent: list[PubsubMessage], pushed: Pushed) -> bool:
    """Return whether the whole message is among the dead letters, with the reason."""
    if len(sent) != 1:
        return False
    whole = sent[0].data in (pushed.body[:1_000_000], _read_data(pushed.body))
    return whole and bool(sent[0].attributes.get("tpu-provisioner-reason"))


def _read_data(body: bytes) -> bytes:
    """Return the data of a push that its reader accepts as an envelope."""
    try:
        return parse_push(body).message.data
    except MalformedEvent:
        return body


def _show(pushed: Pushed) -> str:
    return f"{pushed.function}, pool={pushed.has_pool}, dead letters={pushed.keeps_dead_letters}: {pushed.body!r}"


PUSH_BODIES = Border(name="push", share=0.42, build=_build, check=_check, show=_show)
