"""The rows of a status, from the plan of each workload: its pools, and its needs that wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from cli.exit_codes import noting, say
from cli.prices import find_pool_price, find_tier
from shared.engine.budget import Key
from shared.engine.kueue import list_queued
from shared.engine.look import LIVE, list_claims
from shared.engine.reads import list_operations, read_lists, read_stop
from shared.engine.reconcile import plan_for
from shared.engine.tell import describe_act, describe_wait, explain_answer
from shared.engine.wakes import list_owners
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import ProvisionerError
from shared.model.failures import classify_failure
from shared.model.names import parse_name
from shared.model.pools import PoolStatus
from shared.model.times import format_time
from shared.plan.attempts import Past, find_pause, list_free_slots, recall
from shared.plan.counting import Census
from shared.plan.plan import Life, find_life
from shared.plan.pool import is_used
from shared.plan.scene import Verb
from shared.plan.short import Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from shared.engine.look import Lists, Look
    from shared.engine.outside import Ports
    from shared.model.needs import Need
    from shared.model.pools import Operation
    from shared.plan.scene import Act, Plan, Pool, Scene


READ_SECONDS = 50.0


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One workload as it is now, and the plan for it."""

    look: Look
    plan: Plan

    @cached_property
    def census(self) -> Census:
        """Return what the plan has counted."""
        return Census(self.look.scene)

    @cached_property
    def hashes(self) -> set[str]:
        """Return what the names of its pools have, also of pools that are gone."""
        hashes = {claim.hash for claim in list_claims(self.look)}
        names = (parse_name(pool.name) for pool in self.look.scene.pools)
        return hashes | {name.hash for name in names if name}


@dataclass(slots=True, kw_only=True)
class Reading:
    """What one cluster has."""

    cluster: str
    now: float  # unix seconds
    lists: Lists = LIVE  # empty if something could not be listed
    planned: list[Planned] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stop: str = ""  # why its emergency stop is on, in words; empty if it is off

    def measure_age(self, since: float | None) -> float | None:
        """Return how many seconds ago something was; None if that is unknown."""
        return None if since is None else round(self.now - since, 1)

    def list_operations(self, hashes: Collection[str]) -> list[Operation]:
        """Return what GKE did with pools whose names have one of these hashes, the oldest first."""
        operations = self.lists.operations or {}
        listed = [each for key in hashes for _, each in operations.get(key, ())]
        return sorted(listed, key=lambda each: each.began_at or 0.0)


def read_cluster(
    cluster: str, ports: Ports, *, chooses: Callable[[Key], bool], also: Iterable[Key] = ()
) -> Reading:
    """Return the workloads of a cluster that have pools or waiting pods, with their plans."""
    reading = Reading(cluster=cluster, now=ports.clock.now())
    reading.stop = read_stop(cluster, ports.settings.own_namespace, ports)[1]
    try:
        lists = read_lists(cluster, ports)
        reading.lists = structs.replace(lists, operations=list_operations(cluster, ports))
    except ProvisionerError as error:
        reading.errors.append(say(error))
        return reading
    owners = list(filter(chooses, list_owners(reading.lists)))
    _plan_all(owners, reading, ports)
    # An owner is listed twice if it has a pool of the Go program, which names no UID.
    reading.planned = list({tuple(one.look.pools): one for one in reading.planned}.values())
    waiting = [key for key in (*_list_waiting(reading, ports), *also) if chooses(key)]
    live = {one.look.key.workload for one in reading.planned if one.look.workload}
    _plan_all([key for key in dict.fromkeys(waiting) if key.workload not in live], reading, ports)
    return reading


def _list_waiting(reading: Reading, ports: Ports) -> list[Key]:
    """Return the workloads with a pod that has no node, also if a tick leaves it to its message.

    Those in Kueue's queues wait for their pools before they have pods.
    """
    pods = reading.lists.pods.items()
    keys = [Key(reading.cluster, *owner) for owner, own in pods if not all(pod.node_name for pod in own)]
    queues = ports.queues.get(reading.cluster)
    with noting(reading.errors, "Kueue's Workloads"):
        queued = list_queued(queues, queues.list_checks()) if queues else []
        keys += [Key(reading.cluster, each.owner.kind, each.namespace, each.owner.name) for each, _ in queued]
    return keys


