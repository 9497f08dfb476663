"""What people and controllers do in a scenario, applied to its world."""

from collections.abc import Callable
from functools import partial

from shared.engine.outside import Role
from shared.model import labels
from shared.model.messages import Message
from shared.model.pools import NodePool, PoolStatus
from shared.model.workloads import Taint
from tests.builders import a_push
from tests.simulation.sim_cluster import SimCluster
from tests.simulation.sim_pool_bodies import RESTING, Pool
from tests.simulation.sim_pools import EXHAUSTED
from tests.simulation.sim_scenario import CLUSTERS, ZONE, Act
from tests.simulation.sim_workloads import NAMESPACE, OTHER, SHAPES, Shape, Workload
from tests.simulation.sim_world import Sent, World


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
    _add(world, cluster, act.kind, act.name, act.shape, act.count, pinned=act.flag)


def _add(
    world: World,
    cluster: SimCluster,
    kind: str,
    name: str,
    shape: str,
    replicas: int,
    *,
    pinned: bool,
    queued: bool = False,
) -> None:
    """Let a workload exist, unless another one has the name."""
    if _find(cluster, name) is not None:
        return
    base, _, tier = shape.partition("+")
    uid, now = world.make_uid("uid"), world.time.now
    made = Workload(
        kind, name, uid, SHAPES[base], replicas, pinned, made_at=now + world.scenario.skew_seconds, changed_at=now
    )
    made.spot, made.tolerates = bool(tier), tier != "spot-intolerant"
    if queued:
        made.queued = made.suspended = True
        made.check_seconds = world.scenario.check_seconds
        made.suspended_at = now
    cluster.add_workload(made)
    if queued:
        cluster.kueue.see(made)


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
    add = partial(_add, world, cluster, made.kind, made.name, name, made.replicas, pinned=made.pinned)
    world.time.after(float(act.count), add)


def _name_shape(made: Workload) -> str:
    base = next(name for name, shape in SHAPES.items() if shape == made.shape)
    return f"{base}+spot" if made.spot else base


