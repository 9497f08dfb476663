"""Does the acts of a plan: one call each, right after the age of the look is compared.

A refusal is a fact of the next look. No write is inside another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.budget import Sent
from shared.engine.look import make_claim
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import (
    AlreadyExists,
    Broken,
    Busy,
    Denied,
    InvalidRequest,
    LabelBudgetExceeded,
    NoCapacity,
    NoPlace,
    OldLook,
    ProvisionerError,
    Rejected,
)
from shared.model.names import Try, build_name
from shared.model.pools import ELASTIC_SLOT
from shared.needs.nodepool import build_body, choose_way
from shared.plan.failures import decide_gke_answer
from shared.plan.scene import Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.engine.look import Look
    from shared.engine.outside import Ports
    from shared.model.names import Claim
    from shared.needs.demand import Demand
    from shared.plan.scene import Act

LOOK_SECONDS = 10.0
"""How old a look may be when an act rests on it. Most looks take less than a second."""
REFUSED = (Busy, Denied, InvalidRequest, LabelBudgetExceeded, NoCapacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of one act."""

    act: Act
    pool: str
    decision: Decision
    demand: Demand | None = None
    """What the pool is for; None where an existing pool is changed."""


def do_act(act: Act, look: Look, ports: Ports) -> Done:
    """Do one act of a plan, and return what came of it.

    Raises:
        OldLook: the look is too old to act on.
        ProvisionerError: GKE or the cluster gave no answer, or refused for a time.
    """
    if act.verb == Verb.CREATE:
        return _create(act, look, ports)
    if act.verb == Verb.DELETE and (kept := _find_obstacle(act, look, ports)) is not None:
        return Done(act=act, pool=act.pool, decision=kept)
    _expect_young(look, ports)
    call = _choose(act, look, ports)
    try:
        call()
    except REFUSED as error:
        decision = decide_gke_answer(act.pool, f"{act.verb}d", error)
        return Done(act=act, pool=act.pool, decision=decision)
    return Done(act=act, pool=act.pool, decision=explain_act(act, look))


def _choose(act: Act, look: Look, ports: Ports) -> Callable[[], None]:
    """Return the call of an act.

    Raises:
        Broken: it is not an act of this function.
    """
    cluster, name, adds, takes = look.key.cluster, act.pool, ports.adds, ports.takes
    if act.verb == Verb.RAISE and adds:
        return partial(adds.raise_maximum, cluster, name, act.maximum)
    if act.verb in (Verb.LOWER, Verb.SWITCH_OFF) and takes:
        return partial(takes.lower_maximum, cluster, name, act.maximum)
    if act.verb == Verb.DELETE and takes:
        return partial(takes.delete, cluster, name)
    if act.verb in (Verb.MARK, Verb.CLOSE, Verb.OPEN):
        since = None if act.verb == Verb.OPEN else _find_idle(act, look, ports)
        return partial(_mark, act, look, ports, since)
    raise Broken(f"{act.verb} of node pool {name} is not an act of this function")


def explain_act(act: Act, look: Look) -> Decision:
    """Return an act in words for the owner of the workload."""
    name = act.pool
    if act.verb == Verb.CREATE:
        demand = look.wanted.demands[act.need]
        chosen = choose_way(demand, act.candidate, empty=act.empty)
        text = f"creating node pool {name_pool(act, look)}: {chosen.shape}, {chosen.place}"
        return Decision(Verdict.CREATE, Reason.POOL_ABSENT, text)
    if act.verb == Verb.DELETE:
        return Decision(Verdict.DELETE, *_explain_delete(act, look))
    if act.verb == Verb.RAISE:
        text = f"node pool {name} may have {act.maximum} nodes"
        return Decision(Verdict.RESIZE, Reason.POOL_GROWS, text)
    if act.verb in (Verb.LOWER, Verb.SWITCH_OFF):
        text = f"node pool {name} may have at most {act.maximum} nodes"
        verdict = Verdict.RESIZE if act.maximum else Verdict.KEEP
        return Decision(verdict, Reason.POOL_SHRINKS, text)
    state = "in use again" if act.verb == Verb.OPEN else "idle"
    return Decision(Verdict.KEEP, Reason.POOL_WARM, f"node pool {name} is {state}")


def claim_slot(act: Act, look: Look) -> Claim:
    """Return whose slot a create is for."""
    need = next(need for need in look.scene.needs if need.key == act.need)
    uid = look.workload.uid if look.workload else ""
    return make_claim(look.key, uid, need, ELASTIC_SLOT if need.elastic else act.slot)


def name_pool(act: Act, look: Look) -> str:
    """Return the name of the pool of a create."""
    return build_name(claim_slot(act, look), act.attempt, act.useless)


