"""How a create ends after it was accepted: the words and codes of failures, and what is left.

One table for the operation that fails late and for the instance group that says so early. The codes
of instances are those that Kubernetes' cluster autoscaler knows:
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/gce/autoscaling_gce_client.go.
It knows the errors of reservations by their words; their code here is a guess. Texts follow
failures of real clusters in public issues, for example
https://github.com/GoogleCloudPlatform/cluster-toolkit/pull/6278 (stockout) and
https://github.com/AI-Hypercomputer/xpk/issues/751 (node count and topology).
"""

from dataclasses import dataclass

from standins.google.errors import Code
from standins.google.gke.faults.fault_rules import Outcome
from standins.google.gke.faults.scenario import Timings
from standins.google.gke.model.operations import Failure
from standins.google.gke.model.proto_messages import ConditionCode, PoolStatus, reservation_of
from standins.google.gke.model.state import InstanceError, PoolRecord
from standins.google.gke.resource_names import ClusterName, region_of

NO_RESERVATION = "no_reservation"
"""The kind of a pool whose reservation does not exist: no switch, but what the scenario says."""


@dataclass(frozen=True)
class Cause:
    """What an operation says of one cause, and what the instance says.

    `bracketed` is GKE's short name in the summary of the operation, empty where it has none.
    """

    code: Code
    bracketed: str
    condition: int
    text: str
    instance: InstanceError | None = None


_NO_STOCK = (
    "The zone 'projects/{project}/zones/{zone}' does not have enough resources available to fulfill the request.  "
    "Try a different zone, or try again later."
)
_TABLE: dict[str, tuple[Code, str, str, str]] = {
    "stockout": (Code.RESOURCE_EXHAUSTED, "GCE_STOCKOUT", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", _NO_STOCK),
    "quota": (
        Code.RESOURCE_EXHAUSTED,
        "GCE_QUOTA_EXCEEDED",
        "QUOTA_EXCEEDED",
        "Insufficient quota to satisfy the request.",
    ),
    "ip": (
        Code.RESOURCE_EXHAUSTED,
        "IP_SPACE_EXHAUSTED_WITH_DETAILS",
        "IP_SPACE_EXHAUSTED_WITH_DETAILS",
        "IP space of 'projects/{project}/regions/{region}/subnetworks/default' is exhausted.",
    ),
    "internal": (Code.INTERNAL, "INTERNAL_ERROR", "INTERNAL_ERROR", "Internal error. Please try again."),
    "permission": (
        Code.PERMISSION_DENIED,
        "PERMISSIONS_ERROR",
        "PERMISSIONS_ERROR",
        "Required 'compute.instances.create' permission.",
    ),
    "org_policy": (
        Code.FAILED_PRECONDITION,
        "CONDITION_NOT_MET",
        "CONDITION_NOT_MET",
        "Constraint constraints/compute.vmExternalIpAccess violated for project {project}.",
    ),
    "reservation": (
        Code.RESOURCE_EXHAUSTED,
        "",
        "CONDITION_NOT_MET",
        "Specified reservation {reservation} does not have available resources for the request.",
    ),
    NO_RESERVATION: (
        Code.INVALID_ARGUMENT,
        "",
        "CONDITION_NOT_MET",
        "Specified reservations [{reservation}] do not exist.",
    ),
    "invalid": (
        Code.INVALID_ARGUMENT,
        "",
        "",
        "Invalid value for field 'resource.properties.scheduling': the combination of settings is not valid.",
    ),
}


def find_cause(kind: str, pool: PoolRecord, cluster: ClusterName) -> Cause:
    """Return the cause of this kind (an `outcome` of the fault switches) for a pool."""
    code, bracketed, of_instance, template = _TABLE[kind]
    zone = pool.zones[0]
    text = template.format(
        project=cluster.project,
        zone=zone,
        region=region_of(zone),
        reservation=reservation_of(pool.message) or "unknown",
    )
    error = InstanceError(of_instance, text) if of_instance else None
    if bracketed:
        text = f"Instance 'gke-{cluster.cluster[:12]}-{pool.name[:12]}-0000' creation failed: {text}"
    condition = ConditionCode[bracketed] if bracketed in ConditionCode.__members__ else ConditionCode.UNKNOWN
    return Cause(code, bracketed, int(condition), text, error)


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
