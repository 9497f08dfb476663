"""Reads lists of capacity from text: YAML or JSON in the words of GKE's ComputeClass priorities.

A word that this project does not act on is an error, because a candidate without it would be
another one. Words: https://cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import msgspec

from shared.json_text import JSON_ERRORS
from shared.model.needs import CapacityPolicy, NodeSource, Priority, Reservation, Tier

T = TypeVar("T")
_CHARACTERS_MAX = 8192
"""Sixteen candidates take 2,000."""
_MESSAGE_LENGTH_MAX = 300
_TIERS = {"spot": Tier.SPOT, "flexStart": Tier.FLEX_START, "reservations": Tier.RESERVATION}
_EXAMPLE = "a list like [{spot: true, location: {zones: [us-east5-b]}}, {}]"


class UnreadableList(ValueError):
    """The text is no list of capacity; it says what is wrong, where, and what would be valid."""


class _Words(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    pass


class _SubBlock(_Words):
    name: str


class _Block(_Words):
    name: str
    reservation_sub_block: _SubBlock | None = None


class _Specific(_Words):
    name: str
    project: str = ""
    reservation_block: _Block | None = None


class _Reservations(_Words):
    specific: tuple[_Specific, ...]
    affinity: str = "Specific"


class _Location(_Words):
    zones: tuple[str, ...] = ()


class _FlexStart(_Words):
    enabled: bool


class _Item(_Words):
    spot: bool = False
    flex_start: _FlexStart | None = None
    max_run_duration_seconds: int | None = None
    reservations: _Reservations | None = None
    location: _Location | None = None
    nodes_from: NodeSource | None = None


class _Policy(_Words):
    priorities: tuple[_Item, ...]
    namespaces: tuple[str, ...] = ("*",)
    accelerators: tuple[str, ...] = ("*",)


@lru_cache(maxsize=256)
def read_priorities(text: str) -> tuple[Priority, ...]:
    """Return the items of a list, in their order.

    Raises:
        UnreadableList: the text is no such list.
    """
    return _read_items(_decode(text, tuple[_Item, ...]))


def read_policies(text: str) -> tuple[CapacityPolicy, ...]:
    """Return the operator's policies, in their order.

    Raises:
        UnreadableList: the text is no list of policies.
    """
    return tuple(
        CapacityPolicy(
            namespaces=each.namespaces,
            accelerators=each.accelerators,
            priorities=_read_items(each.priorities),
        )
        for each in _decode(text, tuple[_Policy, ...])
    )


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
        raise UnreadableList(
            f"the text has {len(text)} characters; valid: at most {_CHARACTERS_MAX}"
        )
    try:
        return msgspec.convert(_parse(text), type=kind, strict=False)
    except JSON_ERRORS as error:
        message, _, place = " ".join(str(error).split())[:_MESSAGE_LENGTH_MAX].partition(" - at `$")
        where = f" at {place.rstrip('`')}" if place else ""
        raise UnreadableList(f"{message}{where}; valid: {_EXAMPLE}") from error


def _read_items(items: tuple[_Item, ...]) -> tuple[Priority, ...]:
    if not items:
        raise UnreadableList(f"the list is empty; valid: {_EXAMPLE}")
    return tuple(_read_item(number, each) for number, each in enumerate(items))


def _read_item(number: int, item: _Item) -> Priority:
    choice, flexible = item.reservations, item.flex_start is not None and item.flex_start.enabled
    if choice is not None and (choice.affinity != "Specific" or not choice.specific):
        valid = "affinity: Specific, with at least one name in specific"
        raise UnreadableList(f"the reservations at [{number}] name none; valid: {valid}")
    ways = {"spot": item.spot, "flexStart": flexible, "reservations": choice is not None}
    tiers = [name for name in ways if ways[name]]
    if len(tiers) > 1:
        raise UnreadableList(
            f"{' and '.join(tiers)} at [{number}] exclude each other; valid: one of them"
        )
    if item.max_run_duration_seconds is not None and not flexible:
        raise UnreadableList(
            f"maxRunDurationSeconds at [{number}] is for flex-start only; valid: with "
            "flexStart: {enabled: true}"
        )
    if flexible and item.nodes_from == NodeSource.CREATION:
        raise UnreadableList(
            f"nodesFrom at [{number}] is creation, but GKE fills flex-start pools by its "
            "autoscaler only; valid: autoscaler, or no nodesFrom"
        )
    return Priority(
        tier=_TIERS[tiers[0]] if tiers else Tier.ON_DEMAND,
        run_seconds=item.max_run_duration_seconds,
        reservations=tuple(_read_reservation(each) for each in choice.specific) if choice else (),
        zones=item.location.zones if item.location else (),
        nodes_from=item.nodes_from,
    )


def _read_reservation(item: _Specific) -> Reservation:
    block = item.reservation_block
    subblock = block.reservation_sub_block if block else None
    return Reservation(
        name=item.name,
        project=item.project,
        block=block.name if block else "",
        subblock=subblock.name if subblock else "",
    )
