"""Why Compute Engine cannot make an instance, in its own words and in GKE's.

One table for the operation that fails late and for the instance group that says so early. The codes
of instances are those that Kubernetes' cluster autoscaler knows:
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/gce/autoscaling_gce_client.go.
It knows the errors of reservations by their words; their code here is a guess.
"""

from dataclasses import dataclass

from standins.google.errors import Code
from standins.google.gke.model.instances import InstanceError
from standins.google.gke.model.proto_messages import ConditionCode, reservation_of
from standins.google.gke.model.state import PoolRecord
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