def _plan_all(keys: Sequence[Key], reading: Reading, ports: Ports) -> None:
    tasks = [partial(plan_for, key, ports, reading.lists) for key in keys]
    failed: dict[str, list[str]] = {}
    for key, result in zip(keys, ports.crew.run(tasks, seconds=READ_SECONDS), strict=True):
        if isinstance(result, ProvisionerError):
            failed.setdefault(result.reason, []).append(f"{key}: {say(result)}")
        elif isinstance(result, Exception):
            raise result
        else:
            reading.planned.append(Planned(look=result[0], plan=result[1]))
    for first, *others in failed.values():
        reading.errors.append(first + (f" (and {len(others)} more)" if others else ""))


UNLIMITED = 10**9
_NEEDS_A_PERSON = frozenset({Reason.SLICE_MIXED, Reason.FOLLOWERS_WAIT, Reason.PARENT_OVER})
KEPT, SPARE = "keep", "spare"  # in place of a verb, for a pool of which the plan takes nothing now
_PLAIN_STATE = {
    PoolStatus.PROVISIONING: (KEPT, "GKE creates it"),
    PoolStatus.RECONCILING: (KEPT, "GKE changes it"),
    PoolStatus.STOPPING: (str(Verb.DELETE), "GKE deletes it"),
}
_TROUBLES = {
    Trouble.FAILED: (Reason.POOL_FAILED, "it failed"),
    Trouble.SHORT: (Reason.POOL_FAILED, "it lacks nodes for too long"),
    Trouble.USELESS: (Reason.POOL_USELESS, "it helped no pod"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What every row of a status has."""

    cluster: str
    namespace: str
    kind: str
    workload: str
    decision: str
    reason: str
    message: str
    stuck: bool  # a person must look

    @property
    def owner(self) -> str:
        """Return ``NAMESPACE/WORKLOAD``."""
        return f"{self.namespace}/{self.workload}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRow(Row):
    """One pool of ours."""

    pool: str
    slot: str
    attempt: int
    state: str
    nodes: int
    hosts_busy: int  # how many of its nodes have accelerator pods
    chips: int  # of all nodes that it has or may have
    chips_idle: int  # those of the nodes without accelerator pods
    machine_type: str
    topology: str
    tier: str
    age_seconds: float | None  # None for a pool that does not say when it was made
    failure: str  # the class of the failed creation; empty for a pool that did not fail
    error: str  # GKE's words about it
    idle_seconds: float | None  # how long a warm pool is idle; None if it is not marked
    dollars_per_hour: float | None  # the list price of the nodes that it has; None if it is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow(Row):
    """One need of a workload whose pods wait for nodes."""

    slices: int  # how many slices wait; of an elastic need and of what is refused, how many pods
    waiting_seconds: float
    shape: str = ""  # what it asks for, in words
    attempt: int | None = None  # the highest attempt of its slots; None before the first one
    candidate: str = ""
    """Which entry of the fallback list that was, for example ``2 of 5``; empty without a list."""
    failures: int = 0
    """How many creates of the workload failed, as GKE's operations and the failed pools tell."""
    failure: str = ""  # the class of the last failure
    error: str = ""
    next_try: str = ""  # when the next attempt begins, in RFC 3339; empty if now, or not by itself


def list_pool_rows(one: Planned, reading: Reading) -> Iterator[PoolRow]:
    """Yield a row for each pool of a workload."""
    for pool in one.look.scene.pools:
        yield _build_pool_row(pool, one, reading)


def _build_pool_row(pool: Pool, one: Planned, reading: Reading) -> PoolRow:
    trouble, nodes = one.census.troubles.get(pool.name, Trouble.NONE), len(reading.lists.nodes.get(pool.name, ()))
    busy = len({pod.node_name for pod in reading.lists.users.get(pool.name, ())})
    decision, reason, message = decide_pool(pool, one)
    return PoolRow(
        **_name_workload(one.look.key),
        decision=decision,
        reason=reason,
        message=message,
        stuck=(bool(trouble) and decision == KEPT) or reason in _NEEDS_A_PERSON,
        pool=pool.name,
        slot="" if pool.owner.slot is None else str(pool.owner.slot),
        attempt=pool.owner.attempt,
        state=str(pool.status),
        nodes=nodes,
        hosts_busy=busy,
        chips=pool.units * (pool.maximum if pool.elastic else pool.hosts),
        chips_idle=pool.units * max(0, nodes - busy),
        machine_type=pool.machine_type,
        topology=pool.topology,
        tier=str(find_tier(pool.spot, pool.flex_start, pool.reservation)),
        age_seconds=reading.measure_age(pool.owner.created_at or None),
        failure=str(classify_failure(pool.error)) if pool.error and trouble else str(trouble),
        error=pool.error,
        idle_seconds=reading.measure_age(pool.idle_since),
        dollars_per_hour=find_pool_price(pool, one.look.key.cluster.split("/")[3], chips=pool.units * nodes),
    )


def _name_workload(key: Key) -> dict[str, Any]:
    return {"cluster": key.cluster, "namespace": key.namespace, "kind": key.kind, "workload": key.name}


def decide_pool(pool: Pool, one: Planned) -> tuple[str, str, str]:
    """Return what the plan does with a pool: the verb, its reason, and a sentence."""
    act = next((act for act in (*one.plan.takes, *one.plan.adds) if act.pool == pool.name), None)
    if act is not None:
        decision = describe_act(act, one.look).decision
        return str(act.verb), str(decision.reason), decision.message
    if pool.name in one.plan.spare:
        return SPARE, str(Reason.POOL_SURPLUS), "its workload does not need it; a later tick deletes it"
    return _explain_rest(pool, one)


def _explain_rest(pool: Pool, one: Planned) -> tuple[str, str, str]:
    """Return why a plan does nothing with a pool: what its owner is told, or its state."""
    mixed = Reason.SLICE_MIXED if pool.name in one.census.mixed else None
    for answer in one.plan.answers:
        if answer.pool == pool.name or answer.reason == mixed:
            return KEPT, str(answer.reason), explain_answer(answer, one.look).message
    trouble = one.census.troubles.get(pool.name, Trouble.NONE)
    if trouble:
        reason, what = _TROUBLES[trouble]
        error = f": {pool.error}" if pool.error else ""
        return KEPT, str(reason), f"{what}, and is the record of its attempt{error}"
    held = find_life(one.look.scene) == Life.OVER and is_used(pool, one.census)
    use = "it goes when the pods on its nodes have ended" if held else "its workload needs it, or uses it"
    verb, state = _PLAIN_STATE.get(pool.status, (KEPT, use))
    return verb, "", state


def list_waiting_rows(one: Planned, reading: Reading) -> Iterator[WaitingRow]:
    """Yield a row for each need that waits for pools, and one for all pods refused alike."""
    for need in one.look.scene.needs:
        slices, since = _count_waiting(need, one)
        if slices:
            shared = _describe_wait(decide_need(need, one), one, slices, reading.now - since)
            yield WaitingRow(**shared, **_describe_tries(need, one), **_describe_failures(one, reading))
    refused: dict[Decision, list[float]] = {}
    for pod, decision in one.look.wanted.refusals:
        refused.setdefault(decision, []).append(pod.created_at or reading.now)
    for decision, dates in refused.items():
        yield WaitingRow(**_describe_wait(decision, one, len(dates), reading.now - min(dates)))


def _count_waiting(need: Need, one: Planned) -> tuple[int, float]:
    """Return how many slices of a need wait, or pods of an elastic one, and since when.

    A workload that Kueue has given quota waits for its pools before it has pods.
    """
    if one.look.scene.queued:
        lacking = sum(want.need is need for want in one.census.demanded.unserved)
        return lacking, one.look.scene.suspended_since or one.look.scene.now
    pods = [pod for pod in one.look.scene.pods if pod.need == need.key and pod.waits]
    slices = pods if need.elastic else {pod.slice for pod in pods}
    return len(slices), min((pod.created_at for pod in pods), default=one.look.scene.now)


def _describe_wait(decision: Decision, one: Planned, slices: int, seconds: float) -> dict[str, Any]:
    """Return the fields of every row about what waits."""
    return {
        **_name_workload(one.look.key),
        "decision": str(decision.verdict),
        "reason": str(decision.reason),
        "message": decision.message,
        "stuck": needs_a_person(decision),
        "slices": slices,
        "waiting_seconds": round(max(0.0, seconds), 1),
    }


def find_next_try(scene: Scene, need: Need) -> float:
    """Return when the pause of the lowest free slot ends, in unix seconds; 0 without one."""
    census = Census(scene)
    slot = next(iter(list_free_slots(census, need)), None)
    past = Past() if slot is None else recall(census, need, slot)
    return 0.0 if past.following < len(need.ways) else past.failed_at + find_pause(past.rounds)


def _describe_tries(need: Need, one: Planned) -> dict[str, Any]:
    """Return what a need asks for, and its highest attempt, that of a planned create too."""
    scene, creates = one.look.scene, list_creates(need, one.plan)
    tries = [pool.owner for pool in scene.pools if pool.shape == need.asks.shape and pool.owner.slot is not None]
    numbers = [(each.attempt, each.candidate) for each in (*creates, *tries)]
    attempt, candidate = max(numbers, default=(None, 0))
    next_try = 0.0 if creates else find_next_try(scene, need)
    demand = one.look.wanted.demands.get(need.key)
    return {
        "shape": str(demand.shape) if demand else need.asks.shape.accelerator,
        "attempt": attempt,
        "candidate": f"{candidate + 1} of {len(need.ways)}" if numbers and len(need.ways) > 1 else "",
        "next_try": format_time(next_try) if next_try > scene.now else "",
    }


def _describe_failures(one: Planned, reading: Reading) -> dict[str, Any]:
    errors = _list_errors(one, reading)
    last = errors[-1] if errors else ""
    return {"failures": len(errors), "failure": str(classify_failure(last)) if last else "", "error": last}


def _list_errors(one: Planned, reading: Reading) -> list[str]:
    """Return GKE's words about the creates of a workload that failed, the oldest first."""
    creates = [each for each in reading.list_operations(one.hashes) if each.creates]
    errors = {each.pool: each.error for each in creates if each.ended and each.error}
    failed = [pool for pool in one.look.scene.pools if one.census.troubles.get(pool.name)]
    for pool in sorted(failed, key=lambda pool: pool.owner.created_at):
        errors.setdefault(pool.name, pool.error or str(pool.status))
    return list(errors.values())


def list_creates(need: Need, plan: Plan) -> list[Act]:
    """Return the creates of a plan for a need."""
    return [act for act in plan.adds if act.need == need.key and act.verb == Verb.CREATE]


def decide_need(need: Need, one: Planned) -> Decision:
    """Return what the plan does for a need whose pods wait: its answer, its create, or a wait."""
    creates = list_creates(need, one.plan)
    beside = {Reason.SLICES_MAY_MIX} if creates else set()
    for answer in one.plan.answers:
        if answer.need == need.key and answer.reason not in beside:
            return explain_answer(answer, one.look)
    return describe_act(creates[0], one.look).decision if creates else _explain_wait(need, one)


def _explain_wait(need: Need, one: Planned) -> Decision:
    """Return why a need waits that has neither an answer of its own nor a create."""
    whole = [answer for answer in one.plan.answers if not answer.need]
    if whole and not one.look.pools:
        return explain_answer(whole[0], one.look)
    lacks = any(want.need is need for want in one.census.demanded.unserved)
    return (lacks and _explain_other(one.look.scene.needs)) or describe_wait(one.look)


def _explain_other(needs: Sequence[Need]) -> Decision | None:
    """Return why a need gets nothing that itself could be served: another part of its workload."""
    what = "it gets nothing, because another part of its workload"
    parts = [need for need in needs if not need.apart]
    for cause in (need.never for need in parts if need.never):
        return Decision(Verdict.REFUSE, cause.reason, f"{what} is refused: {cause.message}")
    for cause in (need.waits_for for need in parts if need.waits_for):
        return Decision(Verdict.WAIT, cause.reason, f"{what} waits: {cause.message}")
    return None


def list_decisions(one: Planned) -> list[Decision]:
    """Return what the owner of a workload reads now, in the words of its Events."""
    return [explain_answer(answer, one.look) for answer in one.plan.answers]


def needs_a_person(decision: Decision) -> bool:
    """Return whether nothing goes on before a person has looked."""
    return decision.verdict == Verdict.REFUSE or decision.reason in _NEEDS_A_PERSON
