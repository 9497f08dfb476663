"""Fault switches: whom each fault is for, and how often it fires. Effects are elsewhere.

A fault is one mapping: `switch` names it, `pool`, `cluster`, `method`, `zone`, `tier`,
`machine_type` are glob patterns that narrow it, `nth` skips the first matches, `count` bounds the
firings (null = no bound). `switches.yaml` has the settings of each. Unknown switches and settings
are refused by name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from standins.google.errors import Code

SWITCHES: dict[str, dict[str, Any]] = yaml.load(
    Path(__file__).with_name("switches.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
"""By switch: its settings, and what they are by default."""
_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class FaultError(ValueError):
    """A fault that cannot be put in force; says what is wrong and what would be valid."""


class Fault(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One fault, with the settings of its switch."""

    switch: str
    pool: str = "*"
    cluster: str = "*"
    method: str = "*"
    zone: str = "*"
    tier: str = "*"
    machine_type: str = "*"
    nth: _AtLeastOne = 1
    count: _AtLeastOne | None = None
    code: str = ""
    reason: str = ""
    text: str = ""
    how: Literal["", "drop", "unavailable", "deadline"] = ""
    value: int = 0
    seconds: float | None = 0.0
    delay: float = 0.0
    type: Literal["", "UPGRADE_MASTER", "UPDATE_CLUSTER", "REPAIR_CLUSTER", "RESIZE_CLUSTER"] = ""
    kind: Literal["", "stockout", "quota", "ip", "reservation", "internal", "permission", "org_policy"] = ""
    nodes: int = 0
    copies: int = 1
    operation: Literal["", "create", "delete"] = ""


_OF_ALL = tuple(Fault.__struct_fields__)[: Fault.__struct_fields__.index("code")]


@dataclass(frozen=True)
class Target:
    """What a call or an operation is about, as far as faults can tell: they have patterns of it."""

    cluster: str = ""
    pool: str = ""
    method: str = ""
    zone: str = ""
    tier: str = ""
    machine_type: str = ""


@dataclass
class Armed:
    """A fault that was added, with its id and how often it matched and fired."""

    number: int
    fault: Fault
    matched: int = 0
    fired: int = 0


def parse_fault(raw: object) -> Fault:
    """Return the fault that a mapping describes.

    Raises FaultError naming what is wrong and what is valid.
    """
    switch = raw.get("switch") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or switch not in SWITCHES:
        raise FaultError(f"unknown switch {switch!r}; valid switches: {', '.join(sorted(SWITCHES))}")
    valid = f"valid fields: {', '.join(sorted({*_OF_ALL, *SWITCHES[switch]}))}"
    if foreign := sorted(set(raw) - {*_OF_ALL, *SWITCHES[switch]}):
        raise FaultError(f"switch {switch!r}: has no {', '.join(foreign)}; {valid}")
    try:
        fault = msgspec.convert({**SWITCHES[switch], **raw}, Fault)
    except msgspec.ValidationError as error:
        raise FaultError(f"switch {switch!r}: {error}; {valid}") from error
    if fault.code and fault.code not in Code.__members__:
        raise FaultError(f"code: {fault.code!r} is none of {', '.join(Code.__members__)}")
    return fault


class FaultPlan:
    """The faults in force, in the order they were added; of two that match, the first wins."""

    def __init__(self, faults: list[Fault] | None = None) -> None:
        self._armed: list[Armed] = []
        self._last_number = 0
        for fault in faults or []:
            self.add(fault)

    def add(self, fault: Fault) -> Armed:
        """Put a fault in force and return it with its number."""
        self._last_number += 1
        self._armed.append(Armed(self._last_number, fault))
        return self._armed[-1]

    def clear(self, number: int | None = None) -> int:
        """Remove one fault, or all; return how many were removed."""
        before = len(self._armed)
        self._armed = [armed for armed in self._armed if number is not None and armed.number != number]
        return before - len(self._armed)

    def take(self, switch: str, target: Target, only: Callable[[Fault], bool] | None = None) -> Fault | None:
        """Return the first fault of this switch that fires for the target, counting it, or None.

        `only` narrows further, by the fault's own settings.
        """
        for armed in self._armed:
            fault = armed.fault
            if not _matches(fault, switch, target) or (only and not only(fault)):
                continue
            armed.matched += 1
            if armed.matched >= fault.nth and (fault.count is None or armed.fired < fault.count):
                armed.fired += 1
                return fault
        return None

    def find(self, switch: str, target: Target) -> Fault | None:
        """Return the first fault of a switch in force for the target, without counting, or None."""
        for armed in self._armed:
            fault = armed.fault
            spent = fault.count is not None and armed.fired >= fault.count
            if not spent and _matches(fault, switch, target):
                return fault
        return None

    def holds(self, fault: Fault) -> bool:
        """Return whether a fault was not cleared, also when it has fired as often as it may."""
        return any(armed.fault is fault for armed in self._armed)


def _matches(fault: Fault, switch: str, target: Target) -> bool:
    patterns = (fnmatchcase(value, getattr(fault, name)) for name, value in vars(target).items())
    return fault.switch == switch and all(patterns)
