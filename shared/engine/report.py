"""What an owner is told: one log record and one Event for each decision about a workload.

If an Event cannot be written, that is logged; it never undoes or repeats what was done.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.model.decisions import Decision, Reason, Verdict, find_event_reason, is_warning
from shared.model.readings import Notice
from shared.model.times import format_minute
from shared.plan.scene import Verb

if TYPE_CHECKING:
    from shared.engine.act import Done
    from shared.engine.look import Look
    from shared.engine.outside import Cluster, Ports
    from shared.engine.reconcile import Result
    from shared.model.workloads import PodView, WorkloadView
    from shared.plan.scene import Answer, Need

_LOG = logging.getLogger("explain")
GRACE_SECONDS = 300
_WORDS: dict[Reason, tuple[Verdict, str]] = {
    Reason.STOPPED: (Verdict.REFUSE, "nothing is created: {stop}"),
    Reason.LIMIT_REACHED: (
        Verdict.REFUSE,
        "a limit of the operator is reached: {lacking} of {hosts} hosts each wait; end other workloads, or let an "
        "operator raise limit_chips",
    ),
    Reason.NO_OPERATION_SLOT: (
        Verdict.WAIT,
        "GKE runs as many operations as it allows; the create follows when one has ended",
    ),
    Reason.PAUSED: (
        Verdict.WAIT,
        "every way to get {what} was tried; the next try follows after a pause{error}",
    ),
    Reason.POOL_USELESS: (
        Verdict.REFUSE,
        "three node pools in a row were whole, and the scheduler placed no pod on them{scheduler}; correct the "
        "pods, and create them again",
    ),
    Reason.POOL_GOES_FIRST: (
        Verdict.WAIT,
        "the next node pool needs what the failed one holds, which is deleted",
    ),
    Reason.SLICE_MIXED: (
        Verdict.WAIT,
        "the pods of one slice run on two node pools; delete its leader pod, and set exclusive placement",
    ),
    Reason.SLICE_DOUBLED: (
        Verdict.REFUSE,
        "more slices have pods than the workload may have; the others get no pool",
    ),
    Reason.POOL_TAKEN: (Verdict.KEEP, "pods of other workloads use a node pool of this workload"),
    Reason.FOLLOWERS_WAIT: (
        Verdict.WAIT,
        "a slice runs in part on nodes that are not its own, and gets no node pool for the rest{scheduler}",
    ),
    Reason.HOST_LOST: (Verdict.WAIT, "GKE has lost a host of a slice; its node pool is replaced"),
    Reason.PARENT_OVER: (
        Verdict.KEEP,
        "the parent of this workload has ended and keeps it, so its pools stay",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One decision, after what it orders was done."""

    decision: Decision
    cluster: str
    pool: str = ""
    subject: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def report(result: Result, ports: Ports) -> list[Outcome]:
    """Write the Events of what came of one key, and return the outcomes for the log."""
    look = result.look
    outcomes = [_describe(done, look) for done in result.done]
    outcomes += [_describe_answer(answer, look) for answer in result.plan.answers]
    live = ports.clusters[look.key.cluster]
    for outcome in outcomes:
        write_event(live, outcome.decision, look.workload)
    for refusal in look.wanted.refusals:
        write_event(live, refusal.decision, None, refusal.pod)
        subject = f"Pod {refusal.pod.namespace}/{refusal.pod.name}"
        outcomes.append(
            Outcome(decision=refusal.decision, cluster=look.key.cluster, subject=subject)
        )
    return outcomes


def _describe(done: Done, look: Look) -> Outcome:
    demand, act = done.demand, done.act
    facts: dict[str, Any] = {
        "claim": describe_key(look),
        "attempt": act.attempt,
        "slot": str(act.slot),
    }
    if demand is not None:
        facts |= {
            "tier": str(demand.capacity.tier),
            "accelerator": demand.shape.accelerator,
            "chips": demand.shape.chips,
            "machine_type": demand.shape.machine_type,
            "node_count": demand.shape.node_count,
            "topology": demand.shape.topology,
            "reservation": demand.capacity.reservation_path,
            "zone": demand.zone,
        }
    if act.verb == Verb.CREATE:
        waits = [pod.created_at for pod in look.scene.pods if pod.waits and pod.need == act.need]
        facts |= {"waited_seconds": round(look.scene.now - min(waits), 1)} if waits else {}
    return Outcome(
        decision=done.decision,
        cluster=look.key.cluster,
        pool=done.pool,
        subject=str(look.key),
        facts=facts,
    )


def describe_key(look: Look) -> dict[str, str]:
    """Return the workload of a look for a log record."""
    key, workload = look.key, look.workload
    return {
        "cluster": key.cluster,
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        "owner_uid": workload.uid if workload else "",
    }


def _describe_answer(answer: Answer, look: Look) -> Outcome:
    need = next((need for need in look.scene.needs if need.key == answer.need), None)
    decision = explain_answer(answer, need, look)
    return Outcome(
        decision=decision,
        cluster=look.key.cluster,
        subject=str(look.key),
        facts={"claim": describe_key(look)},
    )


def explain_answer(answer: Answer, need: Need | None, look: Look) -> Decision:
    """Return an answer of the plan in words for the owner of the workload."""
    reason = Reason(answer.reason)
    for obstacle in (need.never, need.waits_for) if need else ():
        if obstacle is not None and obstacle.reason == reason:
            return Decision(Verdict.REFUSE, reason, obstacle.message)
    verdict, text = _WORDS.get(reason, (Verdict.WAIT, str(reason)))
    said = next((pod.scheduler_message for pod in look.pods if pod.scheduler_message), "")
    errors = [pool.error for pool in look.pools.values() if pool.error]
    message = text.format(
        stop=look.stop_cause,
        lacking=len(look.scene.pods),
        hosts=need.hosts if need else 0,
        what=need.asks.shape.accelerator if need else "it",
        error=f": {errors[-1]}" if errors else "",
        scheduler=f" (the scheduler says: {said})" if said else "",
    )
    return Decision(verdict, reason, message)


def write_event(
    live: Cluster, decision: Decision, workload: WorkloadView | None, pod: PodView | None = None
) -> None:
    """Write one Event on a workload or a pod that still exists; none for the verdict NOTHING."""
    reason, about = find_event_reason(decision), workload or pod
    if reason is None or about is None:
        return
    notice = Notice(
        kind=workload.kind if workload else "Pod",
        namespace=about.namespace,
        name=about.name,
        uid=about.uid,
        reason=str(reason),
        message=f"{decision.message} [{decision.reason}]",
        warning=is_warning(decision),
    )
    try:
        live.write_notice(notice)
    except Exception as error:  # noqa: BLE001 -- the net of this object
        fields = {"object": f"{notice.kind} {notice.namespace}/{notice.name}", "error": str(error)}
        _LOG.warning("the Event could not be written on the object", extra=fields)


def say_until(seconds: float) -> str:
    """Return a time of today for people."""
    return format_minute(seconds)