def _explain_delete(act: Act, look: Look) -> tuple[Reason, str]:
    """Return why a pool is deleted, for its owner."""
    pool, workload = act.pool, look.workload
    if workload is None or workload.deleting:
        return Reason.OWNER_GONE, f"deleting node pool {pool}: its workload is gone"
    if workload.terminal:
        return (
            Reason.WORKLOAD_OVER,
            f"deleting node pool {pool}: its workload is over ({workload.terminal})",
        )
    if workload.suspended:
        return Reason.WORKLOAD_SUSPENDED, f"deleting node pool {pool}: its workload is suspended"
    seen = look.pools.get(pool)
    if seen is not None and seen.error:
        return Reason.POOL_FAILED, f"deleting node pool {pool}, which failed: {seen.error}"
    return Reason.POOL_SURPLUS, f"deleting node pool {pool}: its workload does not need it"


def _find_obstacle(act: Act, look: Look, ports: Ports) -> Decision | None:
    """Return why a pool is not deleted now: the API is not proven, or too many went without a word.

    What the owner itself says needs no bound. Many absent owners or failed pools at once are more
    often a mistake, for example a list that is wrongly empty, than true.
    """
    pool = look.pools[act.pool]
    uid = pool.owner.cluster_uid if pool.owner else ""
    if uid and uid != read_cluster_uid(look, ports):
        text = f"node pool {act.pool} is kept: the API that was read is not that of its cluster"
        return Decision(Verdict.KEEP, Reason.CLUSTER_UNPROVEN, text)
    said = look.workload is not None and (look.workload.terminal or look.workload.suspended)
    if not said and not ports.budget.take_deletion(look.key.cluster, act.pool, ports.clock.now()):
        text = f"node pool {act.pool} is left to a later tick: too many went without a word of their owners"
        return Decision(Verdict.KEEP, Reason.DELETIONS_OVER_CAP, text)
    return None


def _find_idle(act: Act, look: Look, ports: Ports) -> float:
    since = next((pool.idle_since for pool in look.scene.pools if pool.name == act.pool), None)
    return ports.clock.now() if since is None else since


def _mark(act: Act, look: Look, ports: Ports, since: float | None) -> None:
    live = ports.clusters[look.key.cluster]
    for node in live.list_nodes([act.pool]):
        live.mark_idle(node.name, since, closed=act.verb == Verb.CLOSE)


def _expect_young(look: Look, ports: Ports) -> None:
    if not 0 <= ports.clock.now() - look.began_at <= LOOK_SECONDS:
        raise OldLook(f"the look at {look.key} took too long to act on")


def _create(act: Act, look: Look, ports: Ports) -> Done:
    if ports.adds is None:
        raise Broken("this function does not create node pools")
    need = next(need for need in look.scene.needs if need.key == act.need)
    demand = look.wanted.demands[act.need]
    claim = claim_slot(act, look)
    tried = Try(attempt=act.attempt, candidate=act.candidate, round=act.round, useless=act.useless)
    name, now = name_pool(act, look), ports.clock.now()
    chosen = choose_way(demand, act.candidate, empty=act.empty)
    try:
        body = build_body(
            chosen,
            claim,
            tried,
            maximum=act.maximum,
            created_at=int(now),
            cluster_uid=read_cluster_uid(look, ports),
            on_channel=bool(ports.pools.find_channel(look.key.cluster)),
            settings=ports.settings,
        )
    except Rejected as error:
        return Done(act=act, pool=name, decision=_refuse(error), demand=chosen)
    _expect_young(look, ports)
    chips = max(act.maximum, need.hosts) * max(need.asks.shape.units, 1)
    sent = Sent(namespace=look.key.namespace, chips=chips, at=now)
    way = need.ways[act.candidate]
    try:
        create = partial(ports.adds.create, look.key.cluster, body)
        room, since = look.scene.room, look.scene.now
        if not ports.budget.send(look.key.cluster, name, sent, way, create, room=room, since=since):
            text = f"node pool {name} is not created, because a limit is reached"
            return Done(
                act=act, pool=name, decision=Decision(Verdict.REFUSE, Reason.LIMIT_REACHED, text)
            )
    except AlreadyExists:
        decision = Decision(
            Verdict.WAIT, Reason.POOL_IN_PROGRESS, f"node pool {name} is being created"
        )
        return Done(act=act, pool=name, decision=decision, demand=chosen)
    except NoPlace as error:
        return Done(
            act=act,
            pool=name,
            decision=Decision(Verdict.WAIT, Reason.NO_OPERATION_SLOT, str(error)),
        )
    except REFUSED as error:
        return Done(
            act=act, pool=name, decision=decide_gke_answer(name, "created", error), demand=chosen
        )
    return Done(act=act, pool=name, decision=explain_act(act, look), demand=chosen)


def read_cluster_uid(look: Look, ports: Ports) -> str:
    """Return the UID of the namespace ``kube-system``; empty if there is none."""
    seen = ports.clusters[look.key.cluster].get_namespace("kube-system")
    return seen.uid if seen else ""


def _refuse(error: ProvisionerError) -> Decision:
    return Decision(Verdict.REFUSE, Reason(error.reason), str(error))
