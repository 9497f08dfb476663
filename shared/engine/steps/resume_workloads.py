"""Answers suspended workloads that wait for their capacity: pools for all slices, then the resume.

A message about such a workload is only a hint to look. What was done before follows from its own
annotations and from the labels of its pools.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from shared.core.decide.capacity_first import (
    WaitingLeaders,
    decide_begun,
    decide_handed,
    decide_partial,
    decide_pause,
    decide_resumed,
    decide_unasked,
    end_round,
    is_releasable,
    is_resumed_by_others,
    measure_used,
    read_request,
    write_resumed,
    write_round,
    write_waiting,
)
from shared.core.decide.failures import decide_failure
from shared.core.decide.gangs import CapacityRequest, measure_gang, plan_gang
from shared.core.decisions import Decision
from shared.core.errors import Denied, ProvisionerError
from shared.core.kinds.table import is_parent_kind
from shared.core.times import format_time, measure_seconds
from shared.engine.changes import change_workload
from shared.engine.looks.gather import add_disks, read_occupancy, see_parent
from shared.engine.looks.side_by_side import take_some
from shared.engine.steps.gang_pools import describe_slices, give_back, give_pools, refuse_purchase
from shared.engine.tell import Outcome, explain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.core.decide.gangs import Gang
    from shared.core.ports import Cluster
    from shared.core.workloads import WorkloadView
    from shared.engine.looks.look import Look
    from shared.engine.steps.admit_workloads import Answered

_LOG = logging.getLogger("parents")
ASKING_MAX = 10_000
"""The most such workloads that one sweep looks at. Of more, each sweep takes others."""


def answer_workload(look: Look, workload: WorkloadView) -> list[Outcome]:
    """Give a suspended workload the pools of all slices, resume it, or take the pools back.

    The workload is as it was read just now.

    Raises:
        Retryable: something could not be read, or the workload has changed; try again.
        Denied: a permission is missing. The workload is told.
    """
    try:
        workload = _see_parent(look, workload)
        outcomes = _answer(look, workload)
    except ProvisionerError as error:
        if look.sweeps and not isinstance(error, Denied):
            explain(look.live, decide_failure("its node pools cannot be made", error), workload)
        error.claim = error.claim or _describe(look, workload)["claim"]
        raise
    explain(look.live, outcomes[0].decision, workload)
    return outcomes


def _see_parent(look: Look, workload: WorkloadView) -> WorkloadView:
    try:
        return see_parent(look.live, workload)
    except Denied as error:
        explain(look.live, decide_failure("its node pools cannot be made", error), workload)
        raise


def _answer(look: Look, workload: WorkloadView) -> list[Outcome]:
    settings, now = look.settings, look.now()
    request = read_request(workload, settings)
    if not isinstance(request, CapacityRequest):
        return [_conclude(look, workload, request or decide_unasked(str(workload)))]
    gang = plan_gang(look.cluster, add_disks(look, workload), settings)
    if isinstance(gang, Decision):
        return [_conclude(look, workload, gang)]
    facts = _describe_round(request, now)
    if request.is_paused(now) and not look.sweeps:
        return [_conclude(look, workload, decide_pause(request), facts)]
    pools = look.pools.list()
    look.figures.add_gang(gang, pools, since=_find_begin(workload, request), now=now)
    if request.is_paused(now) and measure_gang(gang, pools).wanting:
        return [_conclude(look, workload, decide_pause(request), facts)]  # the sweep deletes its pools
    outcome, *others = _go_on(look, workload, gang, request)
    return [dataclasses.replace(outcome, facts=outcome.facts | facts), *others]


def _go_on(look: Look, workload: WorkloadView, gang: Gang, request: CapacityRequest) -> list[Outcome]:
    """Create what is missing; resume the workload when all of it runs, or end the round."""
    if request.begins_at is None and measure_gang(gang, look.pools.list()).missing:
        # The right to change the workload is proven before anything is bought.
        annotations = write_round(request.round, look.now())
        changed = change_workload(look, workload, decide_begun(len(gang)), annotations)
        if isinstance(changed, Decision):
            look.figures.settle_gang(gang, ())
            return [_conclude(look, workload, changed)]
        workload = changed
    answer = give_pools(look, gang, workload, request)
    changed, decision, others = workload, answer.decision, describe_slices(look, answer)
    if answer.ready:
        decision, marks = decide_resumed(len(gang)), write_resumed(workload, look.now())
        changed = change_workload(look, workload, decision, marks, suspended=False)
    elif answer.ended:
        changed = change_workload(look, workload, decision, end_round(workload, request.round, look.now()))
        others = [] if isinstance(changed, Decision) else give_back(look, workload)
    return [_conclude(look, workload, changed if isinstance(changed, Decision) else decision), *others]


def answer_asking(look: Look) -> Answered:
    """Answer every workload that asks for its capacity, and every parent, if the setting is on.

    An error about one stops no other. If the parents cannot be listed, that is logged only. The
    workload whose round began first comes first, because a limit may have room for one of them.

    One that a person resumed is marked as resumed. Else it would be resumed again after that person
    suspends it.

    Raises:
        Retryable: they could not be listed.
        Denied: the permission to list them is missing.
    """

    def answer(workload: WorkloadView) -> Sequence[Outcome]:
        if is_resumed_by_others(workload):
            change_workload(look, workload, decide_resumed(0), write_resumed(workload, look.now()))
            return ()
        if is_parent_kind(workload.kind):
            return [hand_over(look, workload)]
        return answer_workload(look, workload)

    def rank(workload: WorkloadView) -> tuple[float, str]:
        request = read_request(workload, look.settings)
        since = _find_begin(workload, request) if isinstance(request, CapacityRequest) else None
        return math.inf if since is None else since, str(workload)

    if not look.settings.capacity_first:
        return []
    found = chain(look.live.list_asking_workloads(), list_parents(look.live))
    asking = sorted(take_some(found, ASKING_MAX, now=look.now()), key=rank)
    done = look.run([partial(answer, each) for each in asking])
    return [(str(workload), each) for workload, each in zip(asking, done, strict=True)]


def _find_begin(workload: WorkloadView, request: CapacityRequest) -> float | None:
    """Return since when a workload waits in this round, in unix seconds; None if it has not begun.

    A forged begin from before the suspension would be a wait that nobody waited.
    """
    return None if request.begins_at is None else max(request.begins_at, workload.suspended_since or 0.0)


def list_parents(live: Cluster) -> list[WorkloadView]:
    """Return the parents that ask for capacity; none if they cannot be listed, which is logged."""
    try:
        return list(islice(live.list_asking_parents(), ASKING_MAX))
    except Exception as error:  # noqa: BLE001 -- the net of this list
        _LOG.warning("the parents that wait for capacity could not be listed", extra={"error": str(error)})
        return []


def hand_over(look: Look, parent: WorkloadView) -> Outcome:
    """Resume a suspended parent once; what it makes is suspended and waits in its place.

    The parent is as it was read just now.

    Raises:
        Retryable: it has changed; try again.
        Denied: the permission to change it is missing. It is told.
    """
    decision = read_request(parent, look.settings) or decide_unasked(str(parent))
    if isinstance(decision, CapacityRequest):
        return _change(look, parent, decide_handed(parent), write_resumed(parent, look.now()), suspended=False)
    explain(look.live, decision, parent)
    return _conclude(look, parent, decision)


def release_partial(look: Look, home: tuple[str, str, str], waiting: WaitingLeaders) -> Outcome | None:
    """Suspend a workload of which only a part has had its pools for too long; None if it stays.

    Its pools are given back, and it waits for the capacity of all slices from then on. It stays if
    we would not create all of them again as things are.

    Args:
        look: with unshared reads.
        home: kind, namespace and name of the workload; no kind for pods without one.
        waiting: those of its leaders that wait.

    Raises:
        Retryable: something could not be read, or the workload has changed; try again.
        Denied: a permission is missing. The workload is told.
    """
    settings, now = look.settings, look.now()
    seconds = settings.release_partial_gang_seconds
    waited = max((measure_seconds(pod.unschedulable_since, now) or 0.0 for pod in waiting.pods), default=0.0)
    if not seconds or waited < seconds or home[0] not in settings.kinds:
        return None
    workload = look.live.get_workload(*home)
    if workload is None or not is_releasable(workload, settings):
        return None
    pools = look.pools.list()
    seen = read_occupancy(look, workload, pools=pools)
    gang = plan_gang(look.cluster, workload, settings)
    if isinstance(gang, Decision):
        return None
    holding = measure_used(seen, waiting, gang, pools, settings=settings, now=now)
    decision = decide_partial(holding, seconds, now=now)
    if decision is None or refuse_purchase(look, workload, gang, pools):
        return None
    return _change(look, workload, decision, write_waiting(workload, now), suspended=True)


def _change(
    look: Look, workload: WorkloadView, decision: Decision, marks: Mapping[str, str | None], *, suspended: bool
) -> Outcome:
    """Suspend or resume a workload, tell it, and return what came of that."""
    changed = change_workload(look, workload, decision, marks, suspended=suspended)
    decision = changed if isinstance(changed, Decision) else decision
    explain(look.live, decision, workload)
    return _conclude(look, workload, decision)


def _conclude(
    look: Look, workload: WorkloadView, decision: Decision, facts: Mapping[str, Any] | None = None
) -> Outcome:
    known = _describe(look, workload) | dict(facts or {})
    return Outcome(decision=decision, cluster=look.cluster, subject=str(workload), facts=known)


def _describe_round(request: CapacityRequest, now: float) -> dict[str, Any]:
    """Return the number of a round for the log, and in the pause before it when it begins."""
    begins = {"next_try": format_time(request.begins_at or 0.0)} if request.is_paused(now) else {}
    return {"round": request.round + 1} | begins


def _describe(look: Look, workload: WorkloadView) -> dict[str, dict[str, str]]:
    found = {"kind": workload.kind, "namespace": workload.namespace, "name": workload.name}
    return {"claim": {"cluster": look.cluster, **found, "owner_uid": workload.uid, "slice": ""}}
