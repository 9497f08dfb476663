"""What people and controllers do in a scenario, applied to its world."""

from collections.abc import Callable

from shared.kinds import jobset
from shared.kinds.table import list_slices
from shared.model import labels
from shared.model.errors import Rejected
from shared.model.messages import Message
from shared.model.names import build_pool_name
from shared.model.pools import PoolStatus
from shared.needs.demand import claim_slice
from tests.simulation.sim_cluster import SimCluster
from tests.simulation.sim_creations import EXHAUSTED
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_scenario import CLUSTERS, Act
from tests.simulation.sim_shapes import OTHER, SHAPES, Shape
from tests.simulation.sim_workloads import NAMESPACE, Workload
from tests.simulation.sim_world import Sent, World, build_push

SUSPENDED = ("JobSet", "RayCluster", "Job")
ENDING = ("JobSet", "Job", "Pod")
SCALED = ("RayCluster", "LeaderWorkerSet", "Deployment", "StatefulSet")
RESTARTED = ("JobSet", "LeaderWorkerSet", "Deployment", "StatefulSet", "Job", "RayCluster")


def apply_act(world: World, act: Act) -> None:
    """Do an act now; one that makes no sense now is left out."""
    if act.cluster >= len(world.cluster_names):
        return
    cluster = world.clusters[CLUSTERS[act.cluster]]
    world.tell(f"ACT {act}")
    if act.verb in _ON_WORLD:
        _ON_WORLD[act.verb](world, cluster, act)
        return
    made = _find(cluster, act.name)
    if made is not None and made.deleting_since is None:
        _ON_WORKLOAD[act.verb](world, cluster, made, act)


def _find(cluster: SimCluster, name: str) -> Workload | None:
    return next((made for (_, each), made in cluster.workloads.items() if each == name), None)


# --- workloads ------------------------------------------------------------------------------------


def _create(world: World, cluster: SimCluster, act: Act) -> None:
    if _find(cluster, act.name) is None:
        _add(world, cluster, act.kind, act.name, act.shape, act.count, pinned=act.flag)


def _add(
    world: World, cluster: SimCluster, kind: str, name: str, shape: str, replicas: int, *, pinned: bool
) -> None:
    base, _, tier = shape.partition("+")
    uid, now = world.make_uid("uid"), world.time.now
    made = Workload(
        kind, name, uid, SHAPES[base], replicas, pinned, made_at=now + world.scenario.skew_seconds, changed_at=now
    )
    made.spot, made.tolerates = bool(tier), tier != "spot-intolerant"
    cluster.add_workload(made)


