"""The fake GKE as one object: every call of `ClusterManager` that is emulated, by its RPC name.

Pure: it takes a clock, a seed, a scenario and faults, and does no I/O. Requests and answers are the
protobuf messages of `google.container.v1`; refusals are `ApiError`. The skins only translate.
"""

from collections.abc import Callable
from typing import Any

from standins.google.errors import ApiError, Code
from standins.google.gke.errors import DOMAIN, LostReply, invalid, not_emulated
from standins.google.gke.faults.fault_rules import FaultPlan, LoseReply, Target
from standins.google.gke.faults.scenario import Scenario
from standins.google.gke.model.admission import Admission
from standins.google.gke.model.changes import (
    Disturbances,
    Reads,
    apply_autoscaling,
    apply_update,
    check_autoscaling,
    check_update,
)
from standins.google.gke.model.clock import Agenda, Clock, ManualClock
from standins.google.gke.model.defaults import default_zones, described_cluster
from standins.google.gke.model.lifecycle import Lifecycle
from standins.google.gke.model.node_objects import CallMade, Listener
from standins.google.gke.model.operations import OperationDesk
from standins.google.gke.model.proto_messages import (
    ListClustersResponse,
    ListNodePoolsResponse,
    ListOperationsResponse,
    Message,
    OperationType,
    copy_of,
)
from standins.google.gke.model.state import ClusterRecord, PoolRecord, World, pool_target
from standins.google.gke.resource_names import (
    ClusterName,
    Place,
    is_location,
    is_zone,
    parse_cluster,
    parse_location,
    parse_operation,
    parse_pool,
    project_number,
    region_of,
)


