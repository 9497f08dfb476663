"""Lets one thread work on a key, whatever woke the function; and gives a free slot to the next.

A wake-up that meets a key under way marks it, and the thread that works on it looks once more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.engine.kueue import answer_check
from shared.engine.look import Key
from shared.engine.reads import DELIVERY_SECONDS
from shared.engine.reconcile import Role, reconcile
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
from shared.kinds.table import find_kind
from shared.model.decisions import Verdict
from shared.model.errors import OutOfTime, OwnerKindUnknown, ProvisionerError
from shared.model.labels import DEPLOYMENT
from shared.model.names import parse_name

if TYPE_CHECKING:
    from shared.engine.look import Lists, Look
    from shared.engine.outside import Ports
    from shared.engine.reconcile import Run
    from shared.model.messages import EndedOperation
    from shared.model.pools import NodePool

LAST_LOOK_SECONDS = DELIVERY_SECONDS / 2
"""A look that begins later could outlive the request: one call of GKE may take 30 s."""
TURNS_MAX = 3
"""So many workloads are looked at for one free slot."""
TOLD_SECONDS = 7200.0
"""So long after its create the end of it is told; an older one is a message that comes again."""
SLOW_SECONDS = 600.0
"""The end of a create that took so long gives its operation slot to deletions."""


@dataclass(slots=True)
class Work:
    """What came of the work on a key."""

    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    look: Look | None = None
    """The last one."""
    spare: frozenset[str] = frozenset()
    """The pools that are too many by the last plan."""
    refused: bool = False
    """Its owner was told that it gets nothing for a cause of its own, or of the operator."""


def work_on(key: Key, role: Role, ports: Ports, lists: Lists | None = None) -> Work:
    """Reconcile a workload, once more for each wake-up that came meanwhile. No error is raised."""
    work, began_at = Work(), ports.clock.now()
    if find_kind(key.kind) is None:
        text = "no such kind of workload is known"
        work.errors.append(OwnerKindUnknown(text, field="kind", value=key.kind))
        return work
    if not ports.crew.begin(key):
        return work
    try:
        ports.crew.expect_answers(key.cluster, began_at)
        _work_once(key, role, ports, lists, work)
        while ports.crew.goes_on(key):
            _expect_time(began_at, ports)
            _work_once(key, role, ports, None, work)
    except Exception as error:  # noqa: BLE001 -- the net of this workload
        ports.crew.end(key)
        work.errors.append(error)
    ports.crew.note(key.cluster, work.errors[-1] if work.errors else None, ports.clock.now())
    return work


def _expect_time(began_at: float, ports: Ports) -> None:
    if ports.clock.now() - began_at > LAST_LOOK_SECONDS:
        raise OutOfTime("the time of this delivery is over; the next one looks once more")


def _work_once(key: Key, role: Role, ports: Ports, lists: Lists | None, work: Work) -> None:
    run = reconcile(key, role, ports, lists)
    outcomes = [*run.done, *list_answers(run.look, run.plan, ports)]
    if not outcomes and role == Role.PROVISION and any(pod.waits for pod in run.look.scene.pods):
        outcomes.append(describe_wait(run.look))
    work.look, work.spare = run.look, run.plan.spare
    work.refused = any(each.decision.verdict == Verdict.REFUSE for each in outcomes)
    work.outcomes += tell(outcomes, run.look, ports, tick=lists is not None)
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
    ports.memory.inventories.pop(ended.cluster, None)  # it was read before the end
    key = _find_owner(ended, pool, role, ports)
    gives_slot = role == Role.PROVISION and not _is_slow(ended, pool, ports)
    if role == Role.PROVISION and not gives_slot:
        ports.budget[ended.cluster].leave_to_deletions()
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
    if ports.clock.now() - (created_at or 0) >= TOLD_SECONDS:
        return
    outcome = note(decision, work.look, pool=ended.pool)
    write_event(ports.clusters[ended.cluster], outcome, work.look.workload)
    work.outcomes.insert(0, outcome)
