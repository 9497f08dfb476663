"""Reads fallback lists from text: YAML or JSON in the words of GKE's ComputeClass priorities.

A word that this project does not act on is an error, because a candidate without it would be
another one. Words: https://cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from shared.model.errors import JSON_ERRORS
from shared.model.needs import NO_RESERVATION, NodeSource, Reservation, Tier, Way

T = TypeVar("T")
_CHARACTERS_MAX = 8192  # sixteen candidates take 2,000
_MESSAGE_LENGTH_MAX = 300
FLEX_SECONDS_MIN, FLEX_SECONDS_MAX = 600, 604_800
"""Of the run time of flex-start nodes: ten minutes to seven days."""
_EXAMPLE = "a list like [{spot: true, location: {zones: [us-east5-b]}}, {}]"


class UnreadableList(ValueError):
    """The text is no fallback list; it says what is wrong, where, and what would be valid."""


class CapacityPolicy(msgspec.Struct, frozen=True):
    """The operator's list for the pods of some namespaces and accelerators."""

    ways: tuple[Way, ...]  # as the text says: without a zone or a run time where it names none
    namespaces: tuple[str, ...] = ("*",)  # patterns of namespaces
    accelerators: tuple[str, ...] = ("*",)
    """Patterns of accelerator labels, as in ``allowed_accelerators``."""


# Said in this way because type checkers demand that each subclass repeats what they can see of it.
_STRICT: Any = {"rename": "camel", "kw_only": True, "forbid_unknown_fields": True, "frozen": True}


class _SubBlock(msgspec.Struct, **_STRICT):
    name: str


class _Block(msgspec.Struct, **_STRICT):
    name: str
    reservation_sub_block: _SubBlock = _SubBlock(name="")


class _Specific(msgspec.Struct, **_STRICT):
    name: str
    project: str = ""
    reservation_block: _Block = _Block(name="")

    def name_part(self) -> Reservation:
        """Return the reservation, or the part of it that is named."""
        block = self.reservation_block
        subblock = block.reservation_sub_block.name
        return Reservation(
            name=self.name, project=self.project, block=block.name, subblock=subblock
        )


class _Reservations(msgspec.Struct, **_STRICT):
    specific: Annotated[tuple[_Specific, ...], msgspec.Meta(min_length=1)]
    affinity: Literal["Specific"] = "Specific"


class _Location(msgspec.Struct, **_STRICT):
    zones: tuple[str, ...] = ()


class _FlexStart(msgspec.Struct, **_STRICT):
    enabled: bool


class _Item(msgspec.Struct, **_STRICT):
    spot: bool = False
    flex_start: _FlexStart = _FlexStart(enabled=False)
    max_run_duration_seconds: Annotated[
        int, msgspec.Meta(ge=FLEX_SECONDS_MIN, le=FLEX_SECONDS_MAX)
    ] = 0
    reservations: _Reservations | None = None
    location: _Location = _Location()
    nodes_from: NodeSource | None = None

    def __post_init__(self) -> None:
        tiers, flexible = self._list_tiers(), self.flex_start.enabled
        if len(tiers) > 1:
            raise ValueError(f"{' and '.join(tiers)} exclude each other; valid: one of them")
        if self.max_run_duration_seconds and not flexible:
            what, valid = "is for flex-start only", "with flexStart: {enabled: true}"
            raise ValueError(f"maxRunDurationSeconds {what}; valid: {valid}")
        if flexible and self.nodes_from == NodeSource.CREATION:
            what = "is creation, but GKE fills flex-start pools by its autoscaler only"
            raise ValueError(f"nodesFrom {what}; valid: autoscaler, or no nodesFrom")

    def _list_tiers(self) -> dict[str, Tier]:
        """Return the tiers that the item names, by the word for each."""
        named = (
            ("spot", Tier.SPOT, self.spot),
            ("flexStart", Tier.FLEX_START, self.flex_start.enabled),
            ("reservations", Tier.RESERVATION, self.reservations is not None),
        )
        return {word: tier for word, tier, on in named if on}

    def list_ways(self) -> list[Way]:
        """Return one way for each zone and reservation."""
        tier = next(iter(self._list_tiers().values()), Tier.ON_DEMAND)
        way = Way(tier, run_seconds=self.max_run_duration_seconds, nodes_from=self.nodes_from)
        reserved = self.reservations.specific if self.reservations else ()
        return [
            dataclasses.replace(way, zone=zone, reservation=reservation)
            for zone in self.location.zones or ("",)
            for reservation in [each.name_part() for each in reserved] or [NO_RESERVATION]
        ]


class _Policy(msgspec.Struct, **_STRICT):
    priorities: tuple[_Item, ...]
    namespaces: tuple[str, ...] = ("*",)
    accelerators: tuple[str, ...] = ("*",)


_LEARNT = msgspec.json.Decoder(tuple[_Policy, ...])  # two threads that learn it at once crash


@lru_cache(maxsize=256)
def read_ways(text: str) -> tuple[Way, ...]:
    """Return the ways of a list, in their order; `UnreadableList` for any other text."""
    return _list_ways(_decode(text, tuple[_Item, ...]))


def read_policies(text: str) -> tuple[CapacityPolicy, ...]:
    """Return the operator's policies, in their order; `UnreadableList` for any other text."""
    return tuple(
        CapacityPolicy(_list_ways(each.priorities), each.namespaces, each.accelerators)
        for each in _decode(text, tuple[_Policy, ...])
    )


def _list_ways(items: tuple[_Item, ...]) -> tuple[Way, ...]:
    if not items:
        raise UnreadableList(f"the list is empty; valid: {_EXAMPLE}")
    return tuple(way for item in items for way in item.list_ways())


def _parse(text: str) -> object:
    """Return YAML as texts, lists and maps, so no tag, date or number fails in a way of its own.

    Aliases, with which a short text becomes a list of gigabytes, are refused.
    """
    import yaml  # noqa: PLC0415 -- felt at each start, and few deployments have a list

    try:
        if any(isinstance(each, yaml.AliasEvent) for each in yaml.parse(text, yaml.BaseLoader)):
            raise msgspec.DecodeError("aliases are not supported")
        return yaml.load(text, yaml.BaseLoader)  # noqa: S506 -- it builds nothing else
    except yaml.YAMLError as error:
        raise msgspec.DecodeError(str(error)) from error


def _decode(text: str, kind: type[T]) -> T:
    if len(text) > _CHARACTERS_MAX:
        valid = f"at most {_CHARACTERS_MAX}"
        raise UnreadableList(f"the text has {len(text)} characters; valid: {valid}")
    try:
        return msgspec.convert(_parse(text), type=kind, strict=False)
    except JSON_ERRORS as error:
        text = " ".join(str(error).split())[:_MESSAGE_LENGTH_MAX]
        message, _, place = text.partition(" - at `$")
        problem, _, valid = message.partition("; valid: ")
        where = f" at {place.rstrip('`')}" if place else ""
        raise UnreadableList(f"{problem}{where}; valid: {valid or _EXAMPLE}") from error
