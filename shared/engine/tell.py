"""What an owner is told: one log record and one Event for each decision.

If an Event cannot be written, that is logged; it never undoes or repeats what was done.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from shared.engine.budget import TOLD_SECONDS
from shared.engine.look import Look, list_takers, make_claim
from shared.engine.outside import Cluster, Ports
from shared.kinds.table import get_kind
from shared.model.decisions import Decision, Reason, Verdict, find_event
from shared.model.failures import classify_failure
from shared.model.messages import EndedOperation
from shared.model.names import Claim, build_name
from shared.model.needs import Asks
from shared.model.pools import PoolShape, PoolStatus
from shared.model.workloads import Notice, PodView, WorkloadView
from shared.needs.ways import Demand
from shared.plan.counting import Census
from shared.plan.scene import Act, Answer, Need, Plan, Verb
from shared.plan.short import Trouble

_LOG = logging.getLogger("explain")


class Words(Struct, frozen=True):
    """What a decision says to its owner."""

    verdict: Verdict
    words: str


WORDS = msgspec.json.decode(
    pkgutil.get_data(__name__, "words.json") or b"", type=dict[Reason, Words]
)
"""Of all decisions but those that a need brings with it, and the end of a create that failed."""
CHECKS = frozenset({Reason.CHECK_READY, Reason.CHECK_RETRY, Reason.CHECK_REJECTED})
"""What Kueue's check is told, and no owner."""
ENDED_BY_OPERATIONS = frozenset(
    {Reason.NO_OPERATION_SLOT, Reason.LIMIT_REACHED, Reason.POOL_GOES_FIRST}
)
"""The end of an operation may let a workload go on that waits for one of these."""
TAKERS_MAX = 3  # so many other workloads are named that use a pool
_PRICED = ("accelerator", "machine_type", "spot", "flex_start", "reservation")
_CHANGES = frozenset({Verdict.CREATE, Verdict.RESIZE, Verdict.DELETE})
_ACTS = {
    Verb.RAISE: (Reason.POOL_GROWS, ""),
    Verb.LOWER: (Reason.POOL_SHRINKS, ""),
    Verb.MARK: (Reason.POOL_WARM, "is idle, and stays for pods that fit"),
    Verb.CLOSE: (Reason.POOL_WARM, "was idle for its time, and takes no new pods"),
    Verb.OPEN: (Reason.POOL_WARM, "is in use again"),
}
"""What an act on an existing pool is told as, with the state of a warm one."""
_WHOLE = Need(key="", asks=Asks(PoolShape("it")), ways=())
"""Where an answer is about the whole workload."""


class Outcome(Struct, frozen=True, kw_only=True):
    """One decision, after what it orders was done."""

    decision: Decision
    cluster: str
    pool: str = ""
    subject: str = ""
    facts: dict[str, Any] = {}
    pod: PodView | None = None  # that it is about, if it is about one pod
    refused: bool = False  # GKE refused the act at once, so the next way may follow
    error: Exception | None = None  # why another delivery of the same message may help

    @property
    def acted(self) -> bool:
        """Return whether something was changed."""
        return self.decision.verdict in _CHANGES


def say(reason: Reason, **facts: Any) -> Decision:
    """Return a decision in the words of its reason."""
    return Decision(WORDS[reason].verdict, reason, WORDS[reason].words.format(**facts))


def note(decision: Decision, look: Look, *, pool: str = "", **facts: Any) -> Outcome:
    """Return an outcome about the workload of a look, with more facts for its log record."""
    key = look.key
    claim = {name: getattr(key, name) for name in ("cluster", "kind", "namespace", "name")}
    facts = {"claim": {**claim, "owner_uid": look.uid}, **facts}
    return Outcome(decision=decision, cluster=key.cluster, pool=pool, subject=str(key), facts=facts)


def claim_slot(act: Act, look: Look) -> Claim:
    """Return whose slot a create is for."""
    return make_claim(look.key, look.uid, act.need, act.slot)


def find_demand(act: Act, look: Look) -> Demand:
    """Return what a new pool is built from."""
    demand = look.wanted.demands[act.need]
    return structs.replace(demand, index=act.candidate, empty=act.empty)


