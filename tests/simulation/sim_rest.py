"""Judges a story at rest: every demand is answered, every pool is needed, both functions agree."""

from __future__ import annotations

from bisect import bisect

from msgspec.structs import replace

from shared.engine.budget import Key
from shared.engine.outside import Role
from shared.engine.reconcile import plan_for
from shared.model.errors import ProvisionerError
from shared.model.pools import PoolStatus
from tests.simulation.sim_cluster import SimCluster, SimPod
from tests.simulation.sim_faults import Invocation
from tests.simulation.sim_pool_bodies import RESTING, Pool
from tests.simulation.sim_scenarios import EVENT_SECONDS
from tests.simulation.sim_workloads import NAMESPACE, Workload
from tests.simulation.sim_world import World

BOTH_TICKS = 5  # for so many ticks two whole pools of one slot may stand beside each other
DELETE_TICKS = 3  # for so many ticks a delete holds its operation slot
ORPHAN_TICKS = 3
USELESS_SECONDS = 900.0
"""A pool that is whole and serves nobody is given back after so long, and some ticks."""
TICK_SECONDS = 60.0
PART_SECONDS = 600.0
"""So long after its time a part of a gang may be there: creates cannot be deleted."""
STOCKED_SECONDS = 2.0 * 1800
"""A slice that finds no capacity is tried again after a pause of at most half an hour."""


def take_truth(world: World) -> set[tuple[str, str, str, int]]:
    """Return every pool with its state and size, to be compared."""
    pools = (pool for pools in world.gke.pools.values() for pool in pools.values())
    return {(pool.cluster, pool.name, str(pool.status), pool.size) for pool in pools}


# --- during the rest ------------------------------------------------------------------------------


def judge_tick(world: World) -> None:
    """Report what has lasted for too long, after some ticks without any failure."""
    if world.scenario.mode != "active" or world.time.now - world.settled_at < TICK_SECONDS * BOTH_TICKS:
        return
    for cluster in world.clusters.values():
        if cluster.stop_mode:
            continue
        slots: dict[tuple[str, ...], list[Pool]] = {}
        for pool in world.gke.pools[cluster.name].values():
            if pool.owner is not None and pool.owner.slot is not None and _served_nobody(cluster, pool):
                slots.setdefault(pool.place, []).append(pool)
        for pools in slots.values():
            _judge_both(cluster, pools)
        _judge_gangs(cluster)


def _count_ticks(cluster: SimCluster, since: float) -> int:
    ticks = cluster.world.ticks[cluster.name]
    return len(ticks) - bisect(ticks, since)


def _count_delete_ticks(cluster: SimCluster) -> int:
    """Return how many ticks the deletes of all pools take, where few operations run at once."""
    slots = cluster.world.scenario.operation_slots
    return DELETE_TICKS * len(cluster.world.gke.pools[cluster.name]) // slots if slots else 0


def _served_nobody(cluster: SimCluster, pool: Pool) -> bool:
    """Return whether a pool is whole for so long that it is useless to the pods beside it.

    Some ticks have passed since, and each delete before it could begin.
    """
    if pool.healthy_since is None:
        return False
    ticks = _count_ticks(cluster, pool.healthy_since + USELESS_SECONDS)
    return ticks > BOTH_TICKS + _count_delete_ticks(cluster)


def _judge_both(cluster: SimCluster, pools: list[Pool]) -> None:
    """Report two whole pools of one slot of which one is used by nobody."""
    world, made = cluster.world, cluster.find_owner(pools[0])
    if len(pools) < 2 or made is None or made.over:
        return
    if any(pod.workload is not made for pool in pools for pod in cluster.list_holders(pool)):
        return  # one is taken, and left out of the count
    quiet = world.time.now - made.changed_at > TICK_SECONDS
    idle = quiet and any(pool.status in RESTING and not cluster.list_holders(pool) for pool in pools)
    # A pod that is younger than both may yet be placed on either.
    ready = min(pool.healthy_since or 0.0 for pool in pools)
    waits = any(pod.live and pod.node is None and pod.made_at < ready for pod in cluster.list_pods_of(made))
    if idle and waits and world.scenario.cap > len(pools):
        names = " and ".join(pool.name for pool in pools)
        world.judge.report("one pool per slot", f"{names} are whole for some ticks, and pods wait beside them")


