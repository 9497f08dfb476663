"""One look at a whole cluster, once a minute: it brings everything to rest without any message.

It reads the cluster's lists once, and works on each workload as a message would. `provision` takes
its keys from pods that wait and from queued workloads, `collect` from the owners of pools.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from shared.engine.kueue import is_answered, list_queued, tend_checks
from shared.engine.look import Key, Lists, map_nodes, sort_nodes, take_inventory
from shared.engine.reads import list_operations, read_stop
from shared.engine.reconcile import Role
from shared.engine.scenes import counts, find_user
from shared.engine.tell import Outcome, forget_old
from shared.engine.work import Work, work_on
from shared.kinds.table import KINDS
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import OutOfTime, ProvisionerError
from shared.model.kueue import QueuedWorkload
from shared.model.labels import DEPLOYMENT
from shared.model.pools import PAID
from shared.model.times import FRESH_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.engine.look import WorkloadName
    from shared.engine.outside import Ports
    from shared.model.workloads import PodView

BEGIN_SECONDS, ACT_SECONDS, TICK_SECONDS = 30.0, 40.0, 50.0
"""How long after its beginning a tick begins with a workload, begins an act, and ends."""
LISTED_MIN = 8
"""So many workloads of a kind are read by a list; fewer are read by their names."""


@dataclass(slots=True)
class Tick:
    """What one tick of one cluster did."""

    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[tuple[str, Exception]] = field(default_factory=list)
    left: int = 0
    """Keys for which no time was left; the next tick begins with them."""
    figures: dict[str, int] = field(default_factory=dict)
    """What it measured, for alerts; empty if the cluster could not be listed."""


def tick(cluster: str, role: Role, ports: Ports) -> Tick:
    """Look at every workload of a cluster that waits, or that has pools. No error is raised.

    An error about one workload stops no other.
    """
    done, memory = Tick(), ports.memory
    try:
        ports.crew.expect_answers(cluster, ports.clock.now())
        lists = read_lists(cluster, ports)
        keys = _list_keys(lists, role, ports, done)
    except ProvisionerError as error:
        ports.crew.note(cluster, error, ports.clock.now())
        memory.spare.pop(cluster, None)
        done.errors.append((cluster, error))
        return done
    memory.nodes[cluster] = {name: len(nodes) for name, nodes in lists.nodes.items()}
    forget_old(memory, lists.began_at)
    if role == Role.PROVISION:
        ports.budget[cluster].begin_tick()
        done.outcomes += _report_limits(lists, ports)
    before = dict.fromkeys(memory.left.get(cluster, ()))
    keys.sort(key=lambda key: key not in before)  # the last tick had no time for these
    _list_workloads(keys, lists, ports, done)
    names = list({ports.settings.own_namespace, *(key.namespace for key in keys)})
    stops = ports.crew.gather([partial(read_stop, cluster, name, ports) for name in names])
    lists.stops.update(zip(names, stops, strict=True))
    _work_on_all(keys, role, ports, lists, done)
    memory.wanted[cluster] = lists.wanted
    return done


def _list_workloads(keys: Sequence[Key], lists: Lists, ports: Ports, done: Tick) -> None:
    """Read the workloads of a kind by a list if they are many; what is not in it is read by name.

    A list's silence is no absence: pools are deleted on that word.
    """
    live = ports.clusters[lists.cluster]
    for kind in KINDS:
        names = {(key.namespace, key.name) for key in keys if key.kind == kind.name}
        if len(names) < LISTED_MIN or not kind.watched:
            continue
        try:
            for each in live.list_workloads(kind.name, names):
                lists.workloads[kind.name, each.namespace, each.name] = each
        except ProvisionerError as error:
            done.errors.append((f"{kind.plural} of {lists.cluster}", error))


def _work_on_all(keys: list[Key], role: Role, ports: Ports, lists: Lists, done: Tick) -> None:
    """Work on keys side by side, and note what is left, and which pools are too many."""
    cluster, memory = lists.cluster, ports.memory

    def work(key: Key) -> Work:
        if ports.clock.now() - lists.began_at > BEGIN_SECONDS:
            raise OutOfTime("the time of this tick is over; the next one begins here")
        return work_on(key, role, ports, lists)

    left_seconds = TICK_SECONDS - (ports.clock.now() - lists.began_at)
    results = ports.crew.run([partial(work, key) for key in keys], seconds=left_seconds)
    left, works = list[Key](), list[Work]()
    for key, result in zip(keys, results, strict=True):
        if isinstance(result, Exception):
            left.append(key)
            continue
        works.append(result)
        done.outcomes += result.outcomes
        done.errors += [(str(key), error) for error in result.errors]
    done.left, memory.left[cluster] = len(left), tuple(left)
    if role == Role.PROVISION:
        done.figures = _measure_demands(works)
        return
    done.figures = _measure_pools(lists)
    spare = frozenset[str]().union(*(work.spare for work in works))
    # What there was no time for is as the tick before this one found it.
    unseen = {pool.name for key in left for pool in lists.inventory.by_owner.get(key.workload, ())}
    memory.spare[cluster] = spare | (unseen & memory.spare.get(cluster, frozenset()))


def read_lists(cluster: str, ports: Ports) -> Lists:
    """Return what a tick reads once for all of its looks; pools come before pods."""
    began_at, live = ports.clock.now(), ports.clusters[cluster]
    operations = ports.crew.fork(partial(list_operations, cluster, ports))
    pools = ports.pools.list(cluster)
    listing = ports.crew.fork(live.list_nodes)
    listed = [pod for pod in live.list_accelerator_pods() if counts(pod)]
    nodes = sort_nodes(listing())
    pools_of = map_nodes(nodes)
    pods: dict[WorkloadName, list[PodView]] = defaultdict(list)
    users: dict[str, list[PodView]] = defaultdict(list)
    for pod in listed:
        pods[find_user(pod)].append(pod)
        if pod.node_name in pools_of:
            users[pools_of[pod.node_name]].append(pod)
    deployment = ports.settings.resource_labels.get(DEPLOYMENT, "")
    inventory = take_inventory(pools, deployment, began_at, nodes)
    ports.budget[cluster].forget_listed(inventory)
    return Lists(
        cluster=cluster,
        inventory=inventory,
        nodes=nodes,
        pools_of=pools_of,
        pods=pods,
        users=users,
        operations=operations(),
        began_at=began_at,
        until=began_at + ACT_SECONDS,
    )


def _list_keys(lists: Lists, role: Role, ports: Ports, done: Tick) -> list[Key]:
    if role == Role.COLLECT:
        return list_owners(lists)
    cluster, queued = lists.cluster, list[QueuedWorkload]()
    try:
        queued = list_queued(cluster, ports)
        done.errors += tend_checks(cluster, queued, ports)
    except ProvisionerError as error:  # pods that wait are served without Kueue too
        done.errors.append((f"Workloads of {cluster}", error))
    keys = [
        Key(cluster, each.owner_kind, each.namespace, each.owner_name)
        for each in queued
        if is_answered(each.owner_kind)
    ]
    return list(dict.fromkeys([*list_waiting(lists, ports.clock.now()), *keys]))


def list_waiting(lists: Lists, now: float) -> list[Key]:
    """Return the workloads whose pods wait: those without a pool first, then the longest wait.

    Then those with an idle pool come, whose mark may have to go.
    """
    owners = lists.inventory.by_owner
    since = {
        owner: min(
            (pod.unschedulable_since or pod.created_at or 0.0 for pod in pods if pod.waits),
            default=now,
        )
        for owner, pods in lists.pods.items()
    }
    waiting = [owner for owner, at in since.items() if now - at >= FRESH_SECONDS]
    waiting.sort(key=lambda owner: (owner in owners, since[owner]))
    names = dict.fromkeys((*waiting, *_list_idle(lists)))
    return [Key(lists.cluster, *name) for name in names]


def _list_idle(lists: Lists) -> list[WorkloadName]:
    """Return the owners of pools whose nodes have our mark."""
    marked = {node.pool for node in chain.from_iterable(lists.nodes.values()) if node.idle_since}
    owners = lists.inventory.by_owner
    return [owner for owner, pools in owners.items() if marked & {pool.name for pool in pools}]


def list_owners(lists: Lists) -> list[Key]:
    """Return the workloads that have pools, the oldest pool first."""
    pools = chain.from_iterable(lists.inventory.by_owner.values())
    owners = [pool.owner for pool in pools if pool.owner]
    owners.sort(key=lambda owner: owner.created_at or 0)
    names = dict.fromkeys((*owner.key, owner.uid) for owner in owners)
    return [Key(lists.cluster, *name) for name in names]


def _report_limits(lists: Lists, ports: Ports) -> list[Outcome]:
    """Return which limits are passed, if that is new; nothing is deleted for it."""
    settings, cluster, notices = ports.settings, lists.cluster, ports.memory.notices
    totals = {f"namespace {name}": chips for name, chips in lists.inventory.chips.items()}
    limits = dict.fromkeys(totals, settings.limit_chips_per_namespace)
    totals[f"cluster {cluster}"] = sum(lists.inventory.chips.values())
    limits[f"cluster {cluster}"] = settings.limit_chips
    outcomes: list[Outcome] = []
    for subject, limit in limits.items():
        place = (cluster, subject, str(Reason.LIMIT_PASSED))
        if 0 < limit < totals[subject] and place not in notices:
            notices[place] = lists.began_at
            chips = f"{totals[subject]} chips, more than the limit of {limit}"
            text = f"the node pools of {subject} have {chips}"
            decision = Decision(Verdict.REFUSE, Reason.LIMIT_PASSED, text)
            outcomes.append(Outcome(decision=decision, cluster=cluster, subject=subject))
    return outcomes


def count_verbs(done: Tick) -> dict[str, int]:
    """Return how many decisions of each verdict a tick made, for its answer."""
    verdicts = Counter(str(outcome.decision.verdict) for outcome in done.outcomes)
    return {"errors": len(done.errors), "left": done.left, **verdicts}


def _measure_demands(works: Iterable[Work]) -> dict[str, int]:
    """Count the workloads that wait and are not refused: GKE has not provided what they lack."""
    waits = []
    for work in works:
        scene = work.look.scene if work.look else None
        since = [pod.created_at for pod in scene.pods if pod.waits] if scene else []
        if scene and since and not work.refused:
            waits.append(scene.now - min(since))
    return {"waiting_demands": len(waits), "oldest_wait_seconds": round(max(waits, default=0.0))}


def _measure_pools(lists: Lists) -> dict[str, int]:
    """Count the chips of nodes of ours without an accelerator pod, and all autoscaled pools."""
    idle = [
        pool.units * len(lists.nodes.get(pool.name, ()))
        for pool in lists.inventory.pools.values()
        if pool.owner and pool.status in PAID and not lists.users.get(pool.name)
    ]
    return {"idle_chips": sum(idle), "autoscaled_pools": lists.inventory.autoscaled}
