"""The structs of every Kubernetes answer: metadata, conditions, `Status`, lists, events, leases.

Partial on purpose: a struct names only the fields that are read; everything else in the JSON
is skipped without being built. What a caller reads of pods or workloads is declared by that caller
on top of `Record`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
_FROZEN = {"frozen": True}
# Inherited by every struct below, as msgspec does; said in this way because type checkers demand
# that each subclass repeats what they can see of it.


class Record(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, **_FROZEN):
    """Base of all partial objects: camelCase outside, snake_case inside, unknown fields skipped."""


class OwnerReference(Record):
    """Who an object belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Record):
    """The identity of an object and the little that all readers need of it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class Condition(Record):
    """One entry of ``status.conditions``; `status` is ``True``, ``False`` or ``Unknown``."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Stored(Record):
    """Any object, of which only the identity is read: the answer to a write."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class StatusDetails(Record):
    """The machine-readable part of a refusal."""

    retry_after_seconds: int = 0


class Status(Record):
    """A refusal in Kubernetes' own words (``kind: Status``)."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ListMeta(Record):
    """The state of a list: its version, and the token of its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(Record, Generic[T]):
    """One page of a list."""

    items: list[T]
    """Required: an answer without it is no list, and must never be read as an empty one."""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    left_out: tuple[str, ...] = ()
    """The UIDs of the objects that were unreadable and are not in `items`, empty where the UID is
    unreadable too; never in an answer."""


JsonObject = dict[str, Any]
"""A JSON object without a struct."""
