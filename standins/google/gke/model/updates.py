"""UpdateNodePool and SetNodePoolAutoscaling: what may change, the etag, and the change itself.

Everything else is refused loudly.
"""

from standins.google.errors import ApiError, Code
from standins.google.gke.errors import invalid, invalid_field, not_emulated
from standins.google.gke.model.label_rules import (
    check_node_labels,
    check_resource_labels,
    check_tags,
    check_taints,
)
from standins.google.gke.model.node_objects import labels_by_gke
from standins.google.gke.model.proto_messages import Message
from standins.google.gke.model.state import PoolRecord
from standins.google.gke.model.validation import wrong_size

_ADDRESS = frozenset({"name", "project_id", "zone", "cluster_id", "node_pool_id", "etag"})
_CHANGEABLE = frozenset({"labels", "resource_labels", "taints", "tags"})


def check_update(request: Message, pool: PoolRecord) -> None:
    """Refuse an update that is empty, malformed, not emulated, or made for an older etag."""
    given = {field.name for field, _ in request.ListFields()} - _ADDRESS
    if given - _CHANGEABLE:
        raise not_emulated(
            f"updating {', '.join(sorted(given - _CHANGEABLE))}; it can update {', '.join(sorted(_CHANGEABLE))}"
        )
    if not given:
        raise invalid("Must specify a field to update.")
    if request.HasField("labels"):
        written = labels_by_gke(pool.message, pool.shape.machine, pool.shape.topology)
        check_node_labels(dict(request.labels.labels), written)
    check_resource_labels(dict(request.resource_labels.labels))
    check_tags(request.tags.tags)
    check_taints(request.taints.taints)
    if request.etag and request.etag != pool.message.etag:
        raise ApiError(
            Code.ABORTED,
            f'The etag "{request.etag}" is not the current one of node pool "{pool.name}"; read it and retry.',
        )


def apply_update(request: Message, pool: PoolRecord) -> None:
    """Replace, as a whole, each of labels, resource labels, taints and tags in the request."""
    config = pool.message.config
    if request.HasField("labels"):
        config.labels.clear()
        config.labels.update(request.labels.labels)
    if request.HasField("resource_labels"):
        config.resource_labels.clear()
        config.resource_labels.update(request.resource_labels.labels)
    if request.HasField("taints"):
        del config.taints[:]
        config.taints.extend(request.taints.taints)
    if request.HasField("tags"):
        del config.tags[:]
        config.tags.extend(request.tags.tags)


def check_autoscaling(scaling: Message, pool: PoolRecord) -> None:
    """Refuse bounds that contradict each other, or that a TPU slice cannot have."""
    if not scaling.enabled:
        return
    if not 0 <= scaling.min_node_count <= scaling.max_node_count or scaling.max_node_count < 1:
        raise invalid_field(
            "autoscaling.max_node_count", scaling.max_node_count, "Must be 1 or more, and the minimum."
        )
    if pool.shape.atomic and scaling.max_node_count != pool.shape.hosts:
        raise wrong_size(scaling.max_node_count, pool.shape.topology)


def apply_autoscaling(scaling: Message, pool: PoolRecord) -> None:
    """Replace the autoscaling of a pool; its nodes stay as many as they are."""
    stored = pool.message.autoscaling
    policy = stored.location_policy
    stored.CopyFrom(scaling)
    stored.location_policy = scaling.location_policy or policy
