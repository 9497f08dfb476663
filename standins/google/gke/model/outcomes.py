"""How a create ends after it was accepted.

The texts and codes of asynchronous failures, and what is left behind.

The texts follow failures of real clusters as reported in public issues, for example
https://github.com/GoogleCloudPlatform/cluster-toolkit/pull/6278 (stockout) and
https://github.com/AI-Hypercomputer/xpk/issues/751 (node count and topology).
"""

from dataclasses import dataclass

from standins.google.errors import Code
from standins.google.gke.faults.fault_rules import Outcome
from standins.google.gke.faults.scenario import Timings
from standins.google.gke.model.causes import Cause, find_cause
from standins.google.gke.model.operations import Failure
from standins.google.gke.model.proto_messages import PoolStatus, reservation_of
from standins.google.gke.model.state import PoolRecord
from standins.google.gke.resource_names import ClusterName

_GCE = "Google Compute Engine: "


@dataclass(frozen=True)
class CreateResult:
    """What a create comes to.

    Nodes up, final status, failure, and the time it takes (None: draw it).
    """

    nodes: int
    status: int = int(PoolStatus.RUNNING)
    failure: Failure | None = None
    seconds: float | None = None
    holds_capacity: bool = True
    kind: str = ""
    """Why instances cannot be made: a kind of `causes`; empty where that is not the reason."""
    fault: Outcome | None = None
    """What keeps them from being made although there are machines."""


def result_of(fault: Outcome, pool: PoolRecord, cluster: ClusterName, typical_seconds: float) -> CreateResult:
    """Return the result that an `outcome` fault asks for."""
    if fault.kind == "ok":
        return CreateResult(pool.planned_nodes, seconds=fault.seconds)
    nodes = min(fault.nodes, pool.planned_nodes) if fault.kind == "partial" else 0
    status = PoolStatus.RUNNING_WITH_ERROR if nodes else PoolStatus.ERROR
    if fault.status is not None:
        status = PoolStatus[fault.status]
    kind = kind_of(fault)
    seconds = fault.seconds if fault.seconds is not None else typical_seconds
    return CreateResult(
        nodes,
        int(status),
        failure_of(kind, pool, cluster, (nodes, seconds)),
        seconds,
        holds_capacity=kind not in ("stockout", "quota", "reservation"),
        kind="" if kind == "invalid" else kind,
        fault=fault,
    )


def kind_of(fault: Outcome) -> str:
    """Return the kind of cause of an `outcome` fault: a part of the nodes lacks machines too."""
    return "stockout" if fault.kind == "partial" else fault.kind


def wrong_gang_size(pool: PoolRecord, timings: Timings) -> CreateResult:
    """Return the result of a slice whose node count does not fit its topology."""
    text = (
        f"{_GCE}Invalid value for field 'resource.resizeBy': '{pool.planned_nodes}'. Requested invalid target "
        f"size '{pool.planned_nodes}' for a Managed Instance Group in the gang mode of size '{pool.shape.hosts}'. "
        "Should be equal to the gang size."
    )
    return CreateResult(
        0,
        int(PoolStatus.ERROR),
        Failure(Code.INVALID_ARGUMENT, text, text),
        timings.late_failure,
        holds_capacity=False,
    )


def shortage_kind(pool: PoolRecord) -> str:
    """Return the kind of cause for a pool that lacks machines: a stockout, or its reservation."""
    return "reservation" if reservation_of(pool.message) else "stockout"


def try_seconds(kind: str, pool: PoolRecord, timings: Timings, jitter: float) -> float:
    """Return how long GKE tries before an operation fails by this kind of cause."""
    if kind != "stockout":
        return timings.late_failure
    return jitter + (timings.stockout_atomic if pool.shape.atomic else timings.stockout)


def failure_of(kind: str, pool: PoolRecord, cluster: ClusterName, seen: tuple[int, float]) -> Failure:
    """Return GKE's words on a pool with so many nodes after so many seconds."""
    cause = find_cause(kind, pool, cluster)
    running, seconds = seen
    summary = _summary(pool, cause, running, _describe_duration(seconds))
    return Failure(cause.code, cause.text, summary, cause.condition)


def _summary(pool: PoolRecord, cause: Cause, running: int, waited: str) -> str:
    if not cause.bracketed:
        return f"{_GCE}{cause.text}"
    if pool.shape.atomic and not running:
        return f"{_GCE}Atomic resize failed with [{cause.bracketed}]: {cause.text}"
    planned = pool.target or pool.planned_nodes
    return (
        f"{_GCE}Not all instances running in IGM after {waited}. Expected {planned}, running {running}, "
        f"transitioning {planned - running}. Current errors: [{cause.bracketed}]: {cause.text}"
    )


def _describe_duration(seconds: float) -> str:
    """Return a duration as Go writes it: 35m4.123s."""
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{minutes:.0f}m{rest:.6g}s" if minutes else f"{rest:.6g}s"
