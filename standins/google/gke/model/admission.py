"""Who is let in: the checks before a call changes anything, in the order in which GKE answers.

Permission, cluster, request rate, specification, name and running operations, the ceiling of
operations, quota. The effects of a call that passes are in `lifecycle`.
"""

from collections import deque

from standins.google.errors import ApiError, parse_code
from standins.google.gke.errors import (
    already_exists,
    cluster_not_found,
    incompatible_operation,
    invalid,
    pool_not_found,
    rate_limited,
    too_many_operations,
)
from standins.google.gke.faults.fault_rules import (
    BadNodeCount,
    ByteLimit,
    CreateWhileStopping,
    DupCreateInflight,
    FailSync,
    MaxInflightOps,
    Target,
)
from standins.google.gke.model.operations import OperationDesk
from standins.google.gke.model.proto_messages import Message, PoolStatus
from standins.google.gke.model.state import ClusterRecord, PoolRecord, World
from standins.google.gke.model.validation import Shape, check_pool
from standins.google.gke.resource_names import ClusterName, Place, is_zone, project_number

_MOST_IN_FLIGHT = 100
_REQUESTS_PER_MINUTE = 3000
_MINUTE = 60.0


class Admission:
    """Refuses calls the way GKE does; returns what a permitted call needs."""

    def __init__(self, world: World, desk: OperationDesk) -> None:
        self._world = world
        self._desk = desk
        self._requests: dict[str, deque[float]] = {}

    def scripted(self, target: Target, *, at_quota: bool = False) -> None:
        """Raise the scripted refusal for this call, if any.

        Quota refusals come after all other checks.
        """

        def is_due(fault: FailSync) -> bool:
            return fault.reason.startswith("INSUFFICIENT_QUOTA") == at_quota

        fault = self._world.faults.take(FailSync, target, is_due)
        if fault is not None:
            raise ApiError(parse_code(fault.code), fault.text, fault.reason)

    def cluster(self, place: Place) -> ClusterRecord:
        """Return the cluster of a resource name; `zones/` finds zonal clusters only."""
        name = place.cluster_name
        project = next((known.project for known in self._world.clusters if _is_project(known, name.project)), "")
        known = ClusterName(project, name.location, name.cluster)
        record = self._world.clusters.get(known)
        if record is None or (place.word == "zones" and not is_zone(name.location)):
            raise cluster_not_found(name.spelled)
        return record

    def rate(self, project: str) -> None:
        """Count a request and refuse it above the limit per virtual minute."""
        recent = self._requests.setdefault(project, deque())
        now = self._world.now
        while recent and recent[0] <= now - _MINUTE:
            recent.popleft()
        if len(recent) >= _REQUESTS_PER_MINUTE:
            raise rate_limited(project_number(project))
        recent.append(now)

    def create(self, cluster: ClusterRecord, wanted: Message, target: Target) -> tuple[Shape, list[str]]:
        """Check a create after cluster and rate; return the pool's shape and zones."""
        zones = list(wanted.locations) or cluster.zones
        late = self._world.faults.in_force(BadNodeCount(answer="sync"), target)
        shape = check_pool(
            wanted, cluster.name.location, zones, self._world.scenario, late_count=late.answer == "async"
        )
        self._byte_limit(cluster, wanted, target)
        self._free_name(cluster, wanted.name, target)
        self.unlocked(cluster.name, wanted.name)
        self.ceiling(cluster.name, target)
        self.scripted(target, at_quota=True)
        return shape, zones

    def change(self, cluster: ClusterRecord, name: str, target: Target) -> PoolRecord:
        """Check a call that changes an existing pool by an operation; return the pool."""
        pool = self.pool(cluster, name)
        self.unlocked(cluster.name, name)
        self.ceiling(cluster.name, target)
        self.scripted(target, at_quota=True)
        return pool

    def pool(self, cluster: ClusterRecord, name: str) -> PoolRecord:
        """Return a pool; raises ApiError (NOT_FOUND)."""
        if name not in cluster.pools:
            raise pool_not_found(name)
        return cluster.pools[name]

    def unlocked(self, cluster: ClusterName, pool: str) -> None:
        """Refuse while another operation holds the pool or the cluster."""
        blocking = self._desk.blocking(cluster, pool)
        if blocking is not None:
            raise incompatible_operation(blocking.name)

    def ceiling(self, cluster: ClusterName, target: Target) -> None:
        """Refuse above the number of operations that a cluster may have in flight."""
        most = self._world.faults.in_force(MaxInflightOps(value=_MOST_IN_FLIGHT), target).value
        if self._desk.in_flight(cluster) >= most:
            raise too_many_operations(cluster.cluster, most)

    def _byte_limit(self, cluster: ClusterRecord, wanted: Message, target: Target) -> None:
        limit = self._world.faults.peek(ByteLimit, target)
        if limit is None:
            return
        used = sum(pool.message.ByteSize() for pool in cluster.pools.values())
        if used + wanted.ByteSize() > limit.value:
            raise invalid(
                "Cluster byte size limit reached. Please delete node pools or shorten their configuration."
            )

    def _free_name(self, cluster: ClusterRecord, name: str, target: Target) -> None:
        pool = cluster.pools.get(name)
        if pool is None:
            return
        moving: dict[int, DupCreateInflight | CreateWhileStopping] = {
            PoolStatus.PROVISIONING: DupCreateInflight(answer="precondition"),
            PoolStatus.STOPPING: CreateWhileStopping(answer="precondition"),
        }
        usual = moving.get(pool.status)
        if usual is not None and self._world.faults.in_force(usual, target).answer == "precondition":
            self.unlocked(cluster.name, name)
        raise already_exists(f"{cluster.name.spelled}/nodePools/{name}")


def _is_project(known: ClusterName, given: str) -> bool:
    return given in (known.project, str(project_number(known.project)))
