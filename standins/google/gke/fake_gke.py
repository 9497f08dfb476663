"""The fake GKE as one object: every call of `ClusterManager` that is emulated, by its RPC name.

Pure: it takes a world with a clock, a seed, a scenario and faults, and does no I/O. Requests and
answers are the protobuf messages of `google.container.v1`; refusals are `ApiError`. The checks of a
call come in the order in which GKE answers: permission, cluster, specification, name and running
operations, the ceiling of operations, quota.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from standins.google.errors import ApiError, Code
from standins.google.gke import names, pools
from standins.google.gke.faults import Fault, Target
from standins.google.gke.lifecycle import Lifecycle
from standins.google.gke.names import ClusterName
from standins.google.gke.nodes import CallMade, Listener
from standins.google.gke.operations import OperationDesk
from standins.google.gke.pools import Message
from standins.google.gke.state import ClusterRecord, PoolRecord, World, find_target
from standins.google.gke.validation import check_autoscaling, check_pool

_MOST_IN_FLIGHT = 100
_IN_PARENT = ("CreateNodePool", "ListNodePools", "ListOperations", "ListClusters")


@dataclass
class LostReply(Exception):
    """The call was performed but its reply never arrives. `how`: drop, unavailable or deadline."""

    how: str


@dataclass(frozen=True)
class Call:
    """What a call asks, and what faults can tell of it."""

    request: Message
    cluster: ClusterName  # its name is empty for calls about a location
    leaf: str  # the name of the pool or operation
    target: Target


class FakeGke:
    """A GKE control plane without machines.

    Same seed and same calls at the same times give the same answers.
    """

    def __init__(self, world: World) -> None:
        self.world, self.clock, self.agenda, self.faults = world, world.clock, world.agenda, world.faults
        self._desk = OperationDesk(self.world)
        self._lifecycle = Lifecycle(self.world, self._desk)
        self.supply = self._lifecycle.supply
        self._verbs: dict[str, Callable[[Call], Message]] = {
            "CreateNodePool": self._create_node_pool,
            "DeleteNodePool": self._delete_node_pool,
            "GetNodePool": self._get_node_pool,
            "ListNodePools": self._list_node_pools,
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
        if not names.is_location(location):
            raise ValueError(f"location: {location!r} is no region or zone; valid: us-east5, us-east5-b, …")
        for zone in zones or []:
            if not names.is_zone(zone) or names.region_of(zone) != names.region_of(location):
                raise ValueError(
                    f"zone: {zone!r} is not a zone of {names.region_of(location)!r}, such as {location}-b"
                )
        name = ClusterName(project, location, cluster)
        self.world.clusters[name] = ClusterRecord(
            name, zones or pools.default_zones(location), self.world.timestamp()
        )
        return name

    def listen(self, listener: Listener) -> None:
        """Tell `listener` about pool states, nodes and calls from now on."""
        self.world.listeners.append(listener)

    def call(self, method: str, request: Message, skin: str = "model") -> Message:
        """Answer one call.

        Raises ApiError when it is refused, LostReply when its answer is lost on the way.
        """
        self.agenda.run_due()
        verb = self._verbs.get(method)
        if verb is None:
            raise names.not_emulated(f"the method {method}")
        call, code = self._read_call(method, request), Code.INTERNAL
        try:
            self._refuse_scripted(call.target)
            answer = verb(call)
            code = Code.OK
        except ApiError as error:
            code = error.code
            error.domain = error.domain or names.DOMAIN
            error.request_id = f"0x{self.world.chance('request').getrandbits(64):016x}"
            raise
        finally:
            at = self.world.clock.wall(self.world.now)
            self.world.tell(CallMade(method, call.target.cluster, call.target.pool, skin, code.name, at))
        lost = self.faults.take("lose_reply", call.target)
        if lost is not None:
            raise LostReply(lost.how)
        return answer

    def pools(self) -> list[dict[str, Any]]:
        """Return one plain row for each pool, for people."""
        self.agenda.run_due()
        return [
            {"pool": pool.name, "status": pools.PoolStatus(pool.status).name, "nodes": len(pool.nodes)}
            for _, pool in self.world.pools
        ]

    def _read_call(self, method: str, request: Message) -> Call:
        name, leaf = names.parse_name(request.parent if method in _IN_PARENT else request.name)
        cluster = self.world.clusters.get(name)
        if method == "CreateNodePool":
            zones = list(request.node_pool.locations) or (cluster.zones if cluster else [])
            return Call(request, name, leaf, find_target(name, request.node_pool, zones, method))
        pool = cluster.pools.get(leaf) if cluster else None
        if pool is not None:
            return Call(request, name, leaf, find_target(name, pool.message, pool.zones, method))
        return Call(request, name, leaf, Target(name.cluster, leaf if "NodePool" in method else "", method))

    def _refuse_scripted(self, target: Target, *, at_quota: bool = False) -> None:
        """Raise the scripted refusal of this call, if any; of quota after all other checks."""

        def is_due(fault: Fault) -> bool:
            return fault.reason.startswith("INSUFFICIENT_QUOTA") == at_quota

        fault = self.faults.take("fail_sync", target, is_due)
        if fault is not None:
            raise ApiError(Code[fault.code], fault.text, fault.reason)

    def _find_cluster(self, call: Call) -> ClusterRecord:
        """Return the cluster of a call, in which a scripted operation may begin."""
        cluster = self.world.clusters.get(call.cluster)
        if cluster is None:
            raise ApiError(Code.NOT_FOUND, f"Not found: {call.cluster.spelled}.")
        if self._desk.blocking(cluster.name, "") is None:
            busy = self.faults.take("cluster_busy", call.target)
            if busy is not None:
                self._lifecycle.occupy_cluster(cluster, pools.OperationType[busy.type], busy.seconds or 0.0)
        return cluster

    def _find_pool(self, call: Call) -> tuple[ClusterRecord, PoolRecord]:
        cluster = self._find_cluster(call)
        if call.leaf not in cluster.pools:
            raise names.pool_not_found(call.leaf)
        return cluster, cluster.pools[call.leaf]

    def _admit(self, call: Call, pool: str) -> None:
        """Refuse while another operation holds the pool or cluster, and above the ceilings."""
        self._refuse_locked(call.cluster, pool)
        fault = self.faults.find("max_inflight_ops", call.target)
        most = fault.value if fault else _MOST_IN_FLIGHT
        if self._desk.in_flight(call.cluster) >= most:
            cluster = call.cluster.cluster
            text = f'Too many operations: cluster "{cluster}" hits the concurrent operations quota {most}, '
            raise ApiError(Code.RESOURCE_EXHAUSTED, f"{text}please try again later.")
        self._refuse_scripted(call.target, at_quota=True)

    def _refuse_locked(self, cluster: ClusterName, pool: str) -> None:
        blocking = self._desk.blocking(cluster, pool)
        if blocking is not None:
            name, reason = blocking.message.name, "CLUSTER_ALREADY_HAS_OPERATION"
            text = f"Cluster is running incompatible operation {name}."
            raise ApiError(Code.FAILED_PRECONDITION, text, reason, {"operation": name})

    def _refuse_taken(self, cluster: ClusterRecord, name: str, target: Target) -> None:
        pool = cluster.pools.get(name)
        if pool is None:
            return
        switches = {
            pools.PoolStatus.PROVISIONING: "dup_create_inflight",
            pools.PoolStatus.STOPPING: "create_while_stopping",
        }
        fault = self.faults.find(switches.get(pool.status, ""), target)
        if pool.status in switches and fault is None:
            self._refuse_locked(cluster.name, name)
        # The specification is not compared.
        raise ApiError(Code.ALREADY_EXISTS, f"Already exists: {cluster.name.spelled}/nodePools/{name}.")

    def _create_node_pool(self, call: Call) -> Message:
        cluster, wanted = self._find_cluster(call), call.request.node_pool
        zones = list(wanted.locations) or cluster.zones
        late = self.faults.find("bad_node_count", call.target) is not None
        shape = check_pool(wanted, cluster.name.location, zones, self.world.scenario, late_count=late)
        self._refuse_taken(cluster, wanted.name, call.target)
        self._admit(call, wanted.name)
        return pools.copy_of(self._lifecycle.create(cluster, wanted, shape, zones).message)

    def _delete_node_pool(self, call: Call) -> Message:
        cluster, pool = self._find_pool(call)
        self._admit(call, pool.name)
        return pools.copy_of(self._lifecycle.delete(cluster, pool).message)

    def _set_node_pool_autoscaling(self, call: Call) -> Message:
        """Replace the autoscaling of a pool; its nodes stay as many as they are."""
        cluster, pool = self._find_pool(call)
        wanted, stored = call.request.autoscaling, pool.message.autoscaling
        check_autoscaling(wanted, pool.shape)
        self._admit(call, pool.name)
        policy = wanted.location_policy or stored.location_policy
        stored.CopyFrom(wanted)
        stored.location_policy = policy
        return pools.copy_of(self._lifecycle.reconcile(cluster, pool).message)

    def _set_node_pool_size(self, call: Call) -> Message:
        _, pool = self._find_pool(call)
        if not pool.shape.atomic:
            raise names.not_emulated("a manual resize")
        text = f'Node pool "{pool.name}" is a multi-host TPU slice: manual resize is not supported.'
        raise ApiError(Code.UNIMPLEMENTED, text, "UNIMPLEMENTED")

    def _get_node_pool(self, call: Call) -> Message:
        _, pool = self._find_pool(call)
        if self.faults.take("get_404_after_create", call.target):
            raise names.pool_not_found(call.leaf)
        return self._show(pool, call.target)

    def _list_node_pools(self, call: Call) -> Message:
        shown = self._list_shown(self._find_cluster(call))
        return pools.raw_class("ListNodePoolsResponse")(node_pools=shown)

    def _list_shown(self, cluster: ClusterRecord) -> Iterator[Message]:
        """Yield every pool of a cluster as a list shows it now, by name."""
        for _, pool in sorted(cluster.pools.items()):
            target = find_target(cluster.name, pool.message, pool.zones, "ListNodePools")
            if not self._lags("stale_list", target, pool):
                yield self._show(pool, target)

    def _show(self, pool: PoolRecord, target: Target) -> Message:
        """Return a pool as a read shows it."""
        message = pools.copy_of(pool.message)
        if message.status == pools.PoolStatus.RUNNING and self._lags("read_lag", target, pool):
            message.status = pools.PoolStatus.PROVISIONING
        return message

    def _lags(self, switch: str, target: Target, pool: PoolRecord) -> bool:
        """Return whether a fault hides from readers that the create of a pool has ended."""
        fault = self.faults.find(switch, target)
        ended = math.inf if pool.finished_at is None else pool.finished_at
        return fault is not None and self.world.now < ended + (fault.seconds or 0.0)

    def _get_operation(self, call: Call) -> Message:
        return pools.copy_of(self._desk.find(call.leaf, call.cluster.project, call.cluster.location))

    def _list_operations(self, call: Call) -> Message:
        operations = self._desk.listed(call.cluster.project, call.cluster.location)
        return pools.raw_class("ListOperationsResponse")(operations=operations)

    def _get_cluster(self, call: Call) -> Message:
        return self._describe(self._find_cluster(call))

    def _list_clusters(self, call: Call) -> Message:
        here = [
            self._describe(cluster)
            for name, cluster in sorted(self.world.clusters.items())
            if name.project == call.cluster.project and call.cluster.location in ("-", name.location)
        ]
        return pools.raw_class("ListClustersResponse")(clusters=here)

    def _describe(self, cluster: ClusterRecord) -> Message:
        name = cluster.name
        dns = {"endpoint": f"gke-{name.cluster}.{name.location}.gke.goog", "allow_external_traffic": True}
        return pools.raw_class("Cluster")(
            name=name.cluster,
            location=name.location,
            locations=cluster.zones,
            status=pools.ClusterStatus.RUNNING,
            current_master_version=pools.VERSION,
            current_node_version=pools.VERSION,
            create_time=cluster.created,
            endpoint="127.0.0.1",
            self_link=name.pool_link(),
            release_channel={"channel": self.world.scenario.release_channel},
            control_plane_endpoints_config={"dns_endpoint_config": dns},
            node_pools=self._list_shown(cluster),
            current_node_count=sum(len(pool.nodes) for pool in cluster.pools.values()),
        )
