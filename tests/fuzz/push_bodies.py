"""Pub/Sub pushes: every body ends decided, refused with its text, or handed back to be retried."""

import base64
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from shared.deliver import parse_push
from shared.engine.reconcile import Role
from shared.model.errors import Rejected
from shared.model.messages import Event, format_message
from shared.model.names import ObjectName
from tests.builders import CLUSTER, a_demand_event, a_pool, a_push, a_workload_demand, an_over_event
from tests.engine.world import World
from tests.fuzz.border import Border, Lost
from tests.fuzz.deliveries import ROLES, push
from tests.fuzz.recording import recording
from tests.fuzz.spoiling import Recipe, spoil, spoil_text, write

_OTHER = ObjectName(kind="RayCluster", namespace="team-a", name="serving", uid="0f9c")
_EVENTS: tuple[Event, ...] = (
    a_demand_event(),
    structs.replace(a_demand_event(), cause="7"),
    a_workload_demand(),
    a_workload_demand(uid=""),
    an_over_event(),
    an_over_event("scaled, generation 4"),
    structs.replace(an_over_event("deleted"), subject=_OTHER),
    structs.replace(a_demand_event(), cluster=CLUSTER.replace("/p/", "/q/")),
)
_POOL = a_pool()
_DATA = tuple(format_message(event).data for event in _EVENTS)
_ENVELOPES = tuple(a_push(event) for event in _EVENTS)


@dataclass(frozen=True, slots=True)
class Pushed:
    """One push, and what it meets."""

    body: bytes
    role: Role
    has_pool: bool


def _build(recipe: Recipe) -> Pushed:
    which = recipe.number(len(_EVENTS))
    data = spoil_text(recipe, write(spoil(recipe, _DATA[which])))
    envelope: Any = spoil(recipe, _ENVELOPES[which], changes_max=recipe.choose((0, 0, 2)))
    body = _fill(envelope, data)
    return Pushed(
        body=spoil_text(recipe, body) if recipe.number(4) == 1 else body,
        role=recipe.choose(ROLES),
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
        world = World()
        world.wait(0)
        if pushed.has_pool:
            world.gke.pools[_POOL.name] = _POOL
        answer = push(world, pushed.role, pushed.body)
    messages = [record for record in records.found if record.get("logger") == "functions"]
    if not all(message.get("reason") for message in messages if "decision" in message):
        raise Lost(f"answered {answer.status} with these records: {messages}")
    refused = [message for message in messages if message.get("decision") == "reject"]
    if refused and (len(messages) > 1 or answer.status >= 300 or not _has_data(refused[0], pushed)):
        raise Lost(f"refused, answered {answer.status}, and not kept in the log: {messages}")
    if answer.status >= 300 and not any(message.get("decision") == "none" for message in messages):
        raise Lost(f"answered {answer.status} without the error in the log: {messages}")


def _has_data(record: dict[str, Any], pushed: Pushed) -> bool:
    """Return whether the record of a refusal has the message, as far as it is not cut."""
    kept = record.get("event_data", "").partition("… (")[0]
    return any(
        each[:8192].decode(errors="replace").startswith(kept) for each in (pushed.body, _read_data(pushed.body))
    )


def _read_data(body: bytes) -> bytes:
    """Return the data of a push that its reader accepts as an envelope."""
    try:
        return parse_push(body).message.data
    except Rejected:
        return body


def _show(pushed: Pushed) -> str:
    return f"{pushed.role}, pool={pushed.has_pool}: {pushed.body!r}"


PUSH_BODIES = Border(name="push", share=0.42, build=_build, check=_check, show=_show)
