"""GKE's node pools by google-cloud-container, in the words of `shared.engine.outside`.

Each function gets a port with its own verb only. The client speaks REST, and repeats no call.
https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.cloud.container_v1.types import (
    GetNodePoolRequest,
    ListNodePoolsRequest,
    ListNodePoolsResponse,
    ListOperationsRequest,
    ListOperationsResponse,
    NodePoolAutoscaling,
    NodeTaint,
    Operation,
    SetNodePoolAutoscalingRequest,
)
from google.cloud.container_v1.types import NodePool as ApiNodePool

from shared.edges.gke import GkeNodePools
from shared.engine import outside
from shared.model.counts import bound_count
from shared.model.errors import NotFound, Unavailable
from shared.model.pools import NodePool, parse_status
from shared.model.times import parse_time
from shared.model.workloads import Taint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.model.readings import Machines

_ERROR_LENGTH_MAX = 600
_DEPLOYMENT = "tpu-provisioner-deployment"
_EFFECTS = {
    NodeTaint.Effect.NO_SCHEDULE: "NoSchedule",
    NodeTaint.Effect.PREFER_NO_SCHEDULE: "PreferNoSchedule",
    NodeTaint.Effect.NO_EXECUTE: "NoExecute",
}
_CREATES, _DELETES = Operation.Type.CREATE_NODE_POOL, Operation.Type.DELETE_NODE_POOL


class NodePools:
    """`shared.engine.outside.PoolAdds` and `PoolTakes` over Google's APIs."""

    def __init__(self, gke: GkeNodePools) -> None:
        """Use the clients of one account; nothing is sent yet."""
        self._gke = gke
        self.create, self.delete, self.find_channel = gke.create, gke.delete, gke.find_channel

    def open(self) -> None:
        """Open the clients and get the access token now, so that the first call need not wait."""
        self._gke.open()

    def list(self, cluster: str) -> Sequence[NodePool]:
        """Return every pool of a cluster."""
        answer = self._gke.call("list_node_pools", ListNodePoolsRequest(parent=cluster), cluster)
        return [
            _read(pool) for pool in ListNodePoolsResponse.pb(answer).node_pools
        ]  # assumes: list-after-create

    def get(self, cluster: str, name: str) -> NodePool | None:
        """Return one pool, or None."""
        path = f"{cluster}/nodePools/{name}"
        try:
            pool = _read(
                ApiNodePool.pb(self._gke.call("get_node_pool", GetNodePoolRequest(name=path), path))
            )
        except NotFound:  # assumes: read-after-create
            return None
        if pool.name != name:
            raise Unavailable(
                f"GKE's answer cannot be read: it is about node pool {pool.name!r}, not {name!r}"
            )
        return pool

    def list_operations(self, cluster: str) -> Sequence[outside.Operation]:
        """Return the creates and deletes of a cluster's pools, from its location's operations."""
        location, _, name = cluster.rpartition("/clusters/")
        answer = self._gke.call("list_operations", ListOperationsRequest(parent=location), location)
        # A target names the project by its number, and a zone by ``zones``.
        path = f"/{location.rpartition('/')[2]}/clusters/{name}/nodePools/"  # assumes: operation-fields
        return [
            _read_operation(each, each.target_link.rpartition(path)[2])
            for each in ListOperationsResponse.pb(answer).operations
            if each.operation_type in (_CREATES, _DELETES) and path in each.target_link
        ]

    def read_machines(self, pool: NodePool) -> Machines:
        """Return what the instance groups of a pool say of their machines."""
        return self._gke.groups.read_machines(pool)

    def raise_maximum(self, cluster: str, name: str, nodes: int) -> None:
        """Let GKE's autoscaler give a pool so many nodes."""
        self._bound(cluster, name, nodes)

    def lower_maximum(self, cluster: str, name: str, nodes: int) -> None:
        """Bound a pool to fewer nodes; 0 turns its autoscaling off."""
        self._bound(cluster, name, nodes)

    def _bound(self, cluster: str, name: str, nodes: int) -> None:
        path = f"{cluster}/nodePools/{name}"
        scaling = NodePoolAutoscaling(enabled=nodes > 0, max_node_count=nodes)
        request = SetNodePoolAutoscalingRequest(name=path, autoscaling=scaling)
        self._gke.call("set_node_pool_autoscaling", request, path, promptly=True)


def _read(pool: Any) -> NodePool:
    """Return one pool of an answer: a message of protobuf, without proto-plus around it."""
    if not pool.name:
        raise Unavailable("GKE's answer cannot be read: a node pool has no name")
    messages = [condition.message for condition in pool.conditions if condition.message]
    config, gpus = pool.config, list(pool.config.accelerators)
    affinity = config.reservation_affinity
    return NodePool(
        name=pool.name,
        status=parse_status(pool.status),
        labels=dict(config.labels),
        taints=tuple(
            Taint(each.key, each.value, _EFFECTS.get(each.effect, "")) for each in config.taints
        ),
        machine_type=config.machine_type,
        accelerator=gpus[0].accelerator_type if gpus else "",
        gpus_per_node=sum(max(0, bound_count(each.accelerator_count)) for each in gpus),
        sharing=_read_sharing(gpus[0]) if gpus else "",
        topology=pool.placement_policy.tpu_topology,
        # An autoscaled pool starts empty: what it may grow to is what was asked for.
        node_count=max(
            0, pool.autoscaling.max_node_count or pool.initial_node_count
        ),  # assumes: initial-count
        zones=tuple(pool.locations),
        spot=config.spot,
        flex_start=config.flex_start,
        reservation=affinity.values[0] if affinity.values else "",
        autoscaled=pool.autoscaling.enabled,
        group_urls=tuple(pool.instance_group_urls),  # assumes: group-urls
        error="; ".join(messages) or pool.status_message,
        deployment=config.resource_labels.get(_DEPLOYMENT, ""),
    )


def _read_sharing(gpu: Any) -> str:
    shared = gpu.gpu_sharing_config
    strategy = {1: "TIME_SHARING", 2: "MPS"}.get(shared.gpu_sharing_strategy, "")
    clients = bound_count(shared.max_shared_clients_per_gpu)
    return (
        f"{gpu.gpu_partition_size}/{strategy}/{clients}"
        if gpu.gpu_partition_size or strategy
        else ""
    )


def _read_operation(operation: Any, pool: str) -> outside.Operation:
    """Return an operation. The status text, if there is one, says more than the error."""
    ended = operation.status == Operation.Status.DONE
    code = f"error {operation.error.code}" if operation.error.code else ""
    error = operation.status_message or operation.error.message or code  # assumes: operation-error
    return outside.Operation(
        pool=pool,
        creates=operation.operation_type == _CREATES,
        ended=ended,
        error=error[:_ERROR_LENGTH_MAX] if ended else "",
        began_at=parse_time(operation.start_time),
        ended_at=parse_time(operation.end_time) if ended else None,
    )
