"""Creates pools and raises maxima, each counted against limits and slots before its call."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.act import REFUSED, Done, expect_young
from shared.engine.budget import REFUSALS, Sent
from shared.engine.explain import claim_slot, explain_act, find_need, name_pool
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import (
    AlreadyExists,
    Broken,
    Busy,
    NoPlace,
    ProvisionerError,
    Rejected,
    Throttled,
)
from shared.model.failures import decide_gke_answer
from shared.model.names import Try
from shared.needs.nodepool import build_body, choose_way
from shared.plan.counting import Census
from shared.plan.scene import Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.engine.look import Look
    from shared.engine.outside import Ports
    from shared.needs.demand import Demand
    from shared.plan.scene import Act

_LIMIT = "because a limit of the operator is reached"
_SLOTS = "because GKE runs as many operations as it allows; the create follows when one has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One create, or one higher maximum, that is ready to be sent."""

    act: Act
    sent: Sent
    call: Callable[[], None]
    decision: Decision
    """If GKE accepts it."""
    demand: Demand | None = None


def order_create(act: Act, look: Look, ports: Ports) -> Order | Done:
    """Return a create that is to be sent; or what came of it without a call."""
    need, cluster, name = find_need(act, look), look.key.cluster, name_pool(act, look)
    demand = choose_way(look.wanted.demands[act.need], act.candidate, empty=act.empty)
    own = {key: value for key, value in act.labels if not labels.is_reserved(key)}
    if ports.adds is None:
        raise Broken(f"this function does not create node pool {name}")
    try:
        body = build_body(
            dataclasses.replace(demand, node_labels=demand.node_labels | own),
            claim_slot(act, look),
            Try(attempt=act.attempt, candidate=act.candidate, round=act.round, useless=act.useless),
            maximum=act.maximum,
            created_at=int(ports.clock.now()),
            cluster_uid=look.cluster_uid,
            on_channel=bool(ports.pools.find_channel(cluster)),
            settings=ports.settings,
        )
    except Rejected as error:
        refusal = Decision(Verdict.REFUSE, Reason(error.reason), str(error))
        return Done(act=act, pool=name, decision=refusal, demand=demand)
    nodes = act.maximum if need.elastic else need.hosts
    sent = Sent(
        pool=name,
        namespace=look.key.namespace,
        chips=nodes * max(need.asks.shape.units, 1),
        way=need.ways[act.candidate],
    )
    call = partial(ports.adds.create, cluster, body)
    return Order(act=act, sent=sent, call=call, decision=explain_act(act, look), demand=demand)


def order_raise(act: Act, look: Look, ports: Ports) -> Order:
    """Return a higher maximum that is to be sent."""
    if ports.adds is None:
        raise Broken(f"this function does not raise the maximum of node pool {act.pool}")
    need = find_need(act, look)
    more = act.maximum - look.pools[act.pool].node_count
    sent = Sent(
        pool=act.pool,
        namespace=look.key.namespace,
        chips=more * max(need.asks.shape.units, 1),
        maximum=act.maximum,
    )
    raises = partial(ports.adds.raise_maximum, look.key.cluster, act.pool, act.maximum)
    call = partial(raises, least=act.maximum if need.part else 0)
    return Order(act=act, sent=sent, call=call, decision=explain_act(act, look))


def send_alone(each: Order, look: Look, ports: Ports) -> Done:
    """Send one order if limits and slots have room for it.

    Raises:
        OldLook: the look is too old to act on.
        ProvisionerError: GKE gave no answer.
    """
    expect_young(look, ports)
    refusal = take_room([each], look, ports)
    return refusal[0] if refusal else send(each, look, ports)


def take_room(orders: Sequence[Order], look: Look, ports: Ports) -> list[Done]:
    """Write down all of some orders, or return why none of them is sent."""
    try:
        sent = [each.sent for each in orders]
        if ports.budget.take(look.key.cluster, sent, look.room, ports.clock.now()):
            return []
    except NoPlace:
        return [_wait(each, Verdict.WAIT, Reason.NO_OPERATION_SLOT, _SLOTS) for each in orders]
    return [_wait(each, Verdict.REFUSE, Reason.LIMIT_REACHED, _LIMIT) for each in orders]


def _wait(each: Order, verdict: Verdict, reason: Reason, cause: str) -> Done:
    what = "gets no more nodes" if each.act.pool else "is not created"
    decision = Decision(verdict, reason, f"node pool {each.sent.pool} {what}, {cause}")
    return Done(act=each.act, pool=each.sent.pool, decision=decision, demand=each.demand)


def send(each: Order, look: Look, ports: Ports) -> Done:
    """Send an order that was written down, and return what GKE answered.

    Raises:
        OldLook: the look is too old to act on.
        ProvisionerError: GKE gave no answer.
    """
    cluster, name = look.key.cluster, each.sent.pool
    try:
        expect_young(look, ports)
    except ProvisionerError:
        ports.budget.forget(cluster, each.sent)
        raise
    try:
        ports.budget.submit(cluster, each.sent, each.call, ports.clock)
    except AlreadyExists:
        text = f"node pool {name} is being created"
        decision = Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, text)
        return Done(act=each.act, pool=name, decision=decision, demand=each.demand)
    except Throttled as error:
        return Done(
            act=each.act,
            pool=name,
            decision=_wait(each, Verdict.WAIT, Reason.NO_OPERATION_SLOT, _SLOTS).decision,
            demand=each.demand,
            error=error,
        )
    except REFUSED as error:
        return Done(
            act=each.act,
            pool=name,
            decision=decide_gke_answer(name, "created", error),
            demand=each.demand,
            # A higher maximum has no other way, so it would be asked for again and again.
            refused=isinstance(error, REFUSALS) and each.act.verb == Verb.CREATE,
            error=error if isinstance(error, Busy) else None,
        )
    return Done(act=each.act, pool=name, decision=each.decision, demand=each.demand)


def count_rest(look: Look, acts: Sequence[Act]) -> int:
    """Return the chips that a gang which began lacks beside its pools and what is sent now."""
    scene, created = look.scene, Counter(act.need for act in acts)
    if not acts and not scene.pools:
        return 0
    lacking = Counter(want.need.key for want in Census(scene).demanded.unserved)
    return sum(
        max(0, lacking[need.key] - created[need.key]) * need.hosts * need.chips
        for need in scene.needs
    )