def _judge_gangs(cluster: SimCluster) -> None:
    """Report a gang that holds a part of its pools for longer than it may."""
    world, now = cluster.world, cluster.world.time.now
    bound = world.scenario.check_seconds + PART_SECONDS + _count_delete_ticks(cluster) * TICK_SECONDS
    for entry in cluster.kueue.entries.values():
        made = entry.made
        pools = [pool for pool in world.gke.list_owned(cluster.name, made) if pool.status in RESTING]
        # One that others use can go no more: in use comes first.
        whole = any(pool.healthy_since is not None and not cluster.list_holders(pool) for pool in pools)
        part = whole and made.suspended and entry.admitted_at is None
        # What could not go after a Retry, since GKE still made it, counts anew with new quota.
        began_at = max(entry.part_since or now, entry.reserved_at or 0.0)
        if world.gke.is_blocked(cluster.name, TICK_SECONDS):
            began_at = now  # a create that hangs holds the last operation slot, and cannot be ended
        entry.part_since = began_at if part else None
        if entry.part_since is not None and now - max(entry.part_since, world.settled_at) > bound:
            world.judge.report("all or nothing", f"{made.name} holds a part of its pools for {bound:.0f} s")
            entry.part_since = None


# --- at rest --------------------------------------------------------------------------------------


def judge_rest(world: World) -> None:
    """Report what is not as it should be now that nothing happens any more."""
    for sent in world.sent:
        lasts = "has ended" in sent.text or sent.attempts >= 20
        if not (sent.answered or lasts):
            world.judge.report("no message lost", f"no answer after {sent.attempts} deliveries: {sent.text}")
    for cluster in world.clusters.values():
        for made in cluster.workloads.values():
            _judge_demand(cluster, made)
        for pool in world.gke.pools[cluster.name].values() if world.scenario.mode != "report-only" else ():
            why = _find_uselessness(cluster, pool)
            if why:
                world.judge.report("every pool ends", f"{pool.name} ({pool.status}) stays: {why}")


def _judge_demand(cluster: SimCluster, made: Workload) -> None:
    """Report a workload that waits without a word, or without what could be had for long."""
    waits = [pod for pod in cluster.list_pods_of(made) if pod.live and pod.view.unschedulable]
    words, judge = list_words(cluster, made, waits), cluster.world.judge
    if waits and not words:
        judge.report("every demand answered", f"silence for {made.kind} {made.name}")
    elif waits and _is_left_without(cluster, made, waits, words):
        text = f"[{words[-1]}] is the last word for {made.kind} {made.name}"
        judge.report("served when there is capacity", text)


def list_words(cluster: SimCluster, made: Workload, waits: list[SimPod]) -> list[str]:
    """Return the reasons that the owner can read on the workload and its pods, the latest last."""
    since = cluster.world.time.now - EVENT_SECONDS - TICK_SECONDS
    rows = sorted(
        (at, message.rpartition("[")[2].rstrip("]"))
        for uid in {made.uid, *(pod.view.uid for pod in waits)}
        for (_, message), at in cluster.events.get(uid, {}).items()
    )
    return [reason for at, reason in rows if at >= since]


LASTING = {"limit_reached", "stopped", "pool_useless", "slice_mixed", "slice_doubled", "followers_wait"}
LASTING |= {"pool_taken", "pods_tie_node"}
"""Reasons for which a slice may wait although a zone has machines."""
SERVED_REASONS = {"pool_absent", "pool_in_progress", "paused", "stockout", "no_operation_slot", "pool_failed"}
"""Reasons that promise another try."""


def _is_left_without(cluster: SimCluster, made: Workload, waits: list[SimPod], words: list[str]) -> bool:
    """Return whether a workload waits although all that it lacks could be had for long."""
    world, scenario, now = cluster.world, cluster.world.scenario, cluster.world.time.now
    stops = scenario.mode != "active" or cluster.stop_mode
    if stops or made.over or not made.tolerates or set(words) & LASTING:
        return False
    if words[-1] not in SERVED_REASONS or "flex-start" in scenario.tiers:  # its wait is its own
        return False
    hosts = 1 if made.elastic else made.shape.hosts
    zones = [each for each in world.list_zones(made) if not world.faults.is_out_of_stock(cluster.name, each)]
    stocked = any(world.gke.find_room(cluster.name, zone) >= hosts for zone in zones)
    stocked = stocked and not world.faults.lasts(cluster.name, "no-chips", "no-quota")
    coming = any(
        pool.status == PoolStatus.PROVISIONING or now - pool.made_at < STOCKED_SECONDS
        for pool in world.gke.list_owned(cluster.name, made)
    )
    # Kubernetes tells of a pod with its own clock.
    old = all(now - pod.made_at > STOCKED_SECONDS + scenario.skew_seconds for pod in waits)
    return stocked and old and not coming


