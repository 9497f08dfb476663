"""Fault switches as data: which there are, whom each is for, and how often it fires.

Effects are elsewhere. A fault is one mapping: `switch` names it, `pool`, `cluster`, `method`,
`zone`, `tier`, `machine_type` are glob patterns that narrow it, `nth` skips the first matches,
`count` bounds the firings (null = no bound). Unknown switches and fields are refused by name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar

import msgspec

from standins.google.errors import Code

Answer = Literal["precondition", "exists"]


class FaultError(ValueError):
    """A fault that cannot be put in force; says what is wrong and what would be valid."""


class Fault(msgspec.Struct, tag_field="switch", forbid_unknown_fields=True, kw_only=True):
    """What every fault has: whom it is for, from which match on, and how often."""

    pool: str = "*"
    cluster: str = "*"
    method: str = "*"
    zone: str = "*"
    tier: str = "*"
    machine_type: str = "*"
    nth: int = 1
    count: int | None = None


class FailSync(Fault, tag="fail_sync", kw_only=True):
    """Reject the next `count` matching calls with `code`, `reason` and `text`."""

    count: int | None = 1
    code: str = "UNAVAILABLE"
    reason: str = ""
    text: str = "The service is currently unavailable."


class LoseReply(Fault, tag="lose_reply", kw_only=True):
    """Do the call, then `drop` the connection or answer `unavailable` (503) or `deadline` (504)."""

    count: int | None = 1
    method: str = "[CDSU]*"
    how: Literal["drop", "unavailable", "deadline"] = "drop"


class DupCreateInflight(Fault, tag="dup_create_inflight", kw_only=True):
    """Choose the answer to a create while the same pool is being created (default precondition)."""

    answer: Answer = "exists"


class CreateWhileStopping(Fault, tag="create_while_stopping", kw_only=True):
    """Choose the answer to a create while the same pool is being deleted (default precondition)."""

    answer: Answer = "exists"


class BadNodeCount(Fault, tag="bad_node_count", kw_only=True):
    """Refuse a node count that does not fit the TPU topology, `sync` (default) or `async`."""

    answer: Literal["sync", "async"] = "async"


class MaxRunningOps(Fault, tag="max_running_ops", kw_only=True):
    """Let at most `value` operations of a cluster run (default 20); further ones stay PENDING."""

    value: int = 20


class MaxInflightOps(Fault, tag="max_inflight_ops", kw_only=True):
    """Answer 429 above `value` open operations of a cluster (default 100; 5 reproduces 2023)."""

    value: int = 5


class ClusterBusy(Fault, tag="cluster_busy", kw_only=True):
    """Start a cluster-level operation `type` of `seconds` at the next call."""

    count: int | None = 1
    seconds: float = 300.0
    type: Literal["UPGRADE_MASTER", "UPDATE_CLUSTER", "REPAIR_CLUSTER", "RESIZE_CLUSTER"] = "UPGRADE_MASTER"


class Outcome(Fault, tag="outcome", kw_only=True):
    """Let no node of a pool be made: creates end as `kind`, after `seconds` (null = typical)."""

    kind: Literal["stockout", "quota", "ip", "reservation", "internal", "permission", "org_policy"] = "stockout"
    seconds: float | None = None


class ReadLag(Fault, tag="read_lag", kw_only=True):
    """Let get and list show each change only `seconds` later."""

    seconds: float = 10.0


class StaleList(Fault, tag="stale_list", kw_only=True):
    """Let list show each change only `seconds` later, a new pool not before it is `created`."""

    seconds: float = 10.0
    created: bool = True


class Get404AfterCreate(Fault, tag="get_404_after_create", kw_only=True):
    """Answer 404 to the first `count` gets of a pool that exists."""

    count: int | None = 1


class OpGc(Fault, tag="op_gc", kw_only=True):
    """Forget operations `seconds` after their end (default 24 hours): get answers 404."""

    seconds: float = 0.0


class LateNodes(Fault, tag="late_nodes", kw_only=True):
    """Register the last `nodes` nodes of a pool `seconds` after its create operation ended."""

    nodes: int = 1
    seconds: float = 60.0


class AuditEntries(Fault, tag="audit_entries", kw_only=True):
    """Write an audit log entry `copies` times (0: it is lost), `delay` seconds later than usual."""

    copies: int = 1
    delay: float = 0.0


class Duration(Fault, tag="duration", kw_only=True):
    """Make `operation` (create or delete) take exactly `seconds`."""

    operation: Literal["create", "delete"] = "create"
    seconds: float = 60.0


F = TypeVar("F", bound=Fault)
SWITCHES: dict[str, type[Fault]] = {str(kind.__struct_config__.tag): kind for kind in Fault.__subclasses__()}


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
    if switch not in SWITCHES:
        raise FaultError(f"unknown switch {switch!r}; valid switches: {', '.join(sorted(SWITCHES))}")
    try:
        fault = msgspec.convert(raw, SWITCHES[switch])
    except msgspec.ValidationError as error:
        fields = ", ".join(sorted(SWITCHES[switch].__struct_fields__))
        raise FaultError(f"switch {switch!r}: {error}; valid fields: {fields}") from error
    if fault.nth < 1 or (fault.count is not None and fault.count < 1):
        raise FaultError(f"switch {switch!r}: nth ({fault.nth}) and count ({fault.count}) must be 1 or more")
    if isinstance(fault, FailSync) and fault.code not in Code.__members__:
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

    def listed(self) -> list[dict[str, Any]]:
        """Return every fault as plain data, with its number and counters."""
        return [
            {"number": armed.number, **msgspec.to_builtins(armed.fault), "fired": armed.fired}
            for armed in self._armed
        ]

    def take(self, kind: type[F], target: Target, only: Callable[[F], bool] | None = None) -> F | None:
        """Return the first fault of this kind that fires for the target, counting it, or None.

        `only` narrows further, by the fault's own settings.
        """
        for armed in self._armed:
            fault = armed.fault
            if not isinstance(fault, kind) or not _matches(fault, target) or (only and not only(fault)):
                continue
            armed.matched += 1
            if armed.matched >= fault.nth and (fault.count is None or armed.fired < fault.count):
                armed.fired += 1
                return fault
        return None

    def in_force(self, usual: F, target: Target) -> F:
        """Return the first fault of a kind in force for the target, without counting.

        `usual` where there is none: a fault that changes nothing.
        """
        for armed in self._armed:
            fault = armed.fault
            spent = fault.count is not None and armed.fired >= fault.count
            if isinstance(fault, type(usual)) and not spent and _matches(fault, target):
                return fault
        return usual

    def holds(self, fault: Fault) -> bool:
        """Return whether a fault was not cleared, also when it has fired as often as it may."""
        return any(armed.fault is fault for armed in self._armed)


def _matches(fault: Fault, target: Target) -> bool:
    return all(fnmatchcase(value, getattr(fault, name)) for name, value in vars(target).items())