class FakeGke:
    """A GKE control plane without machines.

    Same seed and same calls at the same times give the same answers.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        seed: int = 1,
        scenario: Scenario | None = None,
        faults: FaultPlan | None = None,
    ) -> None:
        clock = clock or ManualClock()
        self.agenda = Agenda(clock)
        self.faults = faults or FaultPlan()
        self.world = World(clock, self.agenda, seed=seed, scenario=scenario or Scenario(), faults=self.faults)
        self._desk = OperationDesk(self.world)
        self._lifecycle = Lifecycle(self.world, self._desk)
        self.growth = self._lifecycle.growth
        self._disturbances = Disturbances(self.world, self._desk, self._lifecycle)
        self._admission = Admission(self.world, self._desk)
        self._reads = Reads(self.world)
        self._verbs: dict[str, Callable[[Any, Target], Message]] = {
            "CreateNodePool": self._create_node_pool,
            "DeleteNodePool": self._delete_node_pool,
            "GetNodePool": self._get_node_pool,
            "ListNodePools": self._list_node_pools,
            "UpdateNodePool": self._update_node_pool,
            "SetNodePoolSize": self._set_node_pool_size,
            "SetNodePoolAutoscaling": self._set_node_pool_autoscaling,
            "GetOperation": self._get_operation,
            "ListOperations": self._list_operations,
            "GetCluster": self._get_cluster,
            "ListClusters": self._list_clusters,
        }

    def add_cluster(
        self, project: str, location: str, cluster: str, zones: list[str] | None = None
    ) -> ClusterName:
        """Add an empty cluster; its nodes go to `zones` unless a pool says otherwise.

        Raises ValueError for a location that is none, and a zone that is not one of the location's.
        """
        if not is_location(location):
            raise ValueError(f"location: {location!r} is no region or zone; valid: us-east5, us-east5-b, …")
        for zone in zones or []:
            if not is_zone(zone) or region_of(zone) != region_of(location):
                raise ValueError(f"zone: {zone!r} is not a zone of {region_of(location)!r}, such as {location}-b")
        name = ClusterName(project, location, cluster)
        record = ClusterRecord(name, zones or default_zones(location), self.world.timestamp())
        self.world.clusters[name] = record
        return name

    def listen(self, listener: Listener) -> None:
        """Tell `listener` about pool states, nodes and calls from now on."""
        self.world.listeners.append(listener)

    def call(self, method: str, request: Message, skin: str = "model") -> Message:
        """Answer one call.

        Raises ApiError when it is refused, LostReply when its answer is lost on the way.
        """
        self.agenda.run_due()
        code = Code.INTERNAL
        subject = self._subject(method, request)
        try:
            verb = self._verbs.get(method)
            if verb is None:
                raise not_emulated(f"the method {method}")
            answer = verb(request, subject)
            code = Code.OK
        except ApiError as error:
            code = error.code
            error.domain = error.domain or DOMAIN
            error.request_id = f"0x{self.world.chance('request').getrandbits(64):016x}"
            raise
        finally:
            at = self.world.clock.wall(self.world.now)
            self.world.tell(CallMade(method, subject.cluster, subject.pool, skin, code.name, at))
        lost = self.faults.take(LoseReply, subject)
        if lost is not None:
            raise LostReply(lost.how)
        return answer

    def pools(self) -> list[dict[str, Any]]:
        """Return one plain row for each pool, for people."""
        self.agenda.run_due()
        return [
            {
                "cluster": cluster.name.cluster,
                "pool": pool.name,
                "status": self._lifecycle.status_name(pool),
                "machine_type": pool.message.config.machine_type,
                "topology": pool.shape.topology,
                "nodes": len(pool.nodes),
                "node_names": sorted(pool.nodes),
                "planned_nodes": pool.planned_nodes,
                "zones": pool.zones,
                "message": pool.message.status_message,
            }
            for cluster in self.world.clusters.values()
            for pool in cluster.pools.values()
        ]

    def _subject(self, method: str, request: Message) -> Target:
        """Return what a call is about, as far as its names can be read.

        A malformed name leaves it empty.
        """
        try:
            place = _place_of(method, request)
        except ApiError:
            place = None
        if place is None:
            return Target(method=method)
        known = self.world.clusters.get(place.cluster_name)
        if method == "CreateNodePool":
            zones = list(request.node_pool.locations) or (known.zones if known is not None else [])
            return pool_target(place.cluster_name, request.node_pool, zones, method)
        record = known.pools.get(place.leaf) if known is not None else None
        return self.world.target(place.cluster_name, record, place.leaf, method)

    def _enter(self, place: Place, target: Target) -> ClusterRecord:
        self._admission.scripted(target)
        cluster = self._admission.cluster(place)
        self._admission.rate(cluster.name.project)
        self._disturbances.before_call(cluster, target)
        return cluster

    def _create_node_pool(self, request: Message, target: Target) -> Message:
        cluster = self._enter(parse_cluster("parent", request.parent), target)
        shape, zones = self._admission.create(cluster, request.node_pool, target)
        return copy_of(self._lifecycle.create(cluster, request.node_pool, shape, zones).message)

    def _delete_node_pool(self, request: Message, target: Target) -> Message:
        place = parse_pool("name", request.name)
        cluster = self._enter(place, target)
        pool = self._admission.change(cluster, place.leaf, target)
        return copy_of(self._lifecycle.delete(cluster, pool).message)

    def _get_node_pool(self, request: Message, target: Target) -> Message:
        place = parse_pool("name", request.name)
        cluster = self._enter(place, target)
        return self._reads.pool(cluster, place.leaf)

    def _list_node_pools(self, request: Message, target: Target) -> Message:
        cluster = self._enter(parse_cluster("parent", request.parent), target)
        return ListNodePoolsResponse(node_pools=self._reads.pools(cluster))

    def _update_node_pool(self, request: Message, target: Target) -> Message:
        place = parse_pool("name", request.name)
        cluster = self._enter(place, target)
        check_update(request, self._admission.pool(cluster, place.leaf))
        pool = self._admission.change(cluster, place.leaf, target)
        apply_update(request, pool)
        return self._reconcile(cluster, pool, OperationType.UPGRADE_NODES)

    def _set_node_pool_autoscaling(self, request: Message, target: Target) -> Message:
        place = parse_pool("name", request.name)
        cluster = self._enter(place, target)
        check_autoscaling(request.autoscaling, self._admission.pool(cluster, place.leaf))
        pool = self._admission.change(cluster, place.leaf, target)
        apply_autoscaling(request.autoscaling, pool)
        return self._reconcile(cluster, pool, OperationType.UPDATE_CLUSTER)

    def _reconcile(self, cluster: ClusterRecord, pool: PoolRecord, kind: int) -> Message:
        self._lifecycle.renew_etag(cluster, pool)
        seconds = self.world.draw("update", cluster.name, pool.name, self.world.scenario.timings.update)
        return copy_of(self._lifecycle.reconcile(cluster, pool, kind, seconds).message)

    def _set_node_pool_size(self, request: Message, target: Target) -> Message:
        place = parse_pool("name", request.name)
        cluster = self._enter(place, target)
        pool = self._admission.pool(cluster, place.leaf)
        if pool.shape.atomic:
            raise ApiError(
                Code.UNIMPLEMENTED,
                f'Node pool "{pool.name}" is a multi-host TPU slice: manual resize is not supported.',
                "UNIMPLEMENTED",
            )
        if request.node_count < 0:
            raise invalid(f'Invalid value for field "node_count": "{request.node_count}". Must be 0 or more.')
        self._admission.change(cluster, place.leaf, target)
        return copy_of(self._lifecycle.resize(cluster, pool, request.node_count).message)

    def _get_operation(self, request: Message, target: Target) -> Message:
        place = parse_operation("name", request.name)
        project = self._enter_project(place, target)
        return copy_of(self._desk.find(place.leaf, project, place.location).message)

    def _list_operations(self, request: Message, target: Target) -> Message:
        place = parse_location("parent", request.parent)
        records = self._desk.listed(self._enter_project(place, target), place.location)
        return ListOperationsResponse(operations=[record.message for record in records])

    def _get_cluster(self, request: Message, target: Target) -> Message:
        return self._described(self._enter(parse_cluster("name", request.name), target))

    def _list_clusters(self, request: Message, target: Target) -> Message:
        place = parse_location("parent", request.parent)
        project = self._enter_project(place, target)
        return ListClustersResponse(
            clusters=[
                self._described(cluster)
                for name, cluster in sorted(self.world.clusters.items())
                if name.project == project and place.location in ("-", name.location)
            ]
        )

    def _described(self, cluster: ClusterRecord) -> Message:
        channel = self.world.scenario.release_channel
        message = described_cluster(cluster.name, cluster.zones, cluster.created, "127.0.0.1", channel)
        message.node_pools.extend(self._reads.pools(cluster))
        message.current_node_count = sum(len(pool.nodes) for pool in cluster.pools.values())
        return message

    def _enter_project(self, place: Place, target: Target) -> str:
        self._admission.scripted(target)
        known = {str(project_number(name.project)): name.project for name in self.world.clusters}
        project = known.get(place.project, place.project)
        self._admission.rate(project)
        return project


def _place_of(method: str, request: Message) -> Place | None:
    if method in ("CreateNodePool", "ListNodePools"):
        return parse_cluster("parent", request.parent)
    if method == "GetCluster":
        return parse_cluster("name", request.name)
    return parse_pool("name", request.name) if "NodePool" in method else None
