"""Answers all waiting leaders of one workload in one delivery, or the leader that a message names.

A message is only a hint to look. One about a pod without a workload names the pod. The slice of
each leader gets a pool, or a reason. The pools are listed before, once for all slices of a
delivery.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from shared.core.decide.demands import (
    decide_absent_pod,
    decide_answered_slice,
    decide_demand,
    decide_no_leader,
    find_slice_name,
)
from shared.core.decide.failures import decide_failure
from shared.core.decisions import FAILURE_REASONS, Decision, Reason, Verdict
from shared.core.errors import Denied, ProvisionerError, Throttled
from shared.core.identity.names import build_pool_name
from shared.core.kinds.table import find_kind_of_pod
from shared.core.messages import POD
from shared.core.times import measure_seconds
from shared.engine.looks.gather import add_disks
from shared.engine.looks.look import Turn, open_look
from shared.engine.steps.admit_workloads import answer_reserved
from shared.engine.steps.make_attempt import FIRST_ATTEMPT, list_attempts, make_attempt
from shared.engine.steps.serving_pools import is_overdue, judge_serving
from shared.engine.tell import Outcome, describe_attempt, describe_claim, describe_demand, explain, name_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.demand.demand import Demand
    from shared.core.messages import Event
    from shared.core.ports import Ports
    from shared.core.workloads import PodView, WorkloadView
    from shared.engine.looks.look import Look

    Answers = list[Outcome | ProvisionerError]
    Asked = tuple[WorkloadView | None, Demand | Decision]

_LACKS = ((Verdict.WAIT, Reason.POD_UNPLACED), (Verdict.KEEP, Reason.POOL_DEGRADED))
LEADERS_MAX = 2_000
"""The most leaders that one delivery answers. The sweep answers the others."""


def provision(event: Event, ports: Ports) -> Answers:
    """Answer one demand event: each slice of the workload that waits gets a pool or a reason.

    An error about one slice stops no other; it is returned in its place.

    Raises:
        Retryable: something could not be read or is in progress; deliver the event again.
        Denied: a permission is missing.
    """
    subject, look = event.subject, open_look(event.cluster, ports)
    if subject.kind == POD:
        pod = look.live.get_pod(subject.namespace, subject.name)
        if pod is None or pod.uid != subject.uid:
            return [_conclude(event, decide_absent_pod(str(subject)))]
        return answer_pods(look, [pod])
    shared, workload = look.shared(), None
    if subject.kind in look.settings.kinds:
        workload = shared.live.get_workload(subject.kind, subject.namespace, subject.name)
    if workload is None or subject.uid not in ("", workload.uid):
        return [_conclude(event, decide_no_leader(str(subject)))]
    if workload.suspended:
        return [*answer_reserved(look, workload)] or [_conclude(event, decide_no_leader(str(subject)))]
    pods = list(islice(look.live.list_waiting_leaders(workload), LEADERS_MAX))
    return _answer(shared.share_pools(), pods) or [_conclude(event, decide_no_leader(str(subject)))]


def answer_pods(look: Look, pods: Sequence[PodView]) -> Answers:
    """Answer waiting leaders, as they were read just now, side by side, each slice once."""
    return _answer(look.shared(), pods)


def _answer(look: Look, pods: Sequence[PodView]) -> Answers:
    try:
        done = look.run([partial(provision_pod, pod, look) for pod in pods])
    finally:
        look.write_notices()
    answers = [
        name_error(it, describe_asking(look.cluster, pod, None)["claim"]) if isinstance(it, Exception) else it
        for pod, it in zip(pods, done, strict=True)
    ]
    # The other leaders of a slice, such as all pods of a Deployment, need no answer of their own.
    told = [it for it in answers if not isinstance(it, Outcome) or it.decision.reason != Reason.NOT_A_LEADER]
    return told or answers[:1]


def _conclude(event: Event, decision: Decision) -> Outcome:
    return Outcome(decision=decision, cluster=event.cluster, subject=str(event.subject))


def provision_pod(pod: PodView, look: Look, *, leads: bool = False) -> Outcome:
    """Give the slice of one live leader pod, or one that `leads`, a pool or a reason for none.

    Raises:
        Retryable: something could not be read or is in progress; try again.
        Denied: a permission is missing.
    """
    overdue, looked_at = is_overdue(look, pod), look.now()
    workload, found = _decide(pod, look, overdue=overdue, leads=leads)
    subject = f"Pod {pod.namespace}/{pod.name}"
    if isinstance(found, Decision):
        explain(look.live, found, workload, pod)
        facts = describe_asking(look.cluster, pod, workload)
        return Outcome(decision=found, cluster=look.cluster, subject=subject, facts=facts)
    if not look.answered.add(found.claim.hash):
        return Outcome(decision=decide_answered_slice(), cluster=look.cluster, subject=subject)
    try:
        pools = look.pools.list()
        turn = Turn(look=look, demand=found, pools=pools, looked_at=looked_at, pod=pod, workload=workload)
        made = _satisfy(turn, pod)
    except ProvisionerError as error:
        if overdue or isinstance(error, Denied | Throttled):
            name = build_pool_name(found.claim, FIRST_ATTEMPT)
            failed = decide_failure(f"node pool {name} cannot be created", error)
            explain(look.live, failed, workload, pod)
        error.claim = error.claim or describe_claim(found.claim.cluster, found.claim)
        raise
    decision = made.decision
    # The sweep runs every minute: on young demands it writes only changes, and what a pool lacks.
    # It also says why a pool that is gone is not created yet. A leader for which only the reserve
    # of the cap is left is answered again in the same sweep.
    lacks = decision.reason in FAILURE_REASONS or (decision.verdict, decision.reason) in _LACKS
    changes = lacks or decision.verdict not in (Verdict.KEEP, Verdict.WAIT)
    again = decision.reason == Reason.SWEEP_OVER_CAP and look.cap is not None and not look.cap.over
    if (overdue or not look.sweeps or changes) and decision.reason != Reason.POOL_GONE and not again:
        explain(look.live, decision, workload, pod)
    name, facts = build_pool_name(found.claim, made.attempt), _describe_answered(look, found, made, pod)
    return Outcome(decision=decision, cluster=look.cluster, pool=name, subject=subject, demand=found, facts=facts)


def _satisfy(turn: Turn, pod: PodView) -> AttemptDecision:
    """Decide about one demand and do it."""
    for attempt in list_attempts(turn):
        turn = replace(turn, pools=turn.look.pools.list())
        found = _answer_attempt(turn, pod, attempt)
        if found.decision.reason not in (Reason.POOL_IN_USE, Reason.POD_UNPLACED):
            break  # else others keep this pool, or pods of the slice are on the next one
    return found


def _answer_attempt(turn: Turn, pod: PodView, attempt: int) -> AttemptDecision:
    """Decide about one pool of a slice and do it; if it runs, also about what runs on it."""
    found = make_attempt(turn, attempt)
    name = build_pool_name(turn.demand.claim, found.attempt)
    serves = found.decision.reason == Reason.POOL_SERVES and turn.workload is not None
    return judge_serving(turn, pod, found, name) if serves else found


def _decide(pod: PodView, look: Look, *, overdue: bool, leads: bool) -> Asked:
    """Return the workload of a pod and its demand, or why it has none.

    Disks are read only for a pod that has claims and asks for a pool.
    """
    unread = "the workload of this pod cannot be read"
    try:
        workload = _find_workload(look, pod)
        found = decide_demand(look.cluster, pod, workload, look.settings, leads=leads)
        if workload is not None and pod.template.volume_claims and not _is_settled(found, look):
            unread = "the zone of this pod's disks cannot be read"
            workload = add_disks(look, workload, claims=pod.template.volume_claims)
            found = decide_demand(look.cluster, pod, workload, look.settings, leads=leads)
    except ProvisionerError as error:
        if overdue:
            explain(look.live, decide_failure(unread, error), None, pod)
        error.claim = error.claim or describe_asking(look.cluster, pod, None)["claim"]
        raise
    return workload, found


def _is_settled(found: Demand | Decision, look: Look) -> bool:
    """Return whether disks change nothing: the pod asks for no pool, or its slice was handled."""
    return found.verdict != Verdict.REFUSE if isinstance(found, Decision) else found.claim.hash in look.answered


def _find_workload(look: Look, pod: PodView) -> WorkloadView | None:
    kind = find_kind_of_pod(pod)
    if kind is None or kind.name not in look.settings.kinds:
        return None
    return look.live.get_workload(kind.name, pod.namespace, kind.find_owner(pod))


def _describe_answered(look: Look, demand: Demand, made: AttemptDecision, pod: PodView) -> dict[str, Any]:
    facts = describe_demand(demand.on_attempt(made.attempt), look.settings) | describe_attempt(made)
    waited = measure_seconds(pod.unschedulable_since, look.now())
    if made.decision.verdict == Verdict.CREATE and waited is not None:
        facts["waited_seconds"] = round(waited, 1)
    return facts


def describe_asking(cluster: str, pod: PodView, workload: WorkloadView | None) -> dict[str, Any]:
    """Return the claim of a leader for the log, as far as the pod tells it."""
    kind = find_kind_of_pod(pod)
    return {
        "claim": {
            "cluster": cluster,
            "kind": kind.name if kind else "",
            "namespace": pod.namespace,
            "name": kind.find_owner(pod) if kind else "",
            "owner_uid": workload.uid if workload else "",
            "slice": find_slice_name(pod, workload),
        }
    }
