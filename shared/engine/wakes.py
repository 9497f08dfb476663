"""What wakes a function: a message, the end of an operation, or a tick; all work on keys alike.

One thread works on a key. A wake-up that meets a key under way marks it, and that thread looks once
more. A tick looks at a whole cluster, once a minute: it brings everything to rest without any
message. It reads the cluster's lists once. `provision` takes its keys from pods that wait and from
queued workloads, `collect` from the owners of pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain

from msgspec import Struct

from shared.engine.budget import Key, WorkloadName
from shared.engine.kueue import answer_check, tend_checks
from shared.engine.look import LIVE, Lists, Look
from shared.engine.outside import Ports
from shared.engine.reads import DELIVERY_SECONDS, find_owner, read_lists, read_stop
from shared.engine.reconcile import Run, reconcile
from shared.engine.tell import (
    ENDED_BY_OPERATIONS,
    Outcome,
    explain_end,
    list_outcomes,
    note,
    say,
    tell,
    write_event,
)
from shared.kinds.table import KINDS
from shared.model.decisions import Reason, Verdict
from shared.model.errors import OutOfTime, ProvisionerError
from shared.model.messages import EndedOperation
from shared.model.names import parse_name
from shared.model.pools import PAID
from shared.model.times import FRESH_SECONDS

LAST_LOOK_SECONDS = DELIVERY_SECONDS / 2
"""A look that begins later could outlive the request: one call of GKE may take 30 s."""
TURNS_MAX = 3  # so many workloads are looked at for one free slot
ENDED_SECONDS = 7200.0
"""So long after its create the end of it is told; an older one is a message that comes again."""
SLOW_SECONDS = 600.0  # the end of a create that took so long gives its operation slot to deletions
BEGIN_SECONDS, TICK_SECONDS = 30.0, 50.0
"""How long after its beginning a tick begins with a workload, and ends."""
LISTED_MIN = 8  # so many workloads of a kind are read by a list; fewer are read by their names


class Work(Struct):
    """What came of the work on a key."""

    outcomes: list[Outcome] = []
    errors: list[Exception] = []
    look: Look | None = None  # the last one
    spare: frozenset[str] = frozenset()  # the pools that are too many by the last plan
    waited: float | None = None
    """How long its pods wait for what GKE has not provided. What was refused waits for a person."""


def work_on(key: Key, ports: Ports, lists: Lists = LIVE) -> Work:
    """Reconcile a workload, once more for each wake-up that came meanwhile. No error is raised."""
    work, crew, began_at = Work(), ports.crew, ports.clock.now()
    rest = crew.find_rest(key.cluster, began_at)
    if rest or not crew.begin(key):
        return Work(errors=[rest] if rest else [])
    try:
        while crew.goes_on(key):
            _work_once(key, ports, lists, work, began_at + LAST_LOOK_SECONDS)
            lists = LIVE
    except Exception as error:  # noqa: BLE001 -- the net of this workload
        crew.end(key)
        work.errors.append(error)
    crew.note(key.cluster, work.errors[-1] if work.errors else None, ports.clock.now())
    return work


def _work_once(key: Key, ports: Ports, lists: Lists, work: Work, until: float) -> None:
    if ports.clock.now() > until:
        raise OutOfTime("the time of this delivery is over; the next one looks once more")
    run = reconcile(key, ports, lists)
    look, outcomes = run.look, list_outcomes(run.done, run.look, run.plan, ports)
    refused = any(each.decision.verdict == Verdict.REFUSE for each in outcomes)
    work.look, work.spare = look, run.plan.spare
    work.waited = None if refused else look.measure_wait()
    work.outcomes += tell(outcomes, look, ports, tick=lists.whole)
    work.errors += [*look.errors, *run.errors]
    if ports.adds:
        _wait_for_slots(run, outcomes, ports)
        work.outcomes += answer_check(look, run.plan, ports) if ports.queues else []


def _wait_for_slots(run: Run, outcomes: Sequence[Outcome], ports: Ports) -> None:
    """Note whether a workload waits for the end of an operation, or look once more."""
    waits = bool({each.decision.reason for each in outcomes} & ENDED_BY_OPERATIONS)
    since = run.look.now - (run.look.measure_wait() or 0.0) if waits else None
    run.books.wait(run.key, since, begun=bool(run.look.scene.queued and run.look.pools))
    acted = waits and any(each.acted for each in run.done)
    if acted and run.books.count_room(run.key, ports.clock.now()).slots > 0:
        ports.crew.begin(run.key)  # GKE took all, and has named no number: it may take more


def work_on_end(ended: EndedOperation, ports: Ports) -> Work:
    """Answer the end of an operation for its own workload, else for the next in turn.

    `collect` looks at the ends of failed creates and of deletes only.
    """
    if (ports.takes and ended.created) or parse_name(ended.pool) is None:
        return Work()
    try:
        key, created_at = _find_owner(ended, ports)
    except ProvisionerError as error:
        return Work(errors=[error])
    now = ports.clock.now()
    # Kueue's check waits until the new pools run.
    ports.books[ended.cluster].note_end(now, created=ended.created and not ports.queues)
    if ports.takes:
        return work_on(key, ports) if key else Work()
    return _use_slot(ended, key, now - (created_at or now), ports)


def _use_slot(ended: EndedOperation, key: Key | None, age: float, ports: Ports) -> Work:
    """Tell the owner what came of a create, and give the slot that is free to who waits for it."""
    is_slow = not ended.deleted and age >= SLOW_SECONDS
    if is_slow:
        ports.books[ended.cluster].leave_to_deletions(key)
    work = work_on(key, ports) if key else Work()
    if work.look and not ended.deleted and age < ENDED_SECONDS:
        outcome = note(explain_end(ended), work.look, pool=ended.pool)
        write_event(ports.clusters[ended.cluster], outcome, work.look.workload)
        work.outcomes.insert(0, outcome)
    if not is_slow:
        _work_on_next(key, ended.cluster, ports, work)
    return work


def _work_on_next(key: Key | None, cluster: str, ports: Ports, work: Work) -> None:
    """Give the free slot to the workload whose turn it is, unless the first one has used it.

    One that cannot use it, as a gang at a limit, leaves it to the next.
    """
    tried, until = [key], ports.clock.now() + LAST_LOOK_SECONDS
    while len(tried) <= TURNS_MAX and ports.clock.now() <= until:
        if any(each.acted for each in work.outcomes):
            return
        following = ports.books[cluster].take_next(but=tried)
        if following is None:
            return
        tried.append(following)
        other = work_on(following, ports)
        work.outcomes += other.outcomes
        work.errors += other.errors


def _find_owner(ended: EndedOperation, ports: Ports) -> tuple[Key | None, int]:
    """Return whose pool it is, and when that was created; None if it is gone, or another's.

    An older list of pools says so too.
    """
    if ended.deleted and not ended.problem:
        return None, 0
    listed = ports.books[ended.cluster].inventory.pools.get(ended.pool)
    pool = listed or ports.pools.get(ended.cluster, ended.pool)
    owner = find_owner(pool, ports.settings) if pool else None
    if owner is None:
        return None, 0
    uid = owner.uid if ports.takes else ""
    return Key(ended.cluster, *owner.key, uid), owner.created_at


class Tick(Struct):
    """What one tick of one cluster did."""

    outcomes: list[Outcome] = []
    errors: list[tuple[str, Exception]] = []
    left: int = 0  # keys for which no time was left; the next tick begins with them
    figures: dict[str, int] = {}
    """What it measured, for alerts; empty if the cluster could not be listed."""


def tick(cluster: str, ports: Ports) -> Tick:
    """Look at every workload of a cluster that waits, or that has pools. No error is raised.

    An error about one workload stops no other.
    """
    done, books, crew = Tick(), ports.books[cluster], ports.crew
    rest = crew.find_rest(cluster, ports.clock.now())
    if rest:
        books.spare = frozenset()
        return Tick(errors=[(cluster, rest)])
    try:
        lists = read_lists(cluster, ports)
        keys = list_owners(lists) if ports.takes else _list_demands(lists, ports, done)
    except ProvisionerError as error:
        crew.note(cluster, error, ports.clock.now())
        books.spare = frozenset()
        done.errors.append((cluster, error))
        return done
    books.begin_tick(lists.began_at)
    if ports.adds:
        done.outcomes += _report_limits(lists, ports)
    before = set(books.left)
    keys.sort(key=lambda key: key not in before)  # the last tick had no time for these
    _list_workloads(keys, lists, ports, done)
    names = sorted({ports.settings.own_namespace, *(key.namespace for key in keys)})
    stops = crew.gather([partial(read_stop, cluster, name, ports) for name in names])
    lists.stops.update(zip(names, stops, strict=True))
    _work_on_all(keys, ports, lists, done)
    for key in {*list(books.wanted)}.difference(keys):
        books.wanted.pop(key, None)
    return done


def list_owners(lists: Lists) -> list[Key]:
    """Return the workloads that have pools, the oldest pool first."""
    pools = chain.from_iterable(lists.inventory.by_owner.values())
    owners = [pool.owner for pool in pools if pool.owner]
    owners.sort(key=lambda owner: owner.created_at)
    names = dict.fromkeys((*owner.key, owner.uid) for owner in owners)
    return [Key(lists.cluster, *name) for name in names]


def _list_demands(lists: Lists, ports: Ports, done: Tick) -> list[Key]:
    """Return the workloads whose pods wait, those with an idle pool, and those in Kueue's queues.

    A pod that waits or runs on an idle pool takes its mark away.
    """
    names, owners = _list_waiting(lists, ports.clock.now()), lists.inventory.by_owner.items()
    marked = {node.pool for node in chain.from_iterable(lists.nodes.values()) if node.idle_since}
    names += [owner for owner, pools in owners if marked & {pool.name for pool in pools}]
    try:
        queued, errors = tend_checks(lists.cluster, ports) if ports.queues else ([], [])
    except ProvisionerError as error:  # pods that wait are served without Kueue too
        queued, errors = [], [(f"Workloads of {lists.cluster}", error)]
    names += queued
    done.errors += errors
    return [Key(lists.cluster, *name) for name in dict.fromkeys(names)]


def _list_waiting(lists: Lists, now: float) -> list[WorkloadName]:
    """Return the workloads whose pods wait: those without a pool first, then the longest wait."""
    since: dict[WorkloadName, float] = {}
    for owner, pods in lists.pods.items():
        waits = [pod.unschedulable_since or pod.created_at or 0.0 for pod in pods if pod.waits]
        if now - min(waits, default=now) >= FRESH_SECONDS:
            since[owner] = min(waits)
    return sorted(since, key=lambda owner: (owner in lists.inventory.by_owner, since[owner]))


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


def _work_on_all(keys: list[Key], ports: Ports, lists: Lists, done: Tick) -> None:
    """Work on keys side by side, and note what is left, which pools are too many, and figures."""
    books = ports.books[lists.cluster]

    def work(key: Key) -> Work:
        if ports.clock.now() - lists.began_at > BEGIN_SECONDS:
            raise OutOfTime("the time of this tick is over; the next one begins here")
        return work_on(key, ports, lists)

    seconds = TICK_SECONDS - (ports.clock.now() - lists.began_at)
    works, late = ports.crew.run_each({key: partial(work, key) for key in keys}, seconds=seconds)
    for key, each in works.items():
        done.outcomes += each.outcomes
        done.errors += [(str(key), error) for error in each.errors]
    done.left, books.left = len(late), tuple(late)
    done.figures = _measure(works.values(), lists, ports)
    if ports.takes:
        # What there was no time for is as the tick before this one found it.
        owned = lists.inventory.by_owner
        unseen = {pool.name for key in late for pool in owned.get(key.workload, ())}
        spare = (each.spare for each in works.values())
        books.spare = frozenset(unseen & books.spare).union(*spare)


def _measure(works: Iterable[Work], lists: Lists, ports: Ports) -> dict[str, int]:
    """Return what alerts are about: what GKE has not provided, and what it has for nobody."""
    if ports.adds:
        waits = [each.waited for each in works if each.waited is not None]
        oldest = round(max(waits, default=0.0))
        return {"waiting_demands": len(waits), "oldest_wait_seconds": oldest}
    idle = [
        pool.units * len(lists.nodes.get(pool.name, ()))
        for pool in lists.inventory.pools.values()
        if pool.owner and pool.status in PAID and not lists.users.get(pool.name)
    ]
    return {"idle_chips": sum(idle), "autoscaled_pools": lists.inventory.autoscaled}


def _report_limits(lists: Lists, ports: Ports) -> list[Outcome]:
    """Return which limits are passed, if that is new; nothing is deleted for it."""
    settings, cluster, books = ports.settings, lists.cluster, ports.books[lists.cluster]
    used, limit = books.count_used(), settings.limit_chips_per_namespace
    totals = {f"namespace {name}": (chips, limit) for name, chips in used.items()}
    totals[f"cluster {cluster}"] = sum(used.values()), settings.limit_chips
    outcomes: list[Outcome] = []
    for subject, (chips, most) in totals.items():
        place = (subject, str(Reason.LIMIT_PASSED))
        if 0 < most < chips and place not in books.notices:
            books.notices[place] = lists.began_at, ""
            decision = say(Reason.LIMIT_PASSED, subject=subject, chips=chips, most=most)
            outcomes.append(Outcome(decision=decision, cluster=cluster, subject=subject))
    return outcomes