def _delete(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    made.changed_at = world.time.now
    if act.flag and made.kind != "Pod":  # in the foreground: the object stays until its pods are gone
        made.deleting_since = world.time.now
        cluster.note_workload(made)
        world.time.after(float(act.count or 30), lambda: cluster.remove_workload(made))
    elif made.kind == "Pod":
        _end_bare(world, cluster, made)
    else:
        cluster.remove_workload(made)


def _end_bare(world: World, cluster: SimCluster, made: Workload) -> None:
    made.deleting_since = world.time.now
    made.touch()
    for pod in cluster.list_pods_of(made):
        cluster.end_pod(pod, world.draw_termination())
    if not cluster.list_pods_of(made):
        cluster.remove_workload(made)


def _recreate(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    if made.kind == "Pod":
        return
    cluster.remove_workload(made)
    shape = _name_shape(made)
    name = OTHER[shape.partition("+")[0]] if act.flag else shape
    world.time.after(
        float(act.count),
        lambda: (
            _add(world, cluster, made.kind, made.name, name, made.replicas, pinned=made.pinned)
            if _find(cluster, made.name) is None
            else None
        ),
    )


def _name_shape(made: Workload) -> str:
    base = next(name for name, shape in SHAPES.items() if shape == made.shape)
    return f"{base}+spot" if made.spot else base


def _suspend(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    del world
    if made.kind in SUSPENDED and not made.suspended and not made.terminal:
        cluster.suspend(made, says=not act.flag)


def _resume(_world: World, cluster: SimCluster, made: Workload, _act: Act) -> None:
    if made.suspended:
        cluster.resume(made)


def _scale(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    if made.kind in SCALED and made.replicas != act.count and (made.kind != "StatefulSet" or made.elastic):
        made.replicas, made.changed_at = act.count, world.time.now
        made.respec()
        cluster.note_workload(made)


def _respec(world: World, cluster: SimCluster, made: Workload, _act: Act) -> None:
    if made.kind in SCALED:
        base = _name_shape(made).partition("+")[0]
        made.shape, made.changed_at = SHAPES[OTHER[base]], world.time.now
        made.respec()
        cluster.note_workload(made)


def _restart(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    if made.kind in RESTARTED and not made.over:
        made.restarts += 1
        made.touch()
        cluster.note_workload(made)
        if act.flag:
            for pod in cluster.list_pods_of(made):
                cluster.end_pod(pod, world.rng.random() * 20)


def _complete(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    if made.kind not in ENDING or made.terminal:
        return
    word = "Failed" if act.flag else {"JobSet": "Completed", "Job": "Complete"}.get(made.kind, "Succeeded")
    made.terminal, made.changed_at = word, world.time.now
    made.terminal_since = made.changed_at + world.scenario.skew_seconds
    for pod in cluster.list_pods_of(made):
        if act.flag and made.kind != "Pod":
            cluster.end_pod(pod, world.draw_termination())
        else:
            cluster.finish_pod(pod, "Failed" if act.flag else "Succeeded")
    cluster.note_workload(made)


def _evict(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    pods = [pod for pod in cluster.list_pods_of(made) if pod.live]
    if pods:
        cluster.end_pod(pods[act.count % len(pods)], world.rng.random() * 30)


# --- pools ----------------------------------------------------------------------------------------


def _list_pools(world: World, cluster: SimCluster, made: Workload) -> list[Pool]:
    pools = world.gke.pools[cluster.name].values()
    return [pool for pool in pools if pool.owner and (pool.owner.kind, pool.owner.name) == (made.kind, made.name)]


def _preempt(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    """Take nodes of the first pool away; they come back unless the flag is set."""
    for pool in [each for each in _list_pools(world, cluster, made) if each.status == PoolStatus.RUNNING][:1]:
        names = cluster.list_nodes_of(pool.name)
        for name in names if act.count > 1 else names[:1]:
            cluster.remove_node(name)
        if not pool.short:
            left, answer = len(cluster.list_nodes_of(pool.name)), EXHAUSTED.format(zone=pool.zone)
            coming, answer = (0, answer) if act.flag else (pool.size - left, "")
            pool.note_machines(world.time.now, made=left, coming=coming, error=answer, stays=not pool.autoscaled)
        if not act.flag:
            world.time.after(60 + world.rng.random() * 200, lambda pool=pool: _repair(world, pool))  # type: ignore[misc]


def _repair(world: World, pool: Pool) -> None:
    if world.gke.pools[pool.cluster].get(pool.name) is pool and pool.status not in (
        PoolStatus.STOPPING,
        PoolStatus.PROVISIONING,
    ):
        world.gke.fill(pool)


def _degrade(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    """Let GKE report errors of a pool whose nodes all work."""
    for pool in [each for each in _list_pools(world, cluster, made) if each.status == PoolStatus.RUNNING][:1]:
        status = PoolStatus.ERROR if act.flag else PoolStatus.RUNNING_WITH_ERROR
        world.gke.set_status(pool, status, "an instance group reports errors")


def _remove_pool(world: World, cluster: SimCluster, made: Workload, _act: Act) -> None:
    for pool in _list_pools(world, cluster, made)[:1]:
        if pool.status not in (PoolStatus.STOPPING, PoolStatus.PROVISIONING):
            world.gke.stop(pool)
            pool.relabelled_at = world.time.now


def _relabel(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    for pool in _list_pools(world, cluster, made)[:1]:
        key = labels.MANAGER if act.flag else labels.CREATED_AT
        kept = {name: value for name, value in pool.labels.items() if name != key}
        world.gke.relabel(pool, kept)


def _enlarge(world: World, cluster: SimCluster, made: Workload, _act: Act) -> None:
    for pool in [each for each in _list_pools(world, cluster, made) if each.status == PoolStatus.RUNNING][:1]:
        if made.elastic:
            pool.size += 1
            world.time.after(40.0, lambda pool=pool: _repair(world, pool))  # type: ignore[misc]


def _take_name(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    """Let a stranger's pool have the name of the next slice's pool."""
    try:
        slices = list_slices(made.view)
    except Rejected:
        return
    for found in slices[:1]:
        name = build_pool_name(claim_slice(cluster.name, made.view, found))
        if name not in world.gke.pools[cluster.name]:
            _add_foreign(world, cluster, name, {"team": "a"}, failed=act.flag)


def _add_foreign(
    world: World,
    cluster: SimCluster,
    name: str,
    given: dict[str, str],
    *,
    shape: Shape = SHAPES["one"],
    failed: bool = False,
) -> None:
    status = PoolStatus.ERROR if failed else PoolStatus.RUNNING
    pool = Pool(cluster.name, name, given, status, shape.hosts, shape.machine_type, shape.topology, world.time.now)
    pool.size, pool.accelerator, pool.pinned = shape.hosts, shape.accelerator, "team" in given
    pool.gpus = shape.units if shape.gpu else 0
    world.gke.add(pool)
    if not failed:
        world.gke.fill(pool)


def _add_go_pool(world: World, cluster: SimCluster, made: Workload, _act: Act) -> None:
    """Let there be a pool that the Go provisioner made for a JobSet."""
    name = f"tpu-provisioner-{made.name}"
    if made.kind == "JobSet" and name not in world.gke.pools[cluster.name]:
        fields = {
            labels.MANAGER: labels.MANAGER_VALUE,
            labels.PARENT_KIND: "job",
            labels.PARENT_NAME: f"{made.name}-w-0",
            labels.PARENT_NAMESPACE: NAMESPACE,
            jobset.JOBSET_NAME: made.name,
            jobset.JOBSET_NAMESPACE: NAMESPACE,
        }
        _add_foreign(world, cluster, name, fields, shape=made.shape)


# --- the rest -------------------------------------------------------------------------------------


def _add_bystander(world: World, cluster: SimCluster, act: Act) -> None:
    _add_foreign(world, cluster, f"team-pool-{act.name}", {"team": "a"}, failed=act.flag)


def _stop_exporter(world: World, cluster: SimCluster, act: Act) -> None:
    world.exporters[cluster.name].stop()
    world.time.after(float(act.count), world.exporters[cluster.name].start)


def _stop(world: World, cluster: SimCluster, act: Act) -> None:
    """Set the emergency stop, and take it back after a while."""
    cluster.stop_mode, cluster.stopped_at = "report-only" if act.flag else "no-create", world.time.now

    def resume() -> None:
        cluster.stop_mode = ""

    world.time.after(float(act.count), resume)


def _replay(world: World, _cluster: SimCluster, _act: Act) -> None:
    world.replay()


def _send_rubbish(world: World, cluster: SimCluster, act: Act) -> None:
    """Let a stranger publish what is no event, or one of a cluster that is not served."""
    attributes = {"ce-specversion": "1.0", "ce-type": "tpuprovisioner.demand.v1"}
    source = "//container.googleapis.com/projects/p/locations/l/clusters/other" if act.flag else "?"
    text = '{"version":1,"kind":"Pod","namespace":"default","name":"x","uid":"u","observed":"unschedulable"}'
    data = text.encode() if act.flag else b"rubbish"
    body = build_push(Message(data, attributes | {"ce-source": source}))
    world.send(cluster.name, Sent("provision", body, "rubbish"))


_ON_WORLD: dict[str, Callable[[World, SimCluster, Act], None]] = {
    "create": _create,
    "bystander": _add_bystander,
    "exporter-down": _stop_exporter,
    "replay": _replay,
    "stop": _stop,
    "rubbish": _send_rubbish,
}
_ON_WORKLOAD: dict[str, Callable[[World, SimCluster, Workload, Act], None]] = {
    "delete": _delete,
    "recreate": _recreate,
    "suspend": _suspend,
    "resume": _resume,
    "scale": _scale,
    "respec": _respec,
    "restart": _restart,
    "complete": _complete,
    "evict": _evict,
    "preempt": _preempt,
    "degrade": _degrade,
    "remove-pool": _remove_pool,
    "relabel": _relabel,
    "enlarge": _enlarge,
    "take-name": _take_name,
    "go-pool": _add_go_pool,
}
