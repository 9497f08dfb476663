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
    Wish,
    decide_begun,
    decide_handed,
    decide_mode,
    decide_partial,
    decide_pause,
    decide_resumed,
    decide_unasked,
    end_round,
    is_resumed_by_others,
    read_wish,
    write_resumed,
    write_round,
    write_waiting,
)
from shared.core.decide.error_answers import decide_failure
from shared.core.decide.gangs import GangState, is_complete, list_missing, plan_gang
from shared.core.decide.needed_pools import plan_pools
from shared.core.decisions import Decision, Verdict
from shared.core.errors import Denied, ProvisionerError
from shared.core.kinds.table import is_parent_kind
from shared.core.times import format_time, measure_seconds
from shared.perform.disk_zones import add_disks
from shared.perform.emergency_stop import find_stop
from shared.perform.explain import explain
from shared.perform.gang_pools import describe_slices, give_back, give_pools, refuse_purchase
from shared.perform.gather import read_occupancy, see_parent
from shared.perform.outcome import Outcome
from shared.perform.side_by_side import CALLS_AT_ONCE, get_runner, take_some

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from shared.core.decide.gangs import Gang
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Cluster, Ports
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.act_within_limits import Limits
    from shared.perform.admit_workloads import Answered
    from shared.perform.cluster_figures import ClusterFigures
    from shared.perform.creation_list import Creations
    from shared.perform.deletion_cap import DeletionCap

