"""Pub/Sub pushes: every body ends decided, refused with its text, or handed back to be retried."""

import base64
import dataclasses
from dataclasses import dataclass
from typing import Any

from shared.model.errors import MalformedEvent
from shared.model.messages import Event, ObjectName, format_message
from shared.push import parse_push
from tests.builders import CLUSTER, a_demand_event, a_pool, a_push, a_workload_demand, an_over_event
from tests.component.world import World
from tests.fuzz.border import Border, Lost
from tests.fuzz.recording import recording
from tests.fuzz.spoiling import Recipe, spoil, spoil_text, write

_OTHER = ObjectName(kind="RayCluster", namespace="team-a", name="serving", uid="0f9c")
_EVENTS: tuple[Event, ...] = (
    a_demand_event(),
    dataclasses.replace(a_demand_event(), incarnation="7"),
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


@dataclass(frozen=True, slots=True)
class Pushed:
    """One push, and what it meets."""

    body: bytes
    function: str
    has_pool: bool


def _build(recipe: Recipe) -> Pushed:
    which = recipe.number(len(_EVENTS))
    data = spoil_text(recipe, write(spoil(recipe, _DATA[which])))
    envelope: Any = spoil(recipe, _ENVELOPES[which], changes_max=recipe.choose((0, 0, 2)))
    body = _fill(envelope, data)
    return Pushed(
        body=spoil_text(recipe, body) if recipe.number(4) == 1 else body,
        function=recipe.choose(("provision", "collect")),
        has_pool=bool(recipe.number(2)),
    )


def _fill(envelope: Any, data: bytes) -> bytes:
    """Return the text of an envelope around some data, if it still has a place for data."""
    message = envelope.get("message") if isinstance(envelope, dict) else None
    if isinstance(message, dict) and isinstance(message.get("data"), str):
        message["data"] = base64.b64encode(data).decode()
    return write(envelope)


def _check(pushed: Pushed) -> None:
    with recording() as records:
        world = World(records)
        if pushed.has_pool:
            world.pools.add(CLUSTER, _POOL)
        answer = world.deliver(pushed.body, pushed.function)
    messages = [record for record in records.found if record.get("logger") == "functions"]
    if len(messages) != 1 or not messages[0].get("reason"):
        raise Lost(f"answered {answer.status} with these records: {messages}")
    (message,) = messages
    decided = message["decision"] not in ("reject", "none")
    if answer.status < 300 and not decided and not _has_data(message, pushed):
        raise Lost(f"acknowledged without a decision, and not in the log: {messages}")
    if decided and "event_data" in message:
        raise Lost("decided and refused")


def _has_data(record: dict[str, Any], pushed: Pushed) -> bool:
    """Return whether the record of a refusal has the message, as far as it is not cut."""
    kept = record.get("event_data", "").partition("… (")[0]
    return record["decision"] == "reject" and any(
        each[:8192].decode(errors="replace").startswith(kept) for each in (pushed.body, _read_data(pushed.body))
    )


def _read_data(body: bytes) -> bytes:
    """Return the data of a push that its reader accepts as an envelope."""
    try:
        return parse_push(body).message.data
    except MalformedEvent:
        return body


def _show(pushed: Pushed) -> str:
    return f"{pushed.function}, pool={pushed.has_pool}: {pushed.body!r}"


PUSH_BODIES = Border(name="push", share=0.42, build=_build, check=_check, show=_show)
