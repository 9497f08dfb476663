"""The sweep's answers to the leader pods that wait for capacity."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from shared.core.decide.gangs import NO_CAPACITY
from shared.core.decide.warm_pools import choose_displaced, decide_room, find_idle_since
from shared.core.decisions import Reason, Verdict
from shared.core.errors import OutOfTime, ProvisionerError
from shared.core.kinds.table import find_kind_of_pod
from shared.perform.answer_demand import provision_pod
from shared.perform.explain import explain
from shared.perform.followers import judge_followers
from shared.perform.look import AnsweredClaims, Look, is_fresh_leader
from shared.perform.outcome import Outcome, describe_pool_outcome
from shared.perform.pool_sizes import measure_elastic
from shared.perform.release_pools import release_pool
from shared.perform.resume_workloads import release_partial
from shared.perform.shared_reads import SHARED_SECONDS
from shared.perform.side_by_side import take_some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.demand.demand import Demand
    from shared.core.identity.pool_index import PoolIndex
    from shared.core.workloads import PodView
    from shared.perform.look import RecentPools
    from shared.perform.swept_cluster import SweptCluster

LEADERS_MAX = 10_000
"""The most waiting leaders that one sweep looks at. Of more, each sweep takes others."""
_REFUSED_BY_LIMIT = (Verdict.REFUSE, Reason.LIMIT_REACHED)


def answer_leaders(swept: SweptCluster, pools: PoolIndex, recent: RecentPools) -> LeaderAnswers:
    """Answer the waiting leaders, those of one workload one after the other; return the answers.

    Args:
        swept: the cluster.
        pools: every pool of it.
        recent: the same, listed again when that is old.
    """
    answers = LeaderAnswers(swept, pools, recent)
    try:
        leaders = take_some(swept.live.clusters[swept.name].list_waiting_leaders(), LEADERS_MAX, now=swept.now())
    except Exception as error:  # noqa: BLE001 -- the net of this list
        swept.report.add_error(f"waiting leaders of {swept.name}", error)
        return answers
    swept.report.figures[swept.name] = swept.figures
    answers.run(leaders)
    return answers


class LeaderAnswers:
    """What the answers to the leaders of one sweep have in common."""

    def __init__(self, swept: SweptCluster, pools: PoolIndex, recent: RecentPools) -> None:
        """Prepare; nothing is answered yet."""
        self._swept, self._listed = swept, pools
        self._listed_at, self._seen_at = recent.listed_at, swept.now()
        self._look = Look(
            cluster=swept.name,
            ports=swept.shared,
            pools=recent,
            cap=swept.cap,
            limits=swept.limits,
            creations=swept.creations,
            sweeps=True,
        )
        self._refused: list[tuple[PodView, Outcome]] = []
        """The leaders that a limit refuses, with their answers."""
        self._left: list[PodView] | None = []
        """The leaders that the first step left to the last one; None in the last one."""
        self._starved = defaultdict[tuple[str, str, str], set[str]](set)
        """By workload, the slices for which GKE finds no capacity."""
        self._waiting: dict[tuple[str, str, str], list[PodView]] = {}
        """By workload, its leaders that wait."""

    def run(self, leaders: Sequence[PodView]) -> None:
        """Answer leaders: in another order in each sweep, but those without a pool first."""
        swept = self._swept
        by_workload: defaultdict[tuple[str, str, str], list[PodView]] = defaultdict(list)
        for pod in leaders:
            try:
                if not is_fresh_leader(pod, listed_at=self._listed_at, now=swept.now()):
                    by_workload[_find_home(pod)].append(pod)
            except Exception as error:  # noqa: BLE001 -- the net of this pod
                self._add_failure([pod], error)
        self._waiting |= by_workload
        chance = Random(swept.now())  # noqa: S311 -- no secret
        order = {home: (bool(self._listed.list_named(*home)), chance.random()) for home in by_workload}
        self._start_limits()
        for pods, done in swept.for_each(
            self._answer, [by_workload[home] for home in sorted(order, key=lambda home: order[home])]
        ):
            if isinstance(done, Exception):
                self._add_failure(pods, done)

    def finish(self, swept: SweptCluster) -> None:
        """Answer the leaders that are left, and the followers; make room under a limit."""
        left, self._left, self._swept = self._left or [], None, swept
        self._look = replace(
            self._look, ports=swept.shared, answered=AnsweredClaims() if left else self._look.answered
        )
        if left:
            self.run(left)
        self._release_one()
        self._explain_followers()
        self._make_room()

    def _explain_followers(self) -> None:
        swept, cluster = self._swept, self._swept.name
        try:
            for pod, found in judge_followers(
                cluster, swept.shared, pools=self._listed, answered=self._look.answered, cap=swept.cap
            ):
                if isinstance(found, Exception):
                    swept.report.add_error(f"Pod {pod.namespace}/{pod.name}", found)
                else:
                    swept.report.outcomes.append(found)
        except Exception as error:  # noqa: BLE001 -- the net of their list
            swept.report.add_error(f"waiting followers of {cluster}", error)

    def _start_limits(self) -> None:
        """Let the leaders share what counts against the limits, if any is set.

        A pool that cannot be measured counts with the size that it was created with, until a leader
        reserves.
        """
        swept = self._swept
        if swept.limits is None:
            return
        measured, errors = measure_elastic(self._listed, swept.live)
        for name, error in errors.items():
            swept.report.add_error(f"node pool {name}", error)
        try:
            swept.limits.start(measured, listed_at=0.0 if errors else self._listed_at)
        except Exception as error:  # noqa: BLE001 -- the net of the ledger
            swept.report.add_error(f"reservations of {swept.name}", error)

    def _answer(self, pods: Sequence[PodView]) -> None:
        for pod in pods:
            try:
                self._answer_pod(pod)
            except Exception as error:  # noqa: BLE001 -- the net of this pod
                self._add_failure([pod], error)

    def _answer_pod(self, listed: PodView) -> None:
        swept, pod = self._swept, self._read_recent(listed)
        if pod is None:
            return
        outcome = provision_pod(pod, self._look)
        if outcome.decision.reason == Reason.SWEEP_OVER_CAP and not swept.cap.over and self._left is not None:
            self._left.append(pod)
            return
        swept.report.outcomes.append(outcome)
        swept.figures.add_answer(pod, outcome, self._listed.find(outcome.pool), now=swept.now())
        if (outcome.decision.verdict, outcome.decision.reason) == _REFUSED_BY_LIMIT:
            self._refused.append((pod, outcome))
        if outcome.demand and outcome.decision.reason in NO_CAPACITY:
            self._starved[_find_home(pod)].add(outcome.demand.claim.slice_name)

    def _release_one(self) -> None:
        """Suspend one workload of which only a part has its pools, because GKE has no capacity.

        What it gives back may serve the others, so the next sweep looks at them again.
        """
        swept = self._swept
        for home in [each for each in self._waiting if each in self._starved]:
            try:
                released = release_partial(
                    swept.name,
                    home,
                    self._waiting[home],
                    swept.live,
                    starved=self._starved[home],
                    limits=swept.limits,
                    list_pools=self._look.pools.list,
                )
            except Exception as error:  # noqa: BLE001 -- the net of this workload
                swept.report.add_error(" ".join(home), error)
                continue
            if released:
                swept.report.outcomes.append(released)
                return

    def _read_recent(self, pod: PodView) -> PodView | None:
        """Return a leader as it was at most `SHARED_SECONDS` ago; None if it no longer waits."""
        swept = self._swept
        if swept.now() - self._seen_at <= SHARED_SECONDS:
            return pod
        seen = swept.live.clusters[swept.name].get_pod(pod.namespace, pod.name)
        return None if seen is None or seen.uid != pod.uid or seen.node_name else seen

    def _add_failure(self, pods: Sequence[PodView], error: Exception) -> None:
        """Report the error of waiting leaders that could not be answered, or leave them."""
        if isinstance(error, OutOfTime) and self._left is not None:
            self._left += pods
            return
        self._swept.report.add_error(f"Pod {pods[0].namespace}/{pods[0].name}", error)
        for pod in pods:
            claim = error.claim if isinstance(error, ProvisionerError) and len(pods) == 1 else None
            self._swept.figures.add_unanswered(pod, claim, now=self._swept.now())

    def _make_room(self) -> None:
        """Delete one idle pool for a leader that a limit refuses; the next sweep creates."""
        swept, outcomes = self._swept, self._swept.report.outcomes
        idle = {each.pool for each in outcomes if each.decision.reason == Reason.POOL_WARM}
        if not (self._refused and idle and swept.limits):
            return
        gone = {each.pool for each in outcomes if each.decision.verdict == Verdict.DELETE}
        refused = [(outcome.demand, outcome.pool) for _, outcome in self._refused if outcome.demand]
        idle_since, now = dict[str, float](), swept.now()
        for name, read in swept.for_each(swept.live.clusters[swept.name].list_surplus_marks, sorted(idle)):
            if isinstance(read, Exception):
                swept.report.add_error(f"node pool {name}", read)
            elif (since := find_idle_since(read, now)) is not None:
                idle_since[name] = since
        try:
            pools, reserved = swept.limits.list_pools(), swept.limits.list_reserved()
            use = swept.live.settings
            found = choose_displaced(refused, idle_since, pools, reserved, gone=gone, now=now, settings=use)
        except Exception as error:  # noqa: BLE001 -- the net of this look
            swept.report.add_error(f"idle node pools of {swept.name}", error)
            return
        demand, names = found or (None, [])
        for name in names:
            if demand and self._displace(name, demand):
                waits = (pod for pod, outcome in self._refused if outcome.demand == demand)
                explain(swept.shared.clusters[swept.name], decide_room(name), objects=tuple(waits))
                return

    def _displace(self, name: str, demand: Demand) -> bool:
        """Delete an idle pool for a demand; return whether that was submitted."""
        swept, pool = self._swept, self._listed.find(name)
        if pool is None or pool.owner is None:
            return False
        named = self._listed.list_named(pool.owner.kind, pool.owner.namespace, pool.owner.name)
        try:
            decision = release_pool(
                swept.name, pool, swept.live, pools=named, cap=swept.cap, displaced_by=str(demand.claim)
            )
        except Exception as error:  # noqa: BLE001 -- the net of this pool
            swept.report.add_error(f"node pool {name}", error)
            return False
        swept.report.outcomes.append(describe_pool_outcome(swept.name, pool, decision))
        return decision.verdict == Verdict.DELETE


def _find_home(pod: PodView) -> tuple[str, str, str]:
    """Return kind, namespace and name of a pod's workload; the pod's own name without kind."""
    kind = find_kind_of_pod(pod)
    return ("", pod.namespace, pod.name) if kind is None else (kind.name, pod.namespace, kind.find_owner(pod))
