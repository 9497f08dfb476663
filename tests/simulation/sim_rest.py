"""Judges a scenario at rest: every demand answered, every pool needed, nothing lost."""

from shared.kinds.table import get_kind
from shared.model.pools import PoolStatus
from shared.model.times import AHEAD_SECONDS_MAX
from tests.simulation.sim_cluster import SimCluster, SimPod
from tests.simulation.sim_filling import fits
from tests.simulation.sim_judge import read_reason, tells_suspension
from tests.simulation.sim_pool_bodies import Pool
from tests.simulation.sim_scenario import DRAIN_SECONDS, EVENT_SECONDS
from tests.simulation.sim_workloads import Workload, list_pods
from tests.simulation.sim_world import World

IDLE_REASONS = {
    "pool_serves",
    "pool_absent",
    "pool_in_progress",
    "pool_in_progress_differs",
    "pool_stopping",
    "pool_grows",
}
"""Reasons that promise a change; at rest nothing changes any more."""
EMPTY_REASONS = {"pod_unplaced", "pool_in_progress", "pool_serves", "pool_degraded"}
"""Reasons that say that an empty pool of the slice is all that it gets."""
Truth = dict[str, tuple[tuple[str, str, int], ...]]


def judge_rest(world: World) -> None:
    """Report what is not as it should be now that nothing happens any more."""
    for sent in world.sent:
        under_way = sent.function == "settle" and sent.attempts <= (world.running > 0)  # creations fail for ever
        if not (sent.answered or under_way):
            world.judge.report("no message lost", f"no answer after {sent.attempts} deliveries: {sent.text}")
    for cluster in world.clusters.values():
        _judge_demands(world, cluster)
        if world.scenario.mode != "report-only":
            _judge_pools(world, cluster)


def take_truth(world: World) -> Truth:
    """Return every pool with its state and size, to be compared."""
    return {
        name: tuple(sorted((pool.name, str(pool.status), pool.size) for pool in pools.values()))
        for name, pools in world.gke.pools.items()
    }


# --- demands --------------------------------------------------------------------------------------


def _judge_demands(world: World, cluster: SimCluster) -> None:
    slices: dict[tuple[str, str], list[SimPod]] = {}
    for pod in cluster.waiting.values():
        if pod.live and pod.units and pod.view.unschedulable:
            slices.setdefault((pod.workload.uid, pod.plan.slice_name), []).append(pod)
    for pods in slices.values():
        made = pods[0].workload
        told_at, latest = _find_latest(world, cluster, pods)
        what = f"{made.kind} slice {pods[0].plan.slice_name} ({_describe_pools(world, cluster, pods)})"
        leads = any(pod.leads for pod in pods)
        who = "its leader" if leads else "only followers"
        if leads and _keeps_wrong_shape(world, cluster, made, what):
            world.judge.report("every demand answered", f"an empty pool is not replaced for {what}")
        elif latest is None:
            world.judge.report("every demand answered", f"silence for {what}, {who} waits")
        elif _is_left_without(world, cluster, pods, latest, what):
            world.judge.report(
                "served when there is capacity", f"[{read_reason(latest)}] is the last word for {what}"
            )
        elif _promises(
            latest, what, empty=bool(_list_empty(world, cluster, pods)), looked=told_at < world.swept_at
        ) and not world.faults.is_out_of_stock(cluster.name):
            world.judge.report(
                "every demand answered", f"[{read_reason(latest)}] is the last word for {what}, {who} waits"
            )


def _is_left_without(world: World, cluster: SimCluster, pods: list[SimPod], latest: str, what: str) -> bool:
    """Return whether a slice waits for capacity although a zone of its list has had it for long.

    The scenario has rested for longer than the longest pause and a round of the list together.
    """
    made, name = pods[0].workload, pods[0].plan.slice_name
    hosts = sum(made.elastic or plan.slice_name == name for plan in list_pods(made))
    stocked = _is_stocked(world, cluster, made, hosts)
    if made.elastic and any(cluster.list_nodes_of(each.name) for each in world.gke.list_owned(cluster.name, made)):
        return False  # its pool keeps the nodes that it has
    if not stocked or "PROVISIONING" in what:
        return False
    # Where other pods of the slice run elsewhere, their affinity keeps the rest off an empty pool.
    usable = any(cluster.may_share(pod, pool.name) for pool in _list_empty(world, cluster, pods) for pod in pods)
    counted = usable and not _is_wait_ahead(world)
    return (counted and read_reason(latest) in EMPTY_REASONS) or read_reason(latest) == "stockout"


