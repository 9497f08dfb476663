"""How a create ends after it was accepted.

The texts and codes of asynchronous failures, and what is left behind.

The texts follow failures of real clusters as reported in public issues, for example
https://github.com/GoogleCloudPlatform/cluster-toolkit/pull/6278 (stockout) and
https://github.com/AI-Hypercomputer/xpk/issues/751 (node count and topology).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from standins.fakegke.errors import Code
from standins.fakegke.model.operations import Failure
from standins.fakegke.model.proto_messages import ConditionCode, PoolStatus, reservation_of
from standins.fakegke.resource_names import region_of

if TYPE_CHECKING:
    from standins.fakegke.faults.fault_rules import Outcome
    from standins.fakegke.faults.scenario import Timings
    from standins.fakegke.model.state import PoolRecord
    from standins.fakegke.resource_names import ClusterName

_GCE = "Google Compute Engine: "


@dataclass(frozen=True)
class Ending:
    """What a create comes to.

    Nodes up, final status, failure, and the time it takes (None: draw it).
    """

    nodes: int
    status: int = int(PoolStatus.RUNNING)
    failure: Failure | None = None
    seconds: float | None = None
    holds_capacity: bool = True
    waits: bool = False
    """Its nodes come one by one, when there are machines for them."""


def ending_of(fault: Outcome, pool: PoolRecord, cluster: ClusterName, timings: Timings) -> Ending:
    """Return the ending that an `outcome` fault asks for."""
    if fault.kind == "ok":
        return Ending(pool.planned_nodes, seconds=fault.seconds)
    nodes = min(fault.nodes, pool.planned_nodes) if fault.kind == "partial" else 0
    failure = _failure(fault.kind, pool, cluster, nodes)
    status = PoolStatus.RUNNING_WITH_ERROR if nodes else PoolStatus.ERROR
    if fault.status is not None:
        status = PoolStatus[fault.status]
    seconds = timings.late_failure
    if fault.kind in ("stockout", "partial"):
        seconds = timings.stockout_atomic if pool.shape.atomic else timings.stockout
    return Ending(
        nodes,
        int(status),
        failure,
        fault.seconds if fault.seconds is not None else seconds,
        holds_capacity=fault.kind not in ("stockout", "quota", "reservation"),
    )


def wrong_gang_size(pool: PoolRecord, timings: Timings) -> Ending:
    """Return the ending of a slice whose node count does not fit its topology."""
    text = (
        f"{_GCE}Invalid value for field 'resource.resizeBy': '{pool.planned_nodes}'. Requested invalid target "
        f"size '{pool.planned_nodes}' for a Managed Instance Group in the gang mode of size '{pool.shape.hosts}'. "
        "Should be equal to the gang size."
    )
    return Ending(
        0,
        int(PoolStatus.ERROR),
        Failure(Code.INVALID_ARGUMENT, text, text),
        timings.late_failure,
        holds_capacity=False,
    )


def reservation_ending(text: str, code: Code, timings: Timings) -> Ending:
    """Return the ending of a pool whose reservation cannot serve it."""
    failure = Failure(code, text, f"{_GCE}{text}")
    return Ending(0, int(PoolStatus.ERROR), failure, timings.late_failure, holds_capacity=False)


def shortage_ending(pool: PoolRecord, cluster: ClusterName, timings: Timings) -> Ending:
    """Return the ending of a create that there are too few machines for."""
    return Ending(
        0,
        int(PoolStatus.ERROR),
        shortage(pool, cluster),
        shortage_seconds(pool, timings),
        holds_capacity=False,
        waits=not pool.all_or_none,
    )


def shortage(pool: PoolRecord, cluster: ClusterName) -> Failure:
    """Return GKE's words on a pool that lacks machines: a stockout, or those of its reservation."""
    kind = "reservation" if reservation_of(pool.message) else "stockout"
    return _failure(kind, pool, cluster, len(pool.nodes))


def shortage_seconds(pool: PoolRecord, timings: Timings) -> float:
    """Return how long GKE tries to get the machines of a pool."""
    if reservation_of(pool.message):
        return timings.late_failure
    return timings.stockout_atomic if pool.shape.atomic else timings.stockout


def _failure(kind: str, pool: PoolRecord, cluster: ClusterName, running: int) -> Failure:
    zone = pool.zones[0]
    subnet = f"projects/{cluster.project}/regions/{region_of(zone)}/subnetworks/default"
    instance = f"Instance 'gke-{cluster.cluster[:12]}-{pool.name[:12]}-0000' creation failed: "
    no_stock = (
        f"{instance}The zone 'projects/{cluster.project}/zones/{zone}' does not have enough resources available "
        "to fulfill the request.  Try a different zone, or try again later."
    )
    reservation = reservation_of(pool.message) or "unknown"
    table: dict[str, tuple[Code, str, int, str]] = {
        "stockout": (Code.RESOURCE_EXHAUSTED, "GCE_STOCKOUT", int(ConditionCode.GCE_STOCKOUT), no_stock),
        "quota": (
            Code.RESOURCE_EXHAUSTED,
            "GCE_QUOTA_EXCEEDED",
            int(ConditionCode.GCE_QUOTA_EXCEEDED),
            f"{instance}Insufficient quota to satisfy the request.",
        ),
        "ip": (
            Code.RESOURCE_EXHAUSTED,
            "IP_SPACE_EXHAUSTED_WITH_DETAILS",
            0,
            f"{instance}IP space of '{subnet}' is exhausted.",
        ),
        "invalid": (
            Code.INVALID_ARGUMENT,
            "",
            0,
            "Invalid value for field 'resource.properties.scheduling': the combination of settings is not valid.",
        ),
        "reservation": (
            Code.RESOURCE_EXHAUSTED,
            "",
            0,
            f"Specified reservation {reservation} does not have available resources for the request.",
        ),
        "internal": (Code.INTERNAL, "INTERNAL_ERROR", 0, f"{instance}Internal error. Please try again."),
        "permission": (
            Code.PERMISSION_DENIED,
            "PERMISSIONS_ERROR",
            0,
            f"{instance}Required 'compute.instances.create' permission.",
        ),
        "org_policy": (
            Code.FAILED_PRECONDITION,
            "CONDITION_NOT_MET",
            0,
            f"{instance}Constraint constraints/compute.vmExternalIpAccess violated for project {cluster.project}.",
        ),
    }
    code, bracketed, condition, cause = table["stockout" if kind == "partial" else kind]
    return Failure(code, cause, _summary(pool, bracketed, cause, running), condition)


def _summary(pool: PoolRecord, bracketed: str, cause: str, running: int) -> str:
    if not bracketed:
        return f"{_GCE}{cause}"
    if pool.shape.atomic and not running:
        return f"{_GCE}Atomic resize failed with [{bracketed}]: {cause}"
    planned = pool.target if pool.short else pool.planned_nodes
    waited = "35m4.123s" if bracketed == "GCE_STOCKOUT" else "50.123s"
    return (
        f"{_GCE}Not all instances running in IGM after {waited}. Expected {planned}, running {running}, "
        f"transitioning {planned - running}. Current errors: [{bracketed}]: {cause}"
    )