def describe_act(act: Act, look: Look) -> Outcome:
    """Return what an act does, and why; of a delete with what `usage` sums."""
    facts: dict[str, Any] = {"attempt": act.attempt, "slot": str(act.slot)}
    if act.verb == Verb.CREATE:
        return _describe_create(act, look, facts)
    if act.verb == Verb.DELETE:
        pool = look.pools[act.pool]
        facts |= {field: getattr(pool, field) for field in _PRICED} | {"zone": ",".join(pool.zones)}
        if pool.owner and pool.owner.created_at and not pool.elastic:  # GKE sizes an elastic one
            facts["chips"] = pool.units * pool.hosts
            facts["pool_seconds"] = round(look.scene.now - pool.owner.created_at, 1)
        return note(explain_delete(act.pool, look), look, pool=act.pool, **facts)
    reason, state = _ACTS[act.verb]
    decision = say(reason, pool=act.pool, maximum=act.maximum, state=state)
    return note(decision, look, pool=act.pool, **facts)


def _describe_create(act: Act, look: Look, facts: dict[str, Any]) -> Outcome:
    demand, waited = find_demand(act, look), look.measure_wait(act.need)
    facts |= {"chips": demand.shape.chips, "tier": str(demand.way.tier)}
    facts |= {"accelerator": demand.shape.family.accelerator, "zone": demand.way.zone}
    facts |= {} if waited is None else {"waited_seconds": round(waited, 1)}
    pool = build_name(claim_slot(act, look), act.attempt, act.useless)
    decision = say(Reason.POOL_ABSENT, pool=pool, shape=demand.shape, place=demand.place)
    return note(decision, look, pool=pool, **facts)


def explain_delete(pool: str, look: Look) -> Decision:
    """Return why a pool is deleted."""
    workload = look.workload
    if workload is None or workload.deleting:
        return say(Reason.OWNER_GONE, pool=pool)
    if workload.terminal:
        return say(Reason.WORKLOAD_OVER, pool=pool, terminal=workload.terminal)
    if workload.suspended:
        return say(Reason.WORKLOAD_SUSPENDED, pool=pool)
    failure = _describe_failure(pool, look)
    return say(Reason.POOL_FAILED if failure else Reason.POOL_SURPLUS, pool=pool, failure=failure)


def _describe_failure(name: str, look: Look) -> str:
    """Return what is wrong with a pool of a live workload; empty if nothing is."""
    pool = next(each for each in look.scene.pools if each.name == name)
    if pool.error and pool.status != PoolStatus.RUNNING:
        return f"failed: {pool.error}"
    trouble = Census(look.scene).troubles.get(name)
    if trouble == Trouble.USELESS:
        return "was whole for long, and the scheduler placed no waiting pod on it"
    if pool.nodes or trouble != Trouble.SHORT:
        return ""
    return f"got no machines: {pool.cause}" if pool.cause else "got no machines"


def list_outcomes(done: Sequence[Outcome], look: Look, plan: Plan, ports: Ports) -> list[Outcome]:
    """Return what came of acts, and the answers of the plan that the function tells."""
    cluster, outcomes = look.key.cluster, list(done)
    for answer in plan.answers:
        if answer.reason in CHECKS:
            continue
        decision = explain_answer(answer, look)
        if (ports.takes if decision.verdict == Verdict.KEEP else ports.adds) is not None:
            outcomes.append(note(decision, look, pool=answer.pool))
    for pod, decision in look.wanted.refusals if ports.adds else ():
        outcomes.append(Outcome(decision=decision, cluster=cluster, subject=str(pod), pod=pod))
    if ports.adds and look.measure_wait() is not None and not outcomes:
        outcomes.append(note(describe_wait(look), look))
    return outcomes


def describe_wait(look: Look) -> Decision:
    """Return what a demand is told whose pools exist already: no demand is left without words."""
    pools, error = look.scene.pools, find_error(look)
    ready = sum(pool.ready for pool in pools)
    text = f"its node pools exist or come ({len(pools)}); nodes that are Ready: {ready}"
    return Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, f"{text}: {error}" if error else text)


