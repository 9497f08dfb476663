"""Answers the end of a node pool operation: the slice that waits for the pool is looked at.

The sweep does the same within a minute. An entry of the log is only a hint to look.

GKE runs a limited number of operations for a cluster at one time, and refuses a create above it. So
one create is sent for each operation that ends, for the slice that has waited longest for a place.
A slice whose creation has failed before is left to the sweep, which keeps the pauses.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict, deque
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

from shared.core.decide.demands import decide_succeeded, decide_unclaimed, decide_unrelated, find_claim
from shared.core.decide.pool_facts import is_owner
from shared.core.decisions import Verdict
from shared.core.errors import NoPlace, ProvisionerError
from shared.core.identity.names import build_pool_name, parse_pool_name
from shared.core.identity.pools import UNDER_WAY
from shared.core.kinds.table import find_kind_of_pod
from shared.core.times import SHARED_SECONDS
from shared.engine.entries.answer_waiting import answer_pods
from shared.engine.looks.look import is_fresh_leader, open_look
from shared.engine.looks.pool_reads import Creations
from shared.engine.looks.shared_reads import SharedReads, share_list
from shared.engine.steps.admit_workloads import answer_reserved
from shared.engine.tell import Outcome, describe_pool_outcome, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shared.core.decisions import Decision
    from shared.core.identity.names import ParsedName
    from shared.core.identity.pool_index import PoolIndex
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.operations import EndedOperation
    from shared.core.ports import Cluster, Ports
    from shared.core.workloads import PodView, WorkloadView
    from shared.engine.entries.answer_waiting import Answers
    from shared.engine.looks.look import Look

LEADERS_MAX = 10_000
"""The most waiting leaders that one entry is compared with; the sweep answers the others."""
ANSWERS_MAX = 3
"""The most slices that are answered for one place, if the first ones do not need it any more."""
_LOG = logging.getLogger("places")


def list_leaders(cluster: str, ports: Ports) -> Sequence[PodView]:
    """Return the waiting leaders of a cluster, as they were at most `SHARED_SECONDS` ago."""

    def read() -> Sequence[PodView]:
        return tuple(islice(ports.clusters[cluster].list_waiting_leaders(), LEADERS_MAX))

    return share_list(f"leaders {cluster}", read, ports)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The leaders of a cluster that may wait for a place only."""

    pods: deque[PodView]
    """In their order; each is taken by one delivery."""
    live: Cluster
    """Its reads are shared."""
    creations: Creations


def fill_place(look: Look, *, apart: str) -> Answers:
    """Send one create for a slice that waits for a place only; return what was answered.

    An error is logged and stops nothing: the sweep answers these slices too. `apart` is the begin
    of the hash of a claim that was answered a moment ago.
    """
    answers: Answers = []
    try:
        waiting = share_list(f"places {look.cluster}", partial(_look, look.cluster, look.ports), look.ports)
        while waiting.pods and len(answers) < ANSWERS_MAX:
            if (pod := _take(waiting, look, apart)) is None:
                continue
            (answer,) = answer_pods(look, [pod])
            if not isinstance(answer, Outcome):
                raise answer
            answers.append(answer)
            if answer.decision.verdict == Verdict.CREATE:
                break
    except (IndexError, NoPlace):
        pass  # other deliveries have taken the last slice, or the last place
    except ProvisionerError as error:
        _LOG.warning("a free place is left to the sweep", extra={"object": look.cluster, "error": str(error)})
    return answers


def _look(cluster: str, ports: Ports) -> _Waiting:
    now, kinds = ports.clock.now(), ports.settings.kinds
    pods = (pod for pod in list_leaders(cluster, ports) if pod.unschedulable)
    old = (pod for pod in pods if not is_fresh_leader(pod, listed_at=now - SHARED_SECONDS, now=now))
    served = [pod for pod in old if (kind := find_kind_of_pod(pod)) is not None and kind.name in kinds]
    live = cast("Cluster", SharedReads(cluster, ports))
    return _Waiting(deque(order_by_turns(served)), live, Creations(cluster, ports))


def _take(waiting: _Waiting, look: Look, apart: str) -> PodView | None:
    """Return the next leader as it is now; None if its slice does not wait for a place only."""
    pod, cluster = waiting.pods.popleft(), look.cluster
    kind = find_kind_of_pod(pod)
    workload = waiting.live.get_workload(kind.name, pod.namespace, kind.find_owner(pod)) if kind else None
    claim = find_claim(cluster, pod, workload)
    if claim is None or claim.hash.startswith(apart):
        return None
    pools, places = look.pools.list(), look.ports.places
    sent = places and places.is_sent(cluster, build_pool_name(claim), pools, now=look.now())
    if sent or pools.list_claimed(claim.hash) or not waiting.creations.is_first(claim):
        return None
    now = look.live.get_pod(pod.namespace, pod.name)
    return now if now is not None and now.uid == pod.uid and not now.node_name else None