_LOG = logging.getLogger("parents")
ASKING_MAX = 10_000
"""The most such workloads that one sweep looks at. Of more, each sweep takes others."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SweepShare:
    """What the answers of one sweep share; empty outside a sweep."""

    list_pools: Callable[[], Sequence[PoolSnapshot]] | None = None
    cap: DeletionCap | None = None
    limits: Limits | None = None
    creations: Creations | None = None
    figures: ClusterFigures | None = None


def answer_workload(
    cluster: str,
    workload: WorkloadView,
    ports: Ports,
    *,
    share: SweepShare | None = None,
) -> list[Outcome]:
    """Give a suspended workload the pools of all slices, resume it, or take the pools back.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        workload: as it was read just now.
        ports: the outside world.
        share: of a sweep; None outside one.

    Raises:
        Retryable: something could not be read, or the workload has changed; try again.
        Denied: a permission is missing. The workload is told.
    """
    live = ports.clusters[cluster]
    try:
        workload = _see_parent(live, workload)
        outcomes = _answer(cluster, workload, ports, share or SweepShare())
    except ProvisionerError as error:
        if share is not None and not isinstance(error, Denied):
            explain(live, decide_failure("its node pools cannot be made", error), objects=(workload,))
        error.claim = error.claim or _describe(cluster, workload)["claim"]
        raise
    explain(live, outcomes[0].decision, objects=(workload, workload.parent))
    return outcomes


def _see_parent(live: Cluster, workload: WorkloadView) -> WorkloadView:
    try:
        return see_parent(live, workload)
    except Denied as error:
        explain(live, decide_failure("its node pools cannot be made", error), objects=(workload,))
        raise


def _answer(cluster: str, workload: WorkloadView, ports: Ports, share: SweepShare) -> list[Outcome]:
    settings, now = ports.settings, ports.clock.now()
    wish = read_wish(workload, settings)
    if not isinstance(wish, Wish):
        return [_conclude(cluster, workload, wish or decide_unasked(str(workload)))]
    gang = plan_gang(cluster, add_disks(cluster, workload, ports), settings)
    if isinstance(gang, Decision):
        return [_conclude(cluster, workload, gang)]
    facts = _describe_round(wish, now)
    if wish.is_paused(now) and share.list_pools is None:
        return [_conclude(cluster, workload, decide_pause(wish), facts)]
    pools = share.list_pools() if share.list_pools else ports.pools.list(cluster)
    if share.figures:
        share.figures.add_gang(gang, pools, since=_find_begin(workload, wish), now=now)
    if wish.is_paused(now) and not is_complete(gang, pools):
        return [_conclude(cluster, workload, decide_pause(wish), facts)]  # the sweep deletes its pools
    outcome, *others = _go_on(cluster, workload, gang, wish, ports, pools, share)
    return [dataclasses.replace(outcome, facts=outcome.facts | facts), *others]


def _go_on(
    cluster: str,
    workload: WorkloadView,
    gang: Gang,
    wish: Wish,
    ports: Ports,
    pools: Sequence[PoolSnapshot],
    share: SweepShare,
) -> list[Outcome]:
    """Create what is missing; resume the workload when all of it runs, or end the round."""
    if wish.begins_at is None and list_missing(gang, pools):
        # The right to change the workload is proven before anything is bought.
        said = write_round(wish.round, ports.clock.now())
        changed = _change(cluster, workload, decide_begun(len(gang)), said, ports)
        if isinstance(changed, Decision):
            if share.figures:
                share.figures.settle_gang(gang, ())
            return [_conclude(cluster, workload, changed)]
        workload = changed
    answer = give_pools(
        cluster,
        gang,
        workload,
        ports,
        pools=pools,
        seconds=wish.seconds,
        since=wish.begins_at or 0.0,
        cap=share.cap,
        limits=share.limits,
        creations=share.creations,
        ended=wish.round,
    )
    if share.figures and (answer.slices or answer.decision.verdict == Verdict.REFUSE):
        share.figures.settle_gang(gang, answer.slices)
    decision, now = answer.decision, ports.clock.now()
    if answer.state == GangState.READY:
        decision = decide_resumed(len(gang))
        changed = _change(cluster, workload, decision, write_resumed(workload, now), ports, suspended=False)
        decision = changed if isinstance(changed, Decision) else decision
    elif answer.state == GangState.ENDED:
        changed = _change(cluster, workload, decision, end_round(workload, wish.round, now), ports)
        if isinstance(changed, Decision):
            return [_conclude(cluster, workload, changed)]
        return [_conclude(cluster, workload, decision), *give_back(cluster, workload, ports, pools=pools)]
    return [_conclude(cluster, workload, decision), *describe_slices(cluster, answer, ports)]


def answer_asking(cluster: str, ports: Ports, share: SweepShare) -> Answered:
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
            said = write_resumed(workload, ports.clock.now())
            _change(cluster, workload, decide_resumed(0), said, ports)
            return ()
        if is_parent_kind(workload.kind):
            return [hand_over(cluster, workload, ports)]
        return answer_workload(cluster, workload, ports, share=share)

    def rank(workload: WorkloadView) -> tuple[float, str]:
        wish = read_wish(workload, ports.settings)
        since = _find_begin(workload, wish) if isinstance(wish, Wish) else None
        return math.inf if since is None else since, str(workload)

    if not ports.settings.capacity_first:
        return []
    live = ports.clusters[cluster]
    found = chain(live.list_asking_workloads(), list_parents(live))
    asking = sorted(take_some(found, ASKING_MAX, now=ports.clock.now()), key=rank)
    tasks = [partial(answer, each) for each in asking]
    done = get_runner(ports)(tasks, at_once=CALLS_AT_ONCE, until=ports.until)
    return [(str(workload), each) for workload, each in zip(asking, done, strict=True)]


def _find_begin(workload: WorkloadView, wish: Wish) -> float | None:
    """Return since when a workload waits in this round, in unix seconds; None if it has not begun.

    A forged begin from before the suspension would be a wait that nobody waited.
    """
    return None if wish.begins_at is None else max(wish.begins_at, workload.suspended_since or 0.0)


def list_parents(live: Cluster) -> list[WorkloadView]:
    """Return the parents that ask for capacity; none if they cannot be listed, which is logged."""
    try:
        return list(islice(live.list_asking_parents(), ASKING_MAX))
    except Exception as error:  # noqa: BLE001 -- the net of this list
        _LOG.warning("the parents that wait for capacity could not be listed", extra={"error": str(error)})
        return []


def hand_over(cluster: str, parent: WorkloadView, ports: Ports) -> Outcome:
    """Resume a suspended parent once; what it makes is suspended and waits in its place.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        parent: as it was read just now.
        ports: the outside world.

    Raises:
        Retryable: it has changed; try again.
        Denied: the permission to change it is missing. It is told.
    """
    decision = read_wish(parent, ports.settings) or decide_unasked(str(parent))
    if isinstance(decision, Wish):
        decision = decide_handed(parent)
        said = write_resumed(parent, ports.clock.now())
        changed = _change(cluster, parent, decision, said, ports, suspended=False)
        decision = changed if isinstance(changed, Decision) else decision
    explain(ports.clusters[cluster], decision, objects=(parent,))
    return _conclude(cluster, parent, decision)


def release_partial(
    cluster: str,
    home: tuple[str, str, str],
    leaders: Sequence[PodView],
    ports: Ports,
    *,
    starved: Collection[str],
    limits: Limits | None,
    list_pools: Callable[[], Sequence[PoolSnapshot]],
) -> Outcome | None:
    """Suspend a workload of which only a part has had its pools for too long; None if it stays.

    Its pools are given back, and it waits for the capacity of all slices from then on. It stays if
    we would not create all of them again as things are.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        home: kind, namespace and name of the workload; no kind for pods without one.
        leaders: those of its leader pods that wait.
        ports: the outside world.
        starved: the names of its slices for which GKE finds no capacity, as they were just
            answered.
        limits: what counts against the limits; None if none is set.
        list_pools: returns every pool of the cluster.

    Raises:
        Retryable: something could not be read, or the workload has changed; try again.
        Denied: a permission is missing. The workload is told.
    """
    settings, now = ports.settings, ports.clock.now()
    seconds = settings.release_partial_gang_seconds
    waited = max((measure_seconds(pod.unschedulable_since, now) or 0.0 for pod in leaders), default=0.0)
    if not seconds or waited < seconds or home[0] not in settings.kinds:
        return None
    workload = ports.clusters[cluster].get_workload(*home)
    if workload is None:
        return None
    pools = list_pools()
    seen = read_occupancy(cluster, workload, ports, pools=pools)
    plan = plan_pools(cluster, seen, pools, settings)
    gang = plan_gang(cluster, workload, settings)
    if isinstance(gang, Decision):
        return None
    decision = decide_partial(cluster, seen, leaders, plan, gang, pools, settings, starved=starved, now=now)
    if decision is None or refuse_purchase(gang, workload, ports, pools, limits):
        return None
    changed = _change(cluster, workload, decision, write_waiting(workload, now), ports, suspended=True)
    decision = changed if isinstance(changed, Decision) else decision
    explain(ports.clusters[cluster], decision, objects=(workload,))
    return _conclude(cluster, workload, decision)


def _change(
    cluster: str,
    workload: WorkloadView,
    act: Decision,
    marks: Mapping[str, str | None],
    ports: Ports,
    *,
    suspended: bool | None = None,
) -> WorkloadView | Decision:
    """Change a workload in place of what was read; return it, or the mode that forbids it."""
    stopped = decide_mode(act, workload.namespace, ports.settings) or find_stop(cluster, act, ports)
    if stopped:
        return stopped
    live = ports.clusters[cluster]
    try:
        return live.change_workload(workload, marks, suspended=suspended)
    except Denied as error:
        explain(live, decide_failure("the workload cannot be changed", error), objects=(workload,))
        raise


def _conclude(
    cluster: str, workload: WorkloadView, decision: Decision, facts: Mapping[str, Any] | None = None
) -> Outcome:
    known = _describe(cluster, workload) | dict(facts or {})
    return Outcome(decision=decision, cluster=cluster, subject=str(workload), facts=known)


def _describe_round(wish: Wish, now: float) -> dict[str, Any]:
    """Return the number of a round for the log, and in the pause before it when it begins."""
    begins = {"next_try": format_time(wish.begins_at or 0.0)} if wish.is_paused(now) else {}
    return {"round": wish.round + 1} | begins


def _describe(cluster: str, workload: WorkloadView) -> dict[str, dict[str, str]]:
    found = {"kind": workload.kind, "namespace": workload.namespace, "name": workload.name}
    return {"claim": {"cluster": cluster, **found, "owner_uid": workload.uid, "slice": ""}}
