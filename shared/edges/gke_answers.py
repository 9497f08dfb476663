"""Reads GKE's answers: messages of protobuf, without proto-plus around them."""

from __future__ import annotations

from typing import Any

from google.cloud.container_v1.types import NodeTaint
from google.cloud.container_v1.types import Operation as ApiOperation

from shared.model.counts import bound_count
from shared.model.errors import Unavailable
from shared.model.pools import NodePool, parse_status
from shared.model.readings import Operation
from shared.model.times import parse_time
from shared.model.workloads import Taint

_ERROR_LENGTH_MAX = 600
DEPLOYMENT = "tpu-provisioner-deployment"
"""A label of machines, which Terraform adds to the setting `resource_labels`."""
_EFFECTS = {
    NodeTaint.Effect.NO_SCHEDULE: "NoSchedule",
    NodeTaint.Effect.PREFER_NO_SCHEDULE: "PreferNoSchedule",
    NodeTaint.Effect.NO_EXECUTE: "NoExecute",
}
_STRATEGIES = {1: "TIME_SHARING", 2: "MPS"}
"""``GPUSharingConfig.GPUSharingStrategy``."""
CREATES = ApiOperation.Type.CREATE_NODE_POOL
MADE = (CREATES, ApiOperation.Type.DELETE_NODE_POOL)
"""The operations that are read: a create or a delete of a pool."""


def read_pool(pool: Any) -> NodePool:
    """Return one pool of an answer.

    Raises:
        Unavailable: it has no name, so the answer is none of GKE's.
    """
    if not pool.name:
        raise Unavailable("GKE's answer cannot be read: a node pool has no name")
    config, gpus = pool.config, list(pool.config.accelerators)
    affinity = config.reservation_affinity
    return NodePool(
        name=pool.name,
        status=parse_status(pool.status),
        labels=dict(config.labels),
        taints=tuple(_read_taint(each) for each in config.taints),
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
        error=_read_error(pool),
        deployment=config.resource_labels.get(DEPLOYMENT, ""),
    )


def _read_error(pool: Any) -> str:
    messages = [condition.message for condition in pool.conditions if condition.message]
    return "; ".join(messages) or pool.status_message


def _read_taint(taint: Any) -> Taint:
    return Taint(taint.key, taint.value, _EFFECTS.get(taint.effect, ""))


def _read_sharing(gpu: Any) -> str:
    """Return how pods share a GPU, as `PoolShape.sharing` says it; empty for whole GPUs."""
    shared = gpu.gpu_sharing_config
    strategy = _STRATEGIES.get(shared.gpu_sharing_strategy, "")
    if not gpu.gpu_partition_size and not strategy:
        return ""
    return f"{gpu.gpu_partition_size}/{strategy}/{bound_count(shared.max_shared_clients_per_gpu)}"


def name_target(operation: Any, path: str) -> str:
    """Return the pool that an operation is about; its target ends with the path and the name."""
    return str(operation.target_link.rpartition(path)[2])


def read_operation(operation: Any, pool: str) -> Operation:
    """Return an operation. The status text, if there is one, says more than the error."""
    ended = operation.status == ApiOperation.Status.DONE
    code = f"error {operation.error.code}" if operation.error.code else ""
    error = operation.status_message or operation.error.message or code  # assumes: operation-error
    return Operation(
        pool=pool,
        creates=operation.operation_type == CREATES,
        ended=ended,
        error=error[:_ERROR_LENGTH_MAX] if ended else "",
        began_at=parse_time(operation.start_time),
        ended_at=parse_time(operation.end_time) if ended else None,
    )