def _is_wait_ahead(world: World) -> bool:
    """Return whether pods wait since a time to come, which counts when it can be true."""
    return world.scenario.skew_seconds > AHEAD_SECONDS_MAX


def _list_empty(world: World, cluster: SimCluster, pods: list[SimPod]) -> list[Pool]:
    """Return the pools of a slice to which the autoscaler has added no machine."""
    made, name = pods[0].workload, pods[0].plan.slice_name
    owned = [each for each in world.gke.pools[cluster.name].values() if _is_of(each, made)]
    return [each for each in owned if each.waits_empty and each.slice_name == name]


def _is_stocked(world: World, cluster: SimCluster, made: Workload, hosts: int) -> bool:
    """Return whether a zone of a workload's list has machines for so many hosts."""
    return any(
        world.gke.find_room(cluster.name, zone) >= hosts and not world.faults.is_out_of_stock(cluster.name, zone)
        for zone in world.list_zones(made)
    )


def _keeps_wrong_shape(world: World, cluster: SimCluster, made: Workload, what: str) -> bool:
    """Return whether a slice of changeable shape waits beside its empty pool of the earlier shape.

    A version takes the pools of another one for good, so it replaces none of them.
    """
    free = world.scenario.mode == "active" and world.scenario.versions == 1
    stocked = not world.faults.is_out_of_stock(cluster.name)
    return free and stocked and get_kind(made.kind).reshapes and "RUNNING of another shape used by nobody" in what


def _promises(message: str, what: str, *, empty: bool, looked: bool) -> bool:
    """Return whether an Event promises a change, which at rest does not come.

    An empty pool of the slice is such a try, where no zone of its list has machines.
    A try that goes on is true, because the next one follows for ever where no zone has room. That a
    slice waits for the pool of another one is true only while its workload has a free pool. The
    creation of a pool is true until the next look, as long as the ways are tried one by one.
    """
    tries = "PROVISIONING" in what or empty
    if tries and (read_reason(message) == "pool_in_progress" or (not looked and "[pool_absent]" in message)):
        return False
    starves = what.endswith("(RUNNING used by other)")
    return read_reason(message) in IDLE_REASONS or (starves and read_reason(message) == "pool_in_use")


def _find_latest(world: World, cluster: SimCluster, pods: list[SimPod]) -> tuple[float, str | None]:
    """Return the latest Event that still exists about a slice, with its time; None without one.

    It is on a pod, because an Event on the workload may be about another slice. Pods without slices
    share their pools, and the Event is on one of these pods.
    """
    made, name = pods[0].workload, pods[0].plan.slice_name
    found: list[tuple[float, str | None]] = [(0.0, None)]
    for pod in cluster.list_pods_of(made):
        if pod.plan.slice_name != name and (pod.plan.pool_key or not made.elastic):
            continue
        for (_, message), moment in cluster.events.get(pod.view.uid, {}).items():
            if world.time.now - moment <= EVENT_SECONDS:
                found.append((moment, message))
    return max(found, key=lambda each: (each[0], each[1] or ""))


def _describe_pools(world: World, cluster: SimCluster, pods: list[SimPod]) -> str:
    """Return in words what the pools of a waiting slice do."""
    made, slice_name = pods[0].workload, pods[0].plan.slice_name
    messages, hollow = [], False
    for pool in world.gke.list_owned(cluster.name, made):
        if not made.elastic and pool.slice_name != slice_name:
            here = [each for node in cluster.list_nodes(pool) for each in node.pods]
            strangers = any(each.workload is not made for each in here)
            hollow = hollow or strangers or _stays_short(world, cluster, pool, made)
            continue
        users = {
            "own"
            if (made.elastic and each.workload is made) or each.plan.slice_name == slice_name
            else "other"
            if each.workload is made
            else "foreign"
            for node in cluster.list_nodes(pool)
            for each in node.pods
        }
        nodes = len(cluster.list_nodes_of(pool.name))
        other = "" if fits(pool, made) else " of another shape"
        hollow = hollow or (nodes < pool.size and "own" not in users)
        whole = "" if nodes == pool.size else f", {nodes} of {pool.size} nodes"
        messages.append(f"{pool.status}{other}{whole} used by {'+'.join(sorted(users)) or 'nobody'}")
    if hollow:
        messages.append("another pool of the workload short of nodes, or with strangers")
    spot = " spot" if made.spot else ""
    spot += ", clock ahead" if _is_wait_ahead(world) else ""
    return ("; ".join(messages) or "no pool") + spot


