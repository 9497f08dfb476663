"""Answers the end of a node pool operation: the slice that waits for the pool is looked at.

The sweep does the same within a minute. An entry of the log is only a hint to look: it has nothing
but the pool's name, and what is done follows from the live objects.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shared.core.decide.capacity_first import is_asking
from shared.core.decide.demands import find_claim
from shared.core.decide.ended import decide_succeeded, decide_unclaimed, decide_unrelated
from shared.core.decide.pool_facts import is_owner
from shared.core.decisions import Verdict
from shared.core.identity.names import parse_pool_name
from shared.core.kinds.table import find_kind_of_pod, get_kind
from shared.perform.admit_workloads import answer_reserved
from shared.perform.answer_waiting import answer_pods
from shared.perform.explain import explain
from shared.perform.fill_place import fill_place, list_leaders
from shared.perform.look import open_look
from shared.perform.outcome import Outcome, describe_pool_outcome
from shared.perform.resume_workloads import answer_workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.core.decisions import Decision
    from shared.core.identity.names import ParsedName
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.operations import EndedOperation
    from shared.core.ports import Ports
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.answer_waiting import Answers
    from shared.perform.look import Look


def settle(ended: EndedOperation | None, ports: Ports) -> Answers:
    """Answer one entry of the log; None is one that is not about the end of a create or delete.

    The slice that waits for the pool is answered first. If it needs no create, its place among
    GKE's operations is free for the slice that has waited longest for one.

    Raises:
        Retryable: something could not be read or is in progress; deliver the entry again.
        Denied: a permission is missing.
    """
    if ended is None:
        decision = decide_unrelated("the entry is not about the end of a create or delete of a node pool")
        return [Outcome(decision=decision, cluster="")]
    name = parse_pool_name(ended.pool)
    if ended.cluster not in ports.clusters:
        return [_conclude(ended, decide_unrelated(f"this deployment does not serve {ended.cluster}"))]
    if name is None:
        return [_conclude(ended, decide_unrelated(f"{ended.pool} is not the name of a pool of this provisioner"))]
    look = open_look(ended.cluster, ports, had_pool=True)
    answers = _answer_own(look, ended, name)
    if not any(isinstance(each, Outcome) and each.decision.verdict == Verdict.CREATE for each in answers):
        answers += fill_place(ended.cluster, ports, apart=name.hash)
    return answers


def _answer_own(look: Look, ended: EndedOperation, name: ParsedName) -> Answers:
    """Answer the slice, or the suspended workload, that a pool was for."""
    pool = look.get_pool(ended.pool) if ended.created else None
    told = decide_succeeded(pool)
    if pool is not None and told is not None:
        workload = _find_owner(look, pool)
        explain(look.live, told, objects=_list_told(look, pool, workload))
        return [describe_pool_outcome(look.cluster, pool, told), *_answer_owner(look, workload)]
    answers: Answers = []
    for seen in _find_leaders(look, name):
        pod = look.live.get_pod(seen.namespace, seen.name)
        if pod is not None and pod.uid == seen.uid:
            answers += answer_pods(look, [pod])
        if any(not isinstance(each, Outcome) or each.demand for each in answers):
            break
    if not answers and not ended.deleted and _may_wait_without_pods(look):
        pool = pool or look.get_pool(ended.pool)
        answers = [*_answer_owner(look, _find_owner(look, pool))] if pool else []
    return answers or [_conclude(ended, decide_unclaimed(ended.pool))]


def _answer_owner(look: Look, workload: WorkloadView | None) -> list[Outcome]:
    """Answer the owner of a pool if it is suspended and waits for its capacity."""
    if workload is None or not workload.suspended or not _may_wait_without_pods(look):
        return []
    look = replace(look, had_pool=False)
    asks = look.settings.capacity_first and is_asking(workload)
    return answer_reserved(look, workload) or (answer_workload(look, workload) if asks else [])


def _may_wait_without_pods(look: Look) -> bool:
    return look.settings.capacity_first or look.cluster in look.ports.queues


def _conclude(ended: EndedOperation, decision: Decision) -> Outcome:
    subject = f"node pool {ended.pool}"
    return Outcome(decision=decision, cluster=ended.cluster, pool=ended.pool, subject=subject)


def _find_leaders(look: Look, name: ParsedName) -> Iterator[PodView]:
    """Yield the waiting leaders of the slice whose claim a pool's name has.

    A workload is read only if its name fits the pool's. One that cannot be read does not hide the
    others; its error is raised at the end.
    """
    known, unread = dict[tuple[str, str, str], "WorkloadView | None"](), None
    for pod in list_leaders(look.cluster, look.ports):
        kind = find_kind_of_pod(pod)
        if kind is None or kind.name not in look.settings.kinds or not name.may_be_of(kind.find_owner(pod)):
            continue
        home = (kind.name, pod.namespace, kind.find_owner(pod))
        if home not in known:
            try:
                known[home] = look.live.get_workload(*home)
            except Exception as error:  # noqa: BLE001 -- the net of this workload
                known[home], unread = None, error
        claim = find_claim(look.cluster, pod, known[home])
        if claim is not None and claim.hash.startswith(name.hash):
            yield pod
    if unread is not None:
        raise unread


def _find_owner(look: Look, pool: PoolSnapshot) -> WorkloadView | None:
    """Return the workload that a pool was made for, if it is there."""
    owner = pool.owner
    if owner is None or owner.kind not in look.settings.kinds:
        return None
    workload = look.live.get_workload(owner.kind, owner.namespace, owner.name)
    return workload if workload is not None and is_owner(owner, workload) else None


def _list_told(look: Look, pool: PoolSnapshot, workload: WorkloadView | None) -> list[WorkloadView | PodView]:
    """Return the workload that a pool was made for, and the leader of its slice if it waits.

    The leader is not looked for among all pods of the workload: they may be thousands, for as many
    pools as the workload has slices.
    """
    if workload is None or pool.owner is None:
        return []
    kind = get_kind(workload.kind)
    for pod in list_leaders(look.cluster, look.ports):
        near = find_kind_of_pod(pod) is kind and pod.namespace == workload.namespace
        named = near and kind.find_owner(pod) == workload.name
        claim = find_claim(look.cluster, pod, workload) if named else None
        if claim is not None and claim.hash == pool.owner.claim_hash:
            return [workload, pod]
    return [workload]
