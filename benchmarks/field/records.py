"""What one run leaves behind, and the figures that follow from it. Pure."""

from collections import Counter
from enum import StrEnum

import msgspec

CREATE, DELETE = "CreateNodePool", "DeleteNodePool"
ACCEPTED = "OK"


class Side(StrEnum):
    """Whose provisioner a run measures."""

    OURS = "ours"
    GO = "go"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of GKE, as the fake GKE recorded it; `at` is Unix seconds."""

    method: str
    pool: str
    code: str
    at: float


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of one process and its children, in MiB."""

    largest: float
    """The highest resident size of any one of them."""
    together: float
    """The highest resident size of all, shared pages divided among those that share them."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One run: a JobSet from its creation until the last of its pools is gone.

    Times are Unix seconds.
    """

    side: Side
    slices: int
    killed_at: float = 0.0
    """When the provisioner's processes were killed, to be started again; 0: they were not."""
    applied_at: float
    unschedulable: dict[str, float]
    """When each slice's leader was first seen unschedulable, by Job."""
    slice_of_pool: dict[str, str]
    """The Job whose pods ran on each pool."""
    over_at: float
    """When the JobSet was first seen completed."""
    calls: list[Call]
    memory: dict[str, Memory]
    """By process."""
    program: str = ""
    """Version and commit of the provisioner."""
    machine: str = ""
    load: float = 0.0
    """Mean number of this machine's processes that wanted a core, over the minute before."""


class FanOut(msgspec.Struct, frozen=True, kw_only=True):
    """One run of many leaders at once, under a limit of operations."""

    limit: int
    leaders: int
    speed: float
    operation_seconds: float
    """Virtual seconds for which each create takes one place."""
    started_at: float
    accepted_at: list[float]
    """When each create was accepted, in order."""
    refused: int
    """Creates that GKE refused because of the limit."""
    machine: str = ""
    load: float = 0.0


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one run, in seconds."""

    first_create: float
    last_create: float
    first_delete: float | None
    last_delete: float | None
    """None until all pools are deleted."""
    deleted: int
    calls_per_slice: float
    """Of GKE's API."""
    reads_per_slice: float
    """Of Compute Engine's API, which has a quota of its own."""
    calls: dict[str, int]
    refused: int
    """Calls that GKE answered with an error other than NOT_FOUND."""
    pools: int
    """Pools that were created, over the whole run."""


def derive_figures(record: Record) -> Figures:
    """Return the figures of a run.

    Raises ValueError: the run has no unschedulable leader, or no accepted create.
    """
    if not record.unschedulable:
        raise ValueError("unschedulable: is empty; no leader was seen unschedulable")
    calls = list_own_calls(record)
    creates, deletes = find_accepted(calls, CREATE), find_accepted(calls, DELETE)
    if not creates:
        raise ValueError("calls: has no accepted create")
    reads = sum(each.method.startswith("compute.") for each in calls)
    begin = min(record.unschedulable.values())
    after = sorted(at - record.over_at for at in deletes.values()) if record.over_at else []
    complete = len(after) >= max(record.slices, len(creates))
    return Figures(
        first_create=min(creates.values()) - begin,
        last_create=max(creates.values()) - begin,
        first_delete=after[0] if after else None,
        last_delete=after[-1] if complete else None,
        deleted=len(deletes),
        calls_per_slice=(len(calls) - reads) / record.slices,
        reads_per_slice=reads / record.slices,
        calls=dict(sorted(Counter(each.method for each in calls).items())),
        refused=sum(each.code not in (ACCEPTED, "NOT_FOUND") for each in calls),
        pools=sum(each.method == CREATE and each.code == ACCEPTED for each in calls),
    )


def list_own_calls(record: Record) -> list[Call]:
    """Return the calls since the JobSet was applied."""
    return [each for each in record.calls if each.at >= record.applied_at]


def find_accepted(calls: list[Call], method: str) -> dict[str, float]:
    """Return when the first call of this method was accepted, by pool."""
    found: dict[str, float] = {}
    for each in calls:
        if each.method == method and each.code == ACCEPTED:
            found.setdefault(each.pool, each.at)
    return found


def find_minimum_seconds(leaders: int, limit: int, operation_seconds: float) -> float:
    """Return the shortest time until the last of so many creates can be accepted.

    GKE accepts `limit` creates at once, and one more when one of them ends.
    """
    rounds = -(-leaders // limit) - 1
    return rounds * operation_seconds