def _stays_short(world: World, cluster: SimCluster, pool: Pool, made: Workload) -> bool:
    """Return whether a pool lacks nodes, and is not left for the next way of a list for that."""
    scenario, nodes = world.scenario, len(cluster.list_nodes_of(pool.name))
    left = scenario.candidates > 1 and scenario.mode == "active" and pool.status == PoolStatus.RUNNING
    return nodes < pool.size and not (left and (made.shape.hosts > 1 or not nodes))


# --- pools ----------------------------------------------------------------------------------------


def _judge_pools(world: World, cluster: SimCluster) -> None:
    for pool in world.gke.pools[cluster.name].values():
        owner = pool.owner
        if owner is None or pool.status in (PoolStatus.STOPPING, PoolStatus.PROVISIONING):
            continue
        if owner.created_at is None and not cluster.list_nodes_of(pool.name):
            continue  # the Go provisioner's, and without a node nothing proves its cluster
        made = cluster.find_owner(pool)
        if made is None or owner.owner_uid not in ("", made.uid):
            _report_orphan(world, cluster, pool, "its owner is gone")
        elif made.terminal:
            _report_orphan(world, cluster, pool, "its owner is over")
        elif made.suspended and owner.created_at is None and not tells_suspension(world, made):
            continue  # neither the pool says its age nor the workload since when it is suspended
        elif made.suspended:
            _report_orphan(world, cluster, pool, "its owner is suspended")
        elif made.deleting_since is not None:
            _report_orphan(world, cluster, pool, "its owner is being deleted")
        else:
            _judge_live(world, cluster, pool, made)


def _report_orphan(world: World, cluster: SimCluster, pool: Pool, why: str) -> None:
    users = _list_users(world, cluster, pool)
    if not users:
        swaps = any(each.kind == "swap" for each in world.scenario.faults)
        swapped = "; endpoints had been swapped" if swaps else ""
        world.judge.report("every pool ends", f"{pool.name} ({pool.status}) stays: {why}{swapped}")


def _judge_live(world: World, cluster: SimCluster, pool: Pool, made: Workload) -> None:
    """Report a pool that nothing uses while every pod of its live owner runs somewhere."""
    pods = [pod for pod in cluster.list_pods_of(made) if pod.live]
    wanted = len(list_pods(made))
    users = _list_users(world, cluster, pool)
    if pods and len(pods) == wanted and all(pod.node is not None for pod in pods) and not users:
        owned = [each for each in world.gke.pools[cluster.name].values() if each.owner and _is_of(each, made)]
        slices = len({plan.slice_name for plan in list_pods(made)})
        if len(owned) > slices and pool.owner and pool.owner.owner_uid:  # the Go provisioner's pools say no slice
            text = (
                f"{pool.name} ({pool.status}) stays empty: its {made.kind} has {slices} slices, {len(owned)} pools"
            )
            world.judge.report("every pool ends", text)
        elif pool.owner and pool.owner.idle_seconds and not made.elastic:
            text = f"{pool.name} ({pool.status}) stays empty: its {made.kind} runs on pools that were idle"
            world.judge.report("every pool ends", text)
        else:
            world.judge.idle_pools += 1
    elif _has_spare_nodes(cluster, pool, made, users, wanted):
        world.judge.report("every pool ends", f"{pool.name} keeps {pool.size} nodes, {made.kind} wants {wanted}")
    elif not wanted and not users:
        world.judge.report("every pool ends", f"{pool.name} ({pool.status}) stays: its {made.kind} wants no pods")


def _has_spare_nodes(cluster: SimCluster, pool: Pool, made: Workload, users: list[SimPod], wanted: int) -> bool:
    """Return whether an elastic pool that only its own pods use has more nodes than these.

    So has one with a node that is closed to a pod which could use it.
    """
    if not made.elastic or not users or any(pod.workload is not made for pod in users):
        return False
    nodes = cluster.list_nodes(pool)
    closed = any(node.mark and node.mark.closed for node in nodes)
    of_all = sum(_is_of(node.pool, made) for node in cluster.nodes.values())
    return len(nodes) > max(wanted, len(users)) or (closed and of_all <= wanted)


def _is_of(pool: Pool, made: Workload) -> bool:
    owner = pool.owner
    return owner is not None and (owner.kind, owner.name) == (made.kind, made.name)


def _list_users(world: World, cluster: SimCluster, pool: Pool) -> list[SimPod]:
    now = world.time.now
    return [
        pod
        for pod in cluster.list_users(pool)
        if not (pod.deleting_since is not None and now - pod.deleting_since > DRAIN_SECONDS)
    ]