def order_by_turns(pods: Iterable[PodView]) -> list[PodView]:
    """Return pods in turn among namespaces; in each namespace the longest wait is first."""
    by_namespace: defaultdict[str, list[PodView]] = defaultdict(list)
    for pod in sorted(pods, key=_rank):
        by_namespace[pod.namespace].append(pod)
    turns = ((at, _rank(pod), pod) for found in by_namespace.values() for at, pod in enumerate(found))
    return [pod for *_, pod in sorted(turns, key=lambda each: each[:2])]


def _rank(pod: PodView) -> tuple[float, str, str]:
    since = math.inf if pod.unschedulable_since is None else pod.unschedulable_since
    return since, pod.namespace, pod.name


def settle(ended: EndedOperation | None, ports: Ports) -> Answers:
    """Answer one entry of the log; None is one that is not about the end of a create or delete.

    The slice that waits for the pool is answered first. If it needs no create, or the pool is not
    ours, the place among GKE's operations is free for the slice that has waited longest for one.

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
    look = open_look(ended.cluster, ports)
    look = look.share_pools(partial(_list_after, look, ended))
    unrelated = decide_unrelated(f"{ended.pool} is not the name of a pool of this provisioner")
    answers: Answers = _answer_own(look, ended, name) if name else [_conclude(ended, unrelated)]
    if not any(isinstance(each, Outcome) and each.decision.verdict == Verdict.CREATE for each in answers):
        answers += fill_place(look, apart=name.hash if name else ended.pool)
    return answers


def _answer_own(look: Look, ended: EndedOperation, name: ParsedName) -> Answers:
    """Answer the slice, or the suspended workload, that a pool was for."""
    pool = _list_after(look, ended).find(ended.pool) or look.get_pool(ended.pool) if ended.created else None
    told = decide_succeeded(pool)
    if pool is not None and told is not None:
        workload = _find_owner(look, pool)
        explain(look.live, told, workload, _find_waiting(look, pool, workload))
        made = describe_pool_outcome(look.cluster, pool, told)
        try:
            return [made, *_answer_owner(look, workload)]
        except ProvisionerError as error:
            return [made, error]
    answers: Answers = []
    for seen in _find_leaders(look, name):
        pod = look.live.get_pod(seen.namespace, seen.name)
        if pod is not None and pod.uid == seen.uid:
            answers += answer_pods(replace(look, had_pool=True), [pod])
        if any(not isinstance(each, Outcome) or each.demand for each in answers):
            break
    if not answers and not ended.deleted and look.cluster in look.ports.queues:
        pool = pool or look.get_pool(ended.pool)
        answers = [*_answer_owner(look, _find_owner(look, pool))] if pool else []
    return answers or [_conclude(ended, decide_unclaimed(ended.pool))]


def _list_after(look: Look, ended: EndedOperation) -> PoolIndex:
    """Return every pool, as listed after an operation has ended.

    One list serves the ends that come at one time: each of them is shown by it.
    """
    began, listed = look.now(), look.list_shared()
    pool = listed.find(ended.pool)
    shown = pool is None if ended.deleted else pool is not None and pool.status not in UNDER_WAY
    return listed if shown else look.list_shared(since=began)


def _answer_owner(look: Look, workload: WorkloadView | None) -> list[Outcome]:
    """Answer the owner of a pool if it is suspended and waits for our check."""
    return [] if workload is None or not workload.suspended else answer_reserved(look, workload)


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


def _find_waiting(look: Look, pool: PoolSnapshot, workload: WorkloadView | None) -> PodView | None:
    """Return the leader of the slice that a pool of a workload was made for, if it waits.

    It is not looked for among all pods of the workload: they may be thousands, for as many pools as
    the workload has slices.
    """
    owner = pool.owner
    if workload is None or owner is None:
        return None
    for pod in list_leaders(look.cluster, look.ports):
        kind = find_kind_of_pod(pod)
        named = kind and owner.home == (kind.name, pod.namespace, kind.find_owner(pod))
        claim = find_claim(look.cluster, pod, workload) if named else None
        if claim and claim.hash == owner.claim_hash:
            return pod
    return None
