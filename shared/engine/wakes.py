"""What wakes a function: a message, the end of an operation, or a tick; all work on keys alike.

One thread works on a key. A wake-up that meets a key under way marks it, and that thread looks once
more. A tick looks at a whole cluster, once a minute: it brings everything to rest without any
message. It reads the cluster's lists once. `provision` takes its keys from pods that wait and from
queued workloads, `collect` from the owners of pools.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain

from msgspec import Struct, structs

from shared.engine.budget import Key, WorkloadName
from shared.engine.kueue import answer_check, is_answered, list_queued, tend_checks
from shared.engine.look import LIVE, Lists, Look, find_user
from shared.engine.outside import Ports
from shared.engine.reads import (
    DELIVERY_SECONDS,
    list_inventory,
    list_operations,
    map_nodes,
    read_stop,
    sort_nodes,
)
from shared.engine.reconcile import Role, Run, reconcile
from shared.engine.tell import (
    ENDED_BY_OPERATIONS,
    Outcome,
    describe_wait,
    explain_end,
    list_answers,
    note,
    tell,
    write_event,
)
from shared.kinds.table import KINDS
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import OutOfTime, ProvisionerError
from shared.model.labels import DEPLOYMENT
from shared.model.messages import EndedOperation
from shared.model.names import parse_name
from shared.model.pools import PAID, NodePool
from shared.model.times import FRESH_SECONDS
from shared.model.workloads import PodView

LAST_LOOK_SECONDS = DELIVERY_SECONDS / 2
"""A look that begins later could outlive the request: one call of GKE may take 30 s."""
TURNS_MAX = 3  # so many workloads are looked at for one free slot
ENDED_SECONDS = 7200.0
"""So long after its create the end of it is told; an older one is a message that comes again."""
SLOW_SECONDS = 600.0  # the end of a create that took so long gives its operation slot to deletions
BEGIN_SECONDS, ACT_SECONDS, TICK_SECONDS = 30.0, 40.0, 50.0
"""How long after its beginning a tick begins with a workload, begins an act, and ends."""
LISTED_MIN = 8  # so many workloads of a kind are read by a list; fewer are read by their names


class Work(Struct):
    """What came of the work on a key."""

    outcomes: list[Outcome] = []
    errors: list[Exception] = []
    look: Look | None = None  # the last one
    spare: frozenset[str] = frozenset()  # the pools that are too many by the last plan
    refused: bool = False
    """Its owner was told that it gets nothing for a cause of its own, or of the operator."""


def work_on(key: Key, role: Role, ports: Ports, lists: Lists = LIVE) -> Work:
    """Reconcile a workload, once more for each wake-up that came meanwhile. No error is raised."""
    work, began_at = Work(), ports.clock.now()
    if not ports.crew.begin(key):
        return work
    try:
        ports.crew.expect_answers(key.cluster, began_at)
        _work_once(key, role, ports, lists, work)
        while ports.crew.goes_on(key):
            _expect_time(began_at, ports)
            _work_once(key, role, ports, LIVE, work)
    except Exception as error:  # noqa: BLE001 -- the net of this workload
        ports.crew.end(key)
        work.errors.append(error)
    ports.crew.note(key.cluster, work.errors[-1] if work.errors else None, ports.clock.now())
    return work


def _expect_time(began_at: float, ports: Ports) -> None:
    if ports.clock.now() - began_at > LAST_LOOK_SECONDS:
        raise OutOfTime("the time of this delivery is over; the next one looks once more")


def _work_once(key: Key, role: Role, ports: Ports, lists: Lists, work: Work) -> None:
    run = reconcile(key, role, ports, lists)
    outcomes = [*run.done, *list_answers(run.look, run.plan, ports)]
    if not outcomes and role == Role.PROVISION and any(pod.waits for pod in run.look.scene.pods):
        outcomes.append(describe_wait(run.look))
    work.look, work.spare = run.look, run.plan.spare
    work.refused = any(each.decision.verdict == Verdict.REFUSE for each in outcomes)
    work.outcomes += tell(outcomes, run.look, ports, tick=lists.whole)
    work.errors += [*run.look.errors, *run.errors]
    if role == Role.PROVISION:
        _take_turn(run, outcomes)
        work.outcomes += answer_check(run.look, run.plan, ports) if ports.queues else []


def _take_turn(run: Run, outcomes: list[Outcome]) -> None:
    """Let a workload wait for the end of an operation if that may let it go on."""
    scene, books = run.look.scene, run.books
    if ENDED_BY_OPERATIONS.isdisjoint(each.decision.reason for each in outcomes):
        books.leave(run.key)
        return
    since = min((pod.created_at for pod in scene.pods if pod.waits), default=scene.now)
    books.wait(run.key, since, begun=bool(scene.queue and scene.pools))


def work_on_end(ended: EndedOperation, role: Role, ports: Ports) -> Work:
    """Answer the end of an operation for its own workload, else for the next in turn.

    `collect` looks at the ends of failed creates and of deletes only.
    """
    if (role == Role.COLLECT and ended.created) or parse_name(ended.pool) is None:
        return Work()
    try:
        pool = ports.pools.get(ended.cluster, ended.pool)
    except ProvisionerError as error:
        return Work(errors=[error])
    books = ports.budget[ended.cluster]
    books.inventory = structs.replace(books.inventory, began_at=0.0)  # no look rests on it
    key = _find_owner(ended, pool, role, ports)
    gives_slot = role == Role.PROVISION and not _is_slow(ended, pool, ports)
    if role == Role.PROVISION and not gives_slot:
        books.leave_to_deletions()
    work = work_on(key, role, ports) if key else Work()
    _tell_end(ended, pool, work, ports)
    if gives_slot:
        _work_on_next(key, ended.cluster, ports, work)
    return work


def _work_on_next(key: Key | None, cluster: str, ports: Ports, work: Work) -> None:
    """Give the free slot to the workload whose turn it is, unless the first one has used it.

    One that cannot use it, as a gang at a limit, leaves it to the next.
    """
    tried = [key]
    until = ports.clock.now() + LAST_LOOK_SECONDS
    while len(tried) <= TURNS_MAX and ports.clock.now() <= until:
        if any(each.acted for each in work.outcomes):
            return
        following = ports.budget[cluster].take_next(but=tried)
        if following is None:
            return
        tried.append(following)
        other = work_on(following, Role.PROVISION, ports)
        work.outcomes += other.outcomes
        work.errors += other.errors


def _find_owner(
    ended: EndedOperation, pool: NodePool | None, role: Role, ports: Ports
) -> Key | None:
    own = ports.settings.resource_labels.get(DEPLOYMENT, "")
    if pool is None or pool.owner is None or pool.deployment not in ("", own):
        return None
    uid = pool.owner.uid if role == Role.COLLECT else ""
    return Key(ended.cluster, *pool.owner.key, uid)


def _is_slow(ended: EndedOperation, pool: NodePool | None, ports: Ports) -> bool:
    """Return whether a create took so long that its slot is left to deletions."""
    if ended.deleted or pool is None or pool.owner is None or pool.owner.created_at is None:
        return False
    return ports.clock.now() - pool.owner.created_at >= SLOW_SECONDS


def _tell_end(ended: EndedOperation, pool: NodePool | None, work: Work, ports: Ports) -> None:
    """Tell the owner what came of a create, unless that is old: its message has come again."""
    decision, created_at = explain_end(ended), pool.owner.created_at if pool and pool.owner else 0
    if decision is None or work.look is None or ports.adds is None:
        return
    if ports.clock.now() - (created_at or 0) >= ENDED_SECONDS:
        return
    outcome = note(decision, work.look, pool=ended.pool)
    write_event(ports.clusters[ended.cluster], outcome, work.look.workload)
    work.outcomes.insert(0, outcome)


class Tick(Struct):
    """What one tick of one cluster did."""

    outcomes: list[Outcome] = []
    errors: list[tuple[str, Exception]] = []
    left: int = 0  # keys for which no time was left; the next tick begins with them
    figures: dict[str, int] = {}
    """What it measured, for alerts; empty if the cluster could not be listed."""


def tick(cluster: str, role: Role, ports: Ports) -> Tick:
    """Look at every workload of a cluster that waits, or that has pools. No error is raised.

    An error about one workload stops no other.
    """
    done, books = Tick(), ports.budget[cluster]
    try:
        ports.crew.expect_answers(cluster, ports.clock.now())
        lists = read_lists(cluster, ports)
        keys = list_owners(lists) if role == Role.COLLECT else _list_demands(lists, ports, done)
    except ProvisionerError as error:
        ports.crew.note(cluster, error, ports.clock.now())
        books.spare = frozenset()
        done.errors.append((cluster, error))
        return done
    books.begin_tick(lists.began_at)
    if role == Role.PROVISION:
        done.outcomes += _report_limits(lists, ports)
    before = set(books.left)
    keys.sort(key=lambda key: key not in before)  # the last tick had no time for these
    _list_workloads(keys, lists, ports, done)
    names = list(dict.fromkeys([ports.settings.own_namespace, *(key.namespace for key in keys)]))
    stops = ports.crew.gather([partial(read_stop, cluster, name, ports) for name in names])
    lists.stops.update(zip(names, stops, strict=True))
    _work_on_all(keys, role, ports, lists, done)
    for key in {*list(books.wanted)}.difference(keys):
        books.wanted.pop(key, None)
    return done


def read_lists(cluster: str, ports: Ports) -> Lists:
    """Return what a tick reads once for all of its looks: pools, then pods, then their nodes."""
    began_at, live = ports.clock.now(), ports.clusters[cluster]
    operations = ports.crew.fork(partial(list_operations, cluster, ports))
    inventory = list_inventory(cluster, ports)
    listed = list(live.list_accelerator_pods())
    nodes = sort_nodes(live.list_nodes())
    ports.budget[cluster].note_nodes({name: nodes.get(name, ()) for name in inventory.pools})
    pools_of = map_nodes(nodes)
    pods: dict[WorkloadName, list[PodView]] = defaultdict(list)
    users: dict[str, list[PodView]] = {name: [] for name in inventory.pools}
    for pod in listed:
        pods[find_user(pod)].append(pod)
        if pools_of.get(pod.node_name) in users:
            users[pools_of[pod.node_name]].append(pod)
    return Lists(
        cluster=cluster,
        whole=True,
        inventory=inventory,
        nodes=nodes,
        pools_of=pools_of,
        pods=pods,
        users=users,
        operations=operations(),
        began_at=began_at,
        until=began_at + ACT_SECONDS,
    )


def list_owners(lists: Lists) -> list[Key]:
    """Return the workloads that have pools, the oldest pool first."""
    pools = chain.from_iterable(lists.inventory.by_owner.values())
    owners = [pool.owner for pool in pools if pool.owner]
    owners.sort(key=lambda owner: owner.created_at or 0)
    names = dict.fromkeys((*owner.key, owner.uid) for owner in owners)
    return [Key(lists.cluster, *name) for name in names]


def _list_demands(lists: Lists, ports: Ports, done: Tick) -> list[Key]:
    """Return the workloads whose pods wait, those with an idle pool, and those in Kueue's queues.

    A pod that waits or runs on an idle pool takes its mark away.
    """
    names = [*list_waiting(lists, ports.clock.now()), *_list_idle(lists)]
    try:
        queued = list_queued(lists.cluster, ports)
        done.errors += tend_checks(lists.cluster, queued, ports)
    except ProvisionerError as error:  # pods that wait are served without Kueue too
        done.errors.append((f"Workloads of {lists.cluster}", error))
    else:
        answered = (each for each in queued if is_answered(each.owner.kind))
        names += [(each.owner.kind, each.namespace, each.owner.name) for each in answered]
    return [Key(lists.cluster, *name) for name in dict.fromkeys(names)]


def list_waiting(lists: Lists, now: float) -> list[WorkloadName]:
    """Return the workloads whose pods wait: those without a pool first, then the longest wait."""
    since: dict[WorkloadName, float] = {}
    for owner, pods in lists.pods.items():
        waits = [pod.unschedulable_since or pod.created_at or 0.0 for pod in pods if pod.waits]
        if now - min(waits, default=now) >= FRESH_SECONDS:
            since[owner] = min(waits)
    return sorted(since, key=lambda owner: (owner in lists.inventory.by_owner, since[owner]))


def _list_idle(lists: Lists) -> list[WorkloadName]:
    """Return the owners of pools whose nodes have our mark."""
    marked = {node.pool for node in chain.from_iterable(lists.nodes.values()) if node.idle_since}
    owners = lists.inventory.by_owner.items()
    return [owner for owner, pools in owners if marked & {pool.name for pool in pools}]


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
    books = ports.budget[lists.cluster]

    def work(key: Key) -> Work:
        if ports.clock.now() - lists.began_at > BEGIN_SECONDS:
            raise OutOfTime("the time of this tick is over; the next one begins here")
        return work_on(key, role, ports, lists)

    seconds = TICK_SECONDS - (ports.clock.now() - lists.began_at)
    works, late = ports.crew.run_each({key: partial(work, key) for key in keys}, seconds=seconds)
    for key, each in works.items():
        done.outcomes += each.outcomes
        done.errors += [(str(key), error) for error in each.errors]
    done.left, books.left = len(late), tuple(late)
    if role == Role.PROVISION:
        done.figures = _measure_demands(works.values())
        return
    done.figures = _measure_pools(lists)
    # What there was no time for is as the tick before this one found it.
    unseen = {pool.name for key in late for pool in lists.inventory.by_owner.get(key.workload, ())}
    books.spare = frozenset(unseen & books.spare).union(*(each.spare for each in works.values()))


def _report_limits(lists: Lists, ports: Ports) -> list[Outcome]:
    """Return which limits are passed, if that is new; nothing is deleted for it."""
    settings, cluster, books = ports.settings, lists.cluster, ports.budget[lists.cluster]
    used, limit = books.count_used(), settings.limit_chips_per_namespace
    totals = {f"namespace {name}": (chips, limit) for name, chips in used.items()}
    totals[f"cluster {cluster}"] = sum(used.values()), settings.limit_chips
    outcomes: list[Outcome] = []
    for subject, (chips, most) in totals.items():
        place = (subject, str(Reason.LIMIT_PASSED))
        if 0 < most < chips and place not in books.notices:
            books.notices[place] = lists.began_at
            text = f"the node pools of {subject} have {chips} chips, more than the limit of {most}"
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
