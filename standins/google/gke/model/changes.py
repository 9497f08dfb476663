"""What get and list show, what an update may change, and what nobody asked for."""

from standins.google.errors import ApiError, Code
from standins.google.gke.errors import invalid, invalid_field, not_emulated, pool_not_found
from standins.google.gke.faults.fault_rules import (
    ClusterBusy,
    ExternalActor,
    Get404AfterCreate,
    ReadLag,
    StaleList,
    Target,
)
from standins.google.gke.model.lifecycle import Lifecycle
from standins.google.gke.model.node_objects import labels_by_gke
from standins.google.gke.model.operations import OperationDesk
from standins.google.gke.model.proto_messages import Message, OperationType, copy_of
from standins.google.gke.model.state import ClusterRecord, PoolRecord, Version, World
from standins.google.gke.model.validation import (
    check_node_labels,
    check_resource_labels,
    check_tags,
    check_taints,
    wrong_size,
)


class Reads:
    """Answers get and list for pools."""

    def __init__(self, world: World) -> None:
        self._world = world

    def pool(self, cluster: ClusterRecord, name: str) -> Message:
        """Return a pool as a get shows it now; raises ApiError (NOT_FOUND)."""
        target = self._world.target(cluster.name, cluster.pools.get(name), name, "GetNodePool")
        lag = self._world.faults.in_force(ReadLag(seconds=0.0), target)
        shown = self._as_of(cluster, name, lag.seconds)
        if shown is None or shown.message is None:
            raise pool_not_found(name)
        if self._world.faults.take(Get404AfterCreate, target) is not None:
            raise pool_not_found(name)
        return copy_of(shown.message)

    def pools(self, cluster: ClusterRecord) -> list[Message]:
        """Return every pool of a cluster as a list shows it now, by name."""
        shown = (self._in_list(cluster, name) for name in sorted(set(cluster.pools) | set(cluster.history)))
        return [message for message in shown if message is not None]

    def _in_list(self, cluster: ClusterRecord, name: str) -> Message | None:
        target = self._world.target(cluster.name, cluster.pools.get(name), name, "ListNodePools")
        lag = self._world.faults.in_force(ReadLag(seconds=0.0), target)
        stale = self._world.faults.in_force(StaleList(seconds=0.0, created=False), target)
        shown = self._as_of(cluster, name, max(lag.seconds, stale.seconds))
        if shown is None or shown.message is None:
            return None
        if stale.created and shown.finished_at is None:
            return None
        return copy_of(shown.message)

    def _as_of(self, cluster: ClusterRecord, name: str, seconds: float) -> Version | None:
        moment = self._world.now - seconds
        past = [version for version in cluster.history.get(name, []) if version.at <= moment]
        return past[-1] if past else None


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


_TRY_AGAIN = 10.0


class Disturbances:
    """Starts operations that no caller asked for."""

    def __init__(self, world: World, desk: OperationDesk, lifecycle: Lifecycle) -> None:
        self._world = world
        self._desk = desk
        self._lifecycle = lifecycle
        lifecycle.when_running.append(self._expect_somebody)

    def before_call(self, cluster: ClusterRecord, target: Target) -> None:
        """Start scripted operations where nothing stands in their way."""
        if self._desk.blocking(cluster.name, "") is None:
            busy = self._world.faults.take(ClusterBusy, target)
            if busy is not None:
                self._lifecycle.occupy_cluster(cluster, OperationType[busy.type], busy.seconds)

    def _expect_somebody(self, cluster: ClusterRecord, pool: PoolRecord) -> None:
        fault = self._world.faults.take(ExternalActor, self._world.target(cluster.name, pool))
        if fault is not None:
            self._world.agenda.after(fault.seconds, lambda: self._act(cluster, pool, fault))

    def _act(self, cluster: ClusterRecord, pool: PoolRecord, fault: ExternalActor) -> None:
        if not self._lifecycle.exists(cluster, pool):
            return
        if not pool.resting or self._desk.blocking(cluster.name, pool.name) is not None:
            self._world.agenda.after(_TRY_AGAIN, lambda: self._act(cluster, pool, fault))
            return
        pool.message.config.labels.clear()
        pool.message.config.labels.update(fault.labels)
        self._lifecycle.renew_etag(cluster, pool)
        seconds = self._world.draw("update", cluster.name, pool.name, self._world.scenario.timings.update)
        self._lifecycle.reconcile(cluster, pool, OperationType.UPGRADE_NODES, seconds)
