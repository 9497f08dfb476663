"""The sweep's answers to the leader pods that wait for capacity."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from shared.core.decisions import Reason
from shared.core.errors import OutOfTime, ProvisionerError
from shared.core.kinds.table import find_kind_of_pod
from shared.core.times import LOOK_SECONDS
from shared.engine.entries.answer_waiting import provision_pod
from shared.engine.looks.look import AnsweredClaims, is_fresh_leader
from shared.engine.looks.pool_reads import measure_elastic
from shared.engine.looks.side_by_side import take_some
from shared.engine.steps.serving_pools import judge_followers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.identity.pool_index import PoolIndex
    from shared.core.workloads import PodView
    from shared.engine.looks.look import SweptCluster

LEADERS_MAX = 10_000
"""The most waiting leaders that one sweep looks at. Of more, each sweep takes others."""


def answer_leaders(swept: SweptCluster, pools: PoolIndex) -> LeaderAnswers:
    """Answer the waiting leaders, those of one workload one after the other; return the answers."""
    answers, look = LeaderAnswers(swept, pools), swept.look
    try:
        leaders = take_some(look.unshared().live.list_waiting_leaders(), LEADERS_MAX, now=look.now())
    except Exception as error:  # noqa: BLE001 -- the net of this list
        swept.report.add_error(f"waiting leaders of {look.cluster}", error)
        return answers
    swept.report.figures[look.cluster] = swept.look.figures
    answers.run(leaders)
    return answers


class LeaderAnswers:
    """What the answers to the leaders of one sweep have in common."""

    def __init__(self, swept: SweptCluster, pools: PoolIndex) -> None:
        """Prepare; nothing is answered yet."""
        self._swept, self._listed, self._look = swept, pools, swept.look
        self._listed_at, self._seen_at = swept.look.pools.listed_at, swept.look.now()
        self._left: list[PodView] | None = []
        """The leaders that the first step left to the last one; None in the last one."""

    def run(self, leaders: Sequence[PodView]) -> None:
        """Answer leaders: in another order in each sweep, but those without a pool first."""
        swept = self._swept
        by_workload: defaultdict[tuple[str, str, str], list[PodView]] = defaultdict(list)
        for pod in leaders:
            try:
                if not is_fresh_leader(pod, listed_at=self._listed_at, now=swept.look.now()):
                    by_workload[_find_home(pod)].append(pod)
            except Exception as error:  # noqa: BLE001 -- the net of this pod
                self._add_failure([pod], error)
        chance = Random(swept.look.now())  # noqa: S311 -- no secret
        order = {home: (bool(self._listed.list_named(*home)), chance.random()) for home in by_workload}
        self._start_limits()
        for pods, done in swept.for_each(
            self._answer, [by_workload[home] for home in sorted(order, key=lambda home: order[home])]
        ):
            if isinstance(done, Exception):
                self._add_failure(pods, done)

    def finish(self, swept: SweptCluster) -> None:
        """Answer the leaders that are left, and the followers."""
        left, self._left, self._swept = self._left or [], None, swept
        self._look = replace(swept.look, answered=AnsweredClaims()) if left else swept.look
        if left:
            self.run(left)
        self._explain_followers()

    def _explain_followers(self) -> None:
        report = self._swept.report
        try:
            for pod, found in judge_followers(self._look, self._listed, partial(provision_pod, leads=True)):
                if isinstance(found, Exception):
                    report.add_error(f"Pod {pod.namespace}/{pod.name}", found)
                else:
                    report.outcomes.append(found)
        except Exception as error:  # noqa: BLE001 -- the net of their list
            report.add_error(f"waiting followers of {self._look.cluster}", error)

    def _start_limits(self) -> None:
        """Let the leaders share what counts against the limits, if any is set.

        A pool that cannot be measured counts with the size that it was created with, until a leader
        reserves.
        """
        limits, report = self._look.limits, self._swept.report
        if limits is None:
            return
        measured, errors = measure_elastic(self._listed, self._look.ports)
        for name, error in errors.items():
            report.add_error(f"node pool {name}", error)
        try:
            limits.start(measured, listed_at=0.0 if errors else self._listed_at)
        except Exception as error:  # noqa: BLE001 -- the net of the ledger
            report.add_error(f"reservations of {self._look.cluster}", error)

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
        swept.look.figures.add_answer(pod, outcome, self._listed.find(outcome.pool), now=swept.look.now())

    def _read_recent(self, pod: PodView) -> PodView | None:
        """Return a leader as it was at most `LOOK_SECONDS` ago; None if it no longer waits."""
        if self._look.now() - self._seen_at <= LOOK_SECONDS:
            return pod
        seen = self._look.live.get_pod(pod.namespace, pod.name)
        return None if seen is None or seen.uid != pod.uid or seen.node_name else seen

    def _add_failure(self, pods: Sequence[PodView], error: Exception) -> None:
        """Report the error of waiting leaders that could not be answered, or leave them."""
        if isinstance(error, OutOfTime) and self._left is not None:
            self._left += pods
            return
        self._swept.report.add_error(f"Pod {pods[0].namespace}/{pods[0].name}", error)
        for pod in pods:
            claim = error.claim if isinstance(error, ProvisionerError) and len(pods) == 1 else None
            self._swept.look.figures.add_unanswered(pod, claim, now=self._swept.look.now())


def _find_home(pod: PodView) -> tuple[str, str, str]:
    """Return kind, namespace and name of a pod's workload; the pod's own name without kind."""
    kind = find_kind_of_pod(pod)
    return ("", pod.namespace, pod.name) if kind is None else (kind.name, pod.namespace, kind.find_owner(pod))