def _find_uselessness(cluster: SimCluster, pool: Pool) -> str:
    """Return why nobody needs a pool of ours; empty if somebody does."""
    owner, made = pool.owner, cluster.find_owner(pool)
    comes_or_ends = pool.status in (PoolStatus.STOPPING, PoolStatus.PROVISIONING)
    if owner is None or comes_or_ends or cluster.list_holders(pool):
        return ""
    if not _is_proven(cluster, pool):
        return ""
    if made is None:
        return "its owner is gone"
    if made.terminal or made.deleting_since is not None:
        return "its owner is over"
    if made.suspended:
        return "" if made.uid in cluster.kueue.entries else "its owner is suspended"
    return _find_surplus(cluster, pool, made) or _find_idleness(cluster, pool, made)


def _is_proven(cluster: SimCluster, pool: Pool) -> bool:
    """Return whether something proves the cluster of a pool: one of the Go program needs a node."""
    if pool.owner is None or pool.owner.created_at:
        return True
    return bool(cluster.list_nodes(pool) or (pool.status == PoolStatus.ERROR and cluster.nodes))


def _find_surplus(cluster: SimCluster, pool: Pool, made: Workload) -> str:
    """Return why a pool is not needed while all pods of its workload run; empty if it is.

    One that none of its pods fits is not needed, whatever they wait for.
    """
    ours = pool.owner is not None and pool.owner.slot is not None
    if not pool.answers(made) and ours:
        return f"no pod of its {made.kind} asks for it"
    pods, wanted = [pod for pod in cluster.list_pods_of(made) if pod.live], made.list_pods()
    if len(pods) != len(wanted) or any(pod.node is None for pod in pods):
        return ""
    homes = {(pod.plan.slice_name, pod.node.pool.name) for pod in pods if pod.node}
    if made.elastic:
        return _find_elastic_surplus(cluster, pool, made)
    slices = len({plan.slice_name for plan in wanted})
    if len(homes) > len({name for name, _ in homes}):
        return ""  # a slice runs on two pools: its owner is told, and nothing is taken away
    owned = cluster.world.gke.list_owned(cluster.name, made)
    count = sum(each.status != PoolStatus.STOPPING for each in owned)
    return f"its {made.kind} has {slices} slices and {count} pools" if count > slices and ours else ""


def _find_elastic_surplus(cluster: SimCluster, pool: Pool, made: Workload) -> str:
    """Return why an elastic pool is not needed, or may have too many nodes; empty if it is."""
    shared = cluster.world.gke.list_fitting(cluster.name, made)
    # Each of them keeps a maximum of one, which costs nothing.
    size, most = sum(each.size for each in shared), max(made.count_nodes(), 1) + len(shared) - 1
    is_free = pool.size <= 1 and not cluster.list_nodes(pool)
    nodes = sum(len(cluster.list_nodes(each)) for each in shared)
    if is_free or (pool.fits(made) and size <= max(most, nodes)):
        return ""
    return f"its {made.kind} wants {len(made.list_pods())} pods, it may have {size}"


def _find_idleness(cluster: SimCluster, pool: Pool, made: Workload) -> str:
    """Return why a pool without use is given back although pods wait; empty if it is not.

    The pods of a slice that runs in part are held by its other pods. Kubernetes tells the age of a
    pod with its own clock.
    """
    since, pods, ahead = pool.healthy_since, cluster.list_pods_of(made), cluster.world.scenario.skew_seconds
    begun = {pod.plan.slice_name for pod in pods if pod.node is not None}
    waits = [
        pod
        for pod in pods
        if pod.live
        and pod.view.unschedulable
        and pod.plan.slice_name not in begun
        and pool.pin in ("", f"{NAMESPACE}_{pod.plan.slice_name}")
    ]
    if since is None or all(pod.made_at + ahead >= since for pod in waits):
        return ""
    late = _count_ticks(cluster, since + USELESS_SECONDS + ahead) > ORPHAN_TICKS
    return "a pod is older than its nodes, and was placed on none of them" if late else ""


# --- both functions -------------------------------------------------------------------------------


def judge_agreement(world: World) -> None:
    """Report a plan with an act at rest: both functions make the same one."""
    if world.scenario.mode != "active":
        return
    ports = replace(world.functions.live[Role.PROVISION][0].ports, adds=None)  # they can only read

    def look() -> None:
        for cluster in world.clusters.values():
            for made in list(cluster.workloads.values()):
                key = Key(cluster.name, made.kind, NAMESPACE, made.name)
                try:
                    _, plan = plan_for(key, ports)
                except ProvisionerError:
                    continue
                pools = world.gke.pools[cluster.name]
                acts = [
                    f"{act.verb} {act.pool or act.slot}"
                    for act in (*plan.adds, *plan.takes)
                    if act.pool not in pools or _is_proven(cluster, pools[act.pool])
                ]
                if acts and not cluster.stop_mode:
                    world.judge.report("plans at rest", f"{made.kind} {made.name} still has {', '.join(acts)}")

    world.time.spawn(look, Invocation("the judge", 0, world.time.now))
    world.time.run_until(world.time.now + 30)