def tell(
    outcomes: Iterable[Outcome], look: Look, ports: Ports, *, tick: bool = False
) -> list[Outcome]:
    """Write the Events of what came of one key, and return the outcomes for the log.

    A tick says nothing again that stays as it is, and leaves nothing out that still is so. No Event
    is written again a short time later in the same words.
    """
    news: list[Outcome] = []
    now, notices = look.scene.now, ports.books[look.key.cluster].notices
    for outcome in outcomes:
        reason, message = outcome.decision.reason, outcome.decision.message
        about = outcome.pod or look
        place = (outcome.subject, about.uid, str(reason), outcome.pool)
        since, words = notices.get(place, (float("-inf"), ""))
        stays = now - since < TOLD_SECONDS
        if reason == Reason.POOL_IN_PROGRESS and not tick:
            continue  # the next tick says it, if that is still so
        if tick and stays and not outcome.acted:
            continue
        news.append(outcome)
        if not stays or words != message:
            notices[place] = now, message
            write_event(ports.clusters[look.key.cluster], outcome, look.workload)
    return news


def explain_answer(answer: Answer, look: Look) -> Decision:
    """Return an answer of the plan in words for the owner."""
    needs = {need.key: need for need in look.scene.needs}
    reason, need = answer.reason, needs.get(answer.need, _WHOLE)
    for decision in (need.never, need.waits_for):
        if decision and decision.reason == reason:
            return decision
    said = next((pod.scheduler_message for pod in look.pods if pod.scheduler_message), "")
    error = find_error(look, need)
    return say(
        reason,
        kind=look.key.kind,
        chips=need.hosts * need.chips,
        what=need.asks.shape.accelerator,
        stop=look.stop[1],
        error=error and f": {error}",
        scheduler=said and f" (the scheduler says: {said})",
        takers=_name_takers(look),
        slices=answer.slices,
        exclusive=get_kind(look.key.kind).exclusive,
        parent=look.parent_keeps,
    )


def find_error(look: Look, need: Need = _WHOLE) -> str:
    """Return GKE's words about the first way of a need that it refused at once.

    Else those about the last pool of the workload that failed; empty if there are none.
    """
    errors = [pool.cause for pool in look.scene.pools if pool.cause]
    errors += [pool.error for pool in look.scene.pools if pool.error]
    refused = [way for way in need.ways if way in look.refusals]
    errors += [look.refusals[way] for way in refused[:1]]
    return errors[-1] if errors else ""


def _name_takers(look: Look) -> str:
    names = [f"{kind} {space}/{name}" for kind, space, name in sorted(list_takers(look))]
    more = f" and {len(names) - TAKERS_MAX} more" if len(names) > TAKERS_MAX else ""
    return f" ({', '.join(names[:TAKERS_MAX])}{more})" if names else ""


def explain_end(ended: EndedOperation) -> Decision:
    """Return what the owner is told of the end of a create."""
    if ended.created:
        return say(Reason.POOL_CREATED, pool=ended.pool)
    text = f"GKE could not create node pool {ended.pool}: {ended.problem}"
    return Decision(Verdict.WAIT, classify_failure(ended.problem), text)


def write_event(live: Cluster, outcome: Outcome, workload: WorkloadView | None) -> None:
    """Write one Event on a pod or a workload that still exists; none for the verdict NOTHING.

    Its name follows from the object, the reason and the pool, so that two writers patch one Event.
    """
    decision, subject = outcome.decision, outcome.pod or workload
    event = find_event(decision)
    if event is None or subject is None:
        return
    notice = Notice(
        subject=subject,
        reason=event[0],
        message=f"{decision.message} [{decision.reason}]",
        warning=event[1],
        about=f"{decision.reason} {outcome.pool}",
    )
    try:
        live.write_notice(notice)
    except Exception as error:  # noqa: BLE001 -- the net of this object
        fields = {"object": str(subject), "error": str(error)}
        _LOG.warning("the Event could not be written on the object", extra=fields)
