"""Answers Kueue's admission check `shared.core.kueue.CONTROLLER`: capacity before pods.

A workload that has quota gets node pools for all of its slices. When all of them run, Kueue is told
that the check is Ready, and resumes the workload.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decide.admission_checks import (
    Word,
    answer_gang,
    is_final,
    refuse_owner,
)
from shared.core.decide.demands import refuse_rejected
from shared.core.decide.gangs import answer_whole, plan_gang
from shared.core.decide.needed_pools import LOST
from shared.core.decisions import Decision, Reason
from shared.core.errors import Rejected
from shared.core.identity.pool_index import PoolIndex
from shared.core.kueue import find_seconds
from shared.core.times import format_time
from shared.perform.disk_zones import add_disks
from shared.perform.explain import explain
from shared.perform.gang_pools import describe_slices, give_pools
from shared.perform.outcome import Outcome
from shared.perform.side_by_side import CALLS_AT_ONCE, get_runner, take_some

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.core.decide.admission_checks import CheckAnswer
    from shared.core.decide.gangs import GangAnswer
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.kueue import Check, CheckState, QueuedWorkload
    from shared.core.ports import Ports, Queues
    from shared.core.workloads import WorkloadView
    from shared.perform.act_within_limits import Limits
    from shared.perform.creation_list import Creations
    from shared.perform.deletion_cap import DeletionCap

QUEUED_MAX = 1_000
"""The most workloads that one sweep answers. Of more, each sweep takes others."""
Answered = list[tuple[str, "Sequence[Outcome] | Exception"]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """One sweep's answers to the admission checks of one cluster."""

    cluster: str
    queues: Queues
    ports: Ports
    cap: DeletionCap | None = None
    limits: Limits | None = None
    creations: Creations | None = None

    def run(self, pools: Sequence[PoolSnapshot]) -> Answered:
        """Answer all workloads that wait for our check; return what came of each, or its error.

        The error of a check that could not be marked as active is among them. The workload that got
        its quota first comes first, because a limit may have room for one of them.

        Args:
            pools: every pool of the cluster, listed just now.

        Raises:
            ProvisionerError: checks or workloads could not be listed.
        """
        checks, answered = self.queues.list_checks(), Answered()
        for check in checks:
            try:
                if not check.is_told:
                    self.queues.mark_active(check)
            except Exception as error:  # noqa: BLE001 -- the net of this check
                answered.append((f"AdmissionCheck {check.name}", error))
        pending = _list_pending(self.queues.list_workloads() if checks else (), checks)
        found = take_some(pending, QUEUED_MAX, now=self.ports.clock.now())
        found.sort(key=lambda each: (each[0].reserved_at or 0.0, str(each[0])))
        tasks = [partial(self.admit, queued, state, pools, seconds) for queued, state, seconds in found]
        done = get_runner(self.ports)(tasks, at_once=CALLS_AT_ONCE, until=self.ports.until)
        return answered + [(str(queued), each) for (queued, *_), each in zip(found, done, strict=True)]

    def admit(
        self, queued: QueuedWorkload, state: CheckState, pools: Sequence[PoolSnapshot], seconds: int
    ) -> list[Outcome]:
        """Answer one workload; the outcomes are empty if its owner is gone.

        Args:
            queued: as it was read just now; it has quota.
            state: that of our check.
            pools: every pool of the cluster, listed just now.
            seconds: for how long a part of the pools is held if the owner does not say it.

        Raises:
            Retryable: something could not be read, or has changed; a later look answers.
            Denied: a permission is missing.
        """
        owner, made = self._give(queued, state, pools, seconds)
        if made is None:
            return []
        outcomes = describe_slices(self.cluster, made, self.ports)
        answer = answer_gang(made, uid=queued.uid, retries=state.retries, now=self.ports.clock.now())
        self._tell(queued, state, answer)
        if answer.word == Word.PENDING and outcomes:
            return outcomes
        if answer.word != Word.PENDING or not made.slices:
            explain(self.ports.clusters[self.cluster], answer.decision, objects=(owner,))
        facts = {"check": state.name, "state": str(answer.word)}
        said = Outcome(decision=answer.decision, cluster=self.cluster, subject=str(queued), facts=facts)
        return [*outcomes, said]

    def _give(
        self, queued: QueuedWorkload, state: CheckState, pools: Sequence[PoolSnapshot], seconds: int
    ) -> tuple[WorkloadView | None, GangAnswer | None]:
        """Return the owner as Kueue will resume it, and what came of its slices.

        There is no answer if the owner is replaced or on its way out.
        """
        settings, owner = self.ports.settings, None
        held = any(pool.status not in LOST for pool in PoolIndex.of(pools).list_owned(queued.owner_uid))
        if refused := refuse_owner(queued, settings.kinds):
            final = refused.reason == Reason.OWNER_KIND_UNKNOWN
            return None, answer_whole(refused, final=final, held=held)
        try:
            owner = self.queues.view_owner(queued)
            if owner is None or owner.uid != queued.owner_uid or owner.deleting:
                return None, None
            seconds = find_seconds(owner.marks, seconds)
        except Rejected as error:
            # Without an owner a flavor of the queue contradicts the spec.
            return owner, answer_whole(refuse_rejected(error), final=owner is not None, held=held)
        gang = plan_gang(self.cluster, add_disks(self.cluster, owner, self.ports), settings)
        if isinstance(gang, Decision):
            return owner, answer_whole(gang, final=is_final(self.cluster, owner, settings), held=held)
        return owner, give_pools(
            self.cluster,
            gang,
            owner,
            self.ports,
            pools=pools,
            seconds=seconds,
            since=queued.reserved_at or 0.0,
            cap=self.cap,
            limits=self.limits,
            creations=self.creations,
            ended=state.retries,
        )

    def _tell(self, queued: QueuedWorkload, state: CheckState, answer: CheckAnswer) -> None:
        """Write the check of a workload, if it is not so already."""
        word, message = str(answer.word), f"{answer.decision.message} [{answer.decision.reason}]"
        if (word, message) == (state.state, state.message):
            return
        since = state.since if word == state.state else format_time(self.ports.clock.now())
        told = dataclasses.replace(state, state=word, message=message, since=since)
        self.queues.write_state(queued, told, retry_seconds=answer.retry_seconds)


def answer_reserved(cluster: str, workload: WorkloadView, ports: Ports) -> list[Outcome]:
    """Answer our check of a suspended workload that has quota of Kueue; empty without one.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        workload: as it was read just now.
        ports: the outside world.

    Raises:
        Retryable: something could not be read, or has changed; deliver the message again.
        Denied: a permission is missing.
    """
    queues = ports.queues.get(cluster)
    if queues is None or not workload.suspended:
        return []
    reserved = [each for each in queues.list_owned(workload.namespace, workload.uid) if each.holds_quota]
    found = _list_pending(reserved, queues.list_checks()) if reserved else []
    if not found:
        return []
    admission, pools = Admission(cluster=cluster, queues=queues, ports=ports), ports.pools.list(cluster)
    return [
        outcome for queued, state, seconds in found for outcome in admission.admit(queued, state, pools, seconds)
    ]


def _list_pending(
    workloads: Iterable[QueuedWorkload], checks: Iterable[Check]
) -> list[tuple[QueuedWorkload, CheckState, int]]:
    """Return the workloads with quota for which one of our checks is Pending.

    Each comes with the state of the check, and for how long that lets a part of the pools be held.
    """
    known = {check.name: check.seconds for check in checks if not check.problem}
    return [
        (each, state, known[state.name])
        for each in workloads
        if each.holds_quota and (state := each.find_pending(known))
    ]