def _suspend(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    del world
    if made.can("suspend") and not (made.suspended or made.terminal or made.queued):
        cluster.suspend(made, says=not act.flag)


def _resume(_world: World, cluster: SimCluster, made: Workload, _act: Act) -> None:
    if made.suspended and not made.queued:
        cluster.resume(made)


def _scale(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    if made.can("scale") and made.replicas != act.count and (made.kind != "StatefulSet" or made.elastic):
        made.replicas, made.changed_at = act.count, world.time.now
        made.generation += 1
        cluster.note_workload(made)


def _respec(world: World, cluster: SimCluster, made: Workload, _act: Act) -> None:
    if made.can("scale"):
        base = _name_shape(made).partition("+")[0]
        made.shape, made.changed_at = SHAPES[OTHER[base]], world.time.now
        made.generation += 1
        cluster.note_workload(made)


def _restart(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    if made.can("restart") and not made.over:
        made.restarts += 1
        made.touch()
        cluster.note_workload(made)
        if act.flag:
            for pod in cluster.list_pods_of(made):
                cluster.end_pod(pod, world.rng.random() * 20)


def _complete(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    if not made.can("complete") or made.terminal:
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
    """Take machines of the first pool away; GKE tries to make them anew unless the flag is set."""
    for pool in [each for each in _list_pools(world, cluster, made) if each.status == PoolStatus.RUNNING][:1]:
        names = [node.name for node in cluster.list_nodes(pool)]
        for name in names if act.count > 1 else names[:1]:
            world.gke.lose_node(pool, name)
        answer = EXHAUSTED.format(zone=pool.zone) if act.flag else ""
        coming = 0 if act.flag or pool.autoscaled else pool.size - pool.granted
        pool.note_machines(
            world.time.now, made=pool.granted, coming=coming, error=answer, stays=not pool.autoscaled
        )
        pool.asked = min(pool.asked, pool.granted)
        if not act.flag and not pool.autoscaled:
            world.time.after(60 + world.rng.random() * 200, partial(_repair, world, pool))


def _repair(world: World, pool: Pool) -> None:
    if world.gke.pools[pool.cluster].get(pool.name) is pool and pool.status in RESTING:
        pool.granted += world.gke.find_machines(pool, pool.size - pool.granted)
        world.gke.fill(pool)


def _degrade(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    """Let GKE report errors of a pool whose nodes all work."""
    whole = [each for each in _list_pools(world, cluster, made) if each.healthy_since is not None]
    for pool in [each for each in whole if each.status == PoolStatus.RUNNING][:1]:
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
        kept = {name: value for name, value in pool.listed.labels.items() if name != key}
        world.gke.relabel(pool, kept)


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
    listed = NodePool(
        name=name,
        status=status,
        labels=given,
        taints=(Taint("team", given["team"], "NoSchedule"),) if "team" in given else (),
        machine_type=shape.machine_type,
        accelerator=shape.accelerator if shape.gpu else "",
        gpus_per_node=shape.units if shape.gpu else 0,
        topology=shape.topology if shape.hosts > 1 else "",
        maximum=shape.hosts,
        zones=(ZONE,),
    )
    pool = Pool(cluster.name, listed, world.time.now, size=shape.hosts, begins=shape.hosts)
    pool.granted = 0 if failed else pool.size
    world.gke.add(pool)
    if not failed:
        world.gke.fill(pool)


def _go_pool(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    """Let there be a pool that the Go provisioner made for a JobSet. It made TPU pools only."""
    name, serves = f"tpu-provisioner-{made.name}", made.kind == "JobSet" and not made.shape.gpu
    if serves and not made.pinned and name not in world.gke.pools[cluster.name]:
        fields = {
            labels.MANAGER: labels.MANAGER_VALUE,
            labels.PARENT_KIND: "job",
            labels.PARENT_NAME: f"{made.name}-w-0",
            labels.PARENT_NAMESPACE: NAMESPACE,
            labels.JOBSET_NAME: made.name,
            labels.JOBSET_NAMESPACE: NAMESPACE,
        }
        _add_foreign(world, cluster, name, fields, shape=made.shape, failed=act.count > 1)


def _static_pool(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    """Let an operator make a pool on which the workload may run."""
    name = f"static-{made.name}-{act.at:.0f}"
    _add_foreign(world, cluster, name, {"made-by": "operator"}, shape=made.shape)


def _visitor(world: World, cluster: SimCluster, made: Workload, _act: Act) -> None:
    """Let a pod that asks the same come by itself; it may run on any pool that fits it."""
    if made.shape.hosts == 1:
        _add(world, cluster, "Pod", f"visitor-{made.name}", _name_shape(made), 1, pinned=False)


def _finish_slice(world: World, cluster: SimCluster, made: Workload, act: Act) -> None:
    """Let the Job of one slice end while its JobSet lives."""
    left = [index for index in range(made.replicas) if index not in made.finished]
    if made.kind != "JobSet" or len(left) < 2 or made.over:
        return
    index = left[act.count % len(left)]
    made.finished, made.changed_at = made.finished | {index}, world.time.now
    for pod in cluster.list_pods_of(made):
        if pod.plan.slice_name == f"{made.name}-w-{index}":
            cluster.finish_pod(pod, "Succeeded")
    cluster.note_workload(made)


# --- queues ---------------------------------------------------------------------------------------


def _queue(world: World, cluster: SimCluster, act: Act) -> None:
    """Create a suspended workload that waits in Kueue's queue."""
    _add(world, cluster, act.kind, act.name, act.shape, act.count, pinned=act.flag, queued=True)


def _evict_queued(_world: World, cluster: SimCluster, made: Workload, _act: Act) -> None:
    cluster.kueue.evict(made)


# --- the rest -------------------------------------------------------------------------------------


def _bystander(world: World, cluster: SimCluster, act: Act) -> None:
    _add_foreign(world, cluster, f"team-pool-{act.name}", {"team": "a"}, failed=act.flag)


def _exporter_down(world: World, cluster: SimCluster, act: Act) -> None:
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


def _rubbish(world: World, cluster: SimCluster, act: Act) -> None:
    """Let a stranger publish what is no event, or one of a cluster that is not served."""
    attributes = {"ce-specversion": "1.0", "ce-type": "tpuprovisioner.demand.v1"}
    source = "//container.googleapis.com/projects/p/locations/l/clusters/other" if act.flag else "?"
    text = '{"version":1,"kind":"Pod","namespace":"default","name":"x","uid":"u"}'
    data = text.encode() if act.flag else b"rubbish"
    body = a_push(Message(data, attributes | {"ce-source": source}))
    world.send(cluster.name, Sent((Role.PROVISION,), body, "rubbish"))


def _name_verb(function: Callable[..., None]) -> str:
    return function.__name__.strip("_").replace("_", "-")


_ON_WORLD: dict[str, Callable[[World, SimCluster, Act], None]] = {
    _name_verb(each): each for each in (_create, _queue, _bystander, _exporter_down, _replay, _stop, _rubbish)
}
_ON_POOLS = _preempt, _degrade, _remove_pool, _relabel, _visitor, _static_pool, _go_pool
_ON_PODS = _delete, _recreate, _suspend, _resume, _scale, _respec, _restart, _complete, _evict, _finish_slice
_ON_WORKLOAD: dict[str, Callable[[World, SimCluster, Workload, Act], None]] = {
    _name_verb(each): each for each in (*_ON_PODS, *_ON_POOLS, _evict_queued)
}
