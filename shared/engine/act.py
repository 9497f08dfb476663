"""Does the acts of a plan, each right after the age of the look is compared, and says what it does.

What exists is deleted, bounded or marked; pools are created and maxima raised, each counted against
limits and slots before its call. A refusal is a fact of the next look. No write is inside another.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.budget import REFUSALS, Sent
from shared.engine.scenes import make_claim
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import (
    AlreadyExists,
    Broken,
    Busy,
    Denied,
    InvalidRequest,
    NoCapacity,
    NoPlace,
    OldLook,
    OutOfTime,
    ProvisionerError,
    Rejected,
    Throttled,
)
from shared.model.failures import decide_gke_answer
from shared.model.names import Try, build_name
from shared.model.pools import ELASTIC_SLOT, PoolStatus
from shared.needs.nodepool import build_body, choose_way
from shared.plan.counting import Census
from shared.plan.scene import Verb, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.engine.look import Look
    from shared.engine.outside import Ports
    from shared.model.names import Claim
    from shared.model.pools import NodePool
    from shared.needs.demand import Demand
    from shared.plan.scene import Act, Need

_MARKS = {
    Verb.MARK: "is idle, and stays for pods that fit",
    Verb.CLOSE: "was idle for its time, and takes no new pods",
    Verb.OPEN: "is in use again",
}


def find_need(act: Act, look: Look) -> Need:
    """Return what an act is for."""
    return next(need for need in look.scene.needs if need.key == act.need)


def claim_slot(act: Act, look: Look) -> Claim:
    """Return whose slot a create is for."""
    need, uid = find_need(act, look), look.workload.uid if look.workload else ""
    return make_claim(look.key, uid, need.key, ELASTIC_SLOT if need.elastic else act.slot)


def explain_act(act: Act, look: Look) -> Decision:
    """Return what an act does, and why."""
    name = act.pool
    if act.verb == Verb.CREATE:
        demand = choose_way(look.wanted.demands[act.need], act.candidate, empty=act.empty)
        name = build_name(claim_slot(act, look), act.attempt, act.useless)
        return _explain_create(name, demand)
    if act.verb == Verb.DELETE:
        return _explain_delete(act, look)
    if act.verb == Verb.RAISE:
        text = f"node pool {name} may have {act.maximum} nodes"
        return Decision(Verdict.RESIZE, Reason.POOL_GROWS, text)
    if act.verb in (Verb.LOWER, Verb.SWITCH_OFF):
        text = f"node pool {name} may have at most {act.maximum} nodes"
        return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, text)
    return Decision(Verdict.KEEP, Reason.POOL_WARM, f"node pool {name} {_MARKS[act.verb]}")


def _explain_create(name: str, demand: Demand) -> Decision:
    text = f"creating node pool {name}: {demand.shape}, {demand.place}"
    return Decision(Verdict.CREATE, Reason.POOL_ABSENT, text)


def _explain_delete(act: Act, look: Look) -> Decision:
    text, workload = f"deleting node pool {act.pool}", look.workload
    if workload is None or workload.deleting:
        return Decision(Verdict.DELETE, Reason.OWNER_GONE, f"{text}: its workload is gone")
    if workload.terminal:
        text = f"{text}: its workload is over ({workload.terminal})"
        return Decision(Verdict.DELETE, Reason.WORKLOAD_OVER, text)
    if workload.suspended:
        text = f"{text}: its workload is suspended"
        return Decision(Verdict.DELETE, Reason.WORKLOAD_SUSPENDED, text)
    failure = _describe_failure(act.pool, look)
    if failure:
        return Decision(Verdict.DELETE, Reason.POOL_FAILED, f"{text}, which {failure}")
    text = f"{text}: its workload does not need it"
    return Decision(Verdict.DELETE, Reason.POOL_SURPLUS, text)


def _describe_failure(name: str, look: Look) -> str:
    """Return what is wrong with a pool of a live workload; empty if nothing is."""
    pool = look.pools[name]
    if pool.error and pool.status != PoolStatus.RUNNING:
        return f"failed: {pool.error}"
    viewed = next(each for each in look.scene.pools if each.name == name)
    lacks = viewed.word == Word.CAUSE or not viewed.maximum
    if not lacks or viewed.present:
        return ""
    return f"got no machines: {viewed.cause}" if viewed.cause else "got no machines"


LOOK_SECONDS = 10.0
"""How old a look may be when an act rests on it. Most looks take less than a second."""
REFUSED = (Busy, Denied, InvalidRequest, NoCapacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of one act."""

    act: Act
    pool: str
    decision: Decision
    demand: Demand | None = None
    """What the pool is for; None where an existing pool is changed."""
    refused: bool = False
    """GKE refused it at once, so the next way may follow."""
    error: ProvisionerError | None = None
    """Why another delivery of the same message may help."""


def expect_young(look: Look, ports: Ports, since: float | None = None) -> None:
    """Return right before a call if what it rests on is young enough.

    Args:
        look: that the act rests on.
        ports: of the function.
        since: when the read began whose age counts; by default that of the look.

    Raises:
        OldLook: it is too old; look again.
        OutOfTime: the delivery, or this process, is about to end.
    """
    now, began_at = ports.clock.now(), look.began_at if since is None else since
    if ports.crew.closing or now > look.until:
        raise OutOfTime(f"no time is left for {look.key}; a later delivery or tick does it")
    if not 0 <= now - began_at <= LOOK_SECONDS:
        raise OldLook(f"the look at {look.key} took too long to act on")


def do_act(act: Act, look: Look, ports: Ports) -> Done:
    """Do one act that changes an existing pool, and return what came of it.

    Raises:
        OldLook: the look is too old to act on.
        ProvisionerError: GKE or the cluster gave no answer, or refused for a time.
    """
    if act.verb == Verb.DELETE:
        return _delete(act, look, ports)
    if act.verb in (Verb.LOWER, Verb.SWITCH_OFF):
        return _lower(act, look, ports)
    if act.verb in (Verb.MARK, Verb.CLOSE, Verb.OPEN):
        return _mark(act, look, ports)
    raise Broken(f"{act.verb} of node pool {act.pool} is no act on a pool that exists")


def _delete(act: Act, look: Look, ports: Ports) -> Done:
    if ports.takes is None:
        raise Broken(f"this function does not delete node pool {act.pool}")
    obstacle = find_obstacle(act, look, ports)
    if obstacle is not None:
        return Done(act=act, pool=act.pool, decision=obstacle)
    expect_young(look, ports, look.users_read_at)
    call = partial(ports.takes.delete, look.key.cluster, act.pool)
    done = _submit(act, call, explain_act(act, look), "deleted")
    if done.decision.verdict != Verdict.DELETE:
        ports.budget.give_back_deletion(look.key.cluster, act.pool)
    return done


def _lower(act: Act, look: Look, ports: Ports) -> Done:
    if ports.takes is None:
        raise Broken(f"this function does not bound node pool {act.pool}")
    expect_young(look, ports)
    call = partial(ports.takes.lower_maximum, look.key.cluster, act.pool, act.maximum)
    return _submit(act, call, explain_act(act, look), "bounded")


def _submit(act: Act, call: Callable[[], None], decision: Decision, words: str) -> Done:
    """Make a call; what GKE refuses becomes the decision."""
    try:
        call()
    except REFUSED as error:
        refusal = decide_gke_answer(act.pool, words, error)
        busy = error if isinstance(error, Busy) else None
        return Done(act=act, pool=act.pool, decision=refusal, error=busy)
    return Done(act=act, pool=act.pool, decision=decision)


def _mark(act: Act, look: Look, ports: Ports) -> Done:
    """Mark the nodes of a warm pool as idle or closed, or take the mark away."""
    live, since = ports.clusters[look.key.cluster], None
    if act.verb != Verb.OPEN:
        pool = next(pool for pool in look.scene.pools if pool.name == act.pool)
        since = ports.clock.now() if pool.idle_since is None else pool.idle_since
    closed = act.verb == Verb.CLOSE
    expect_young(look, ports)
    marks = [
        partial(live.mark_idle, node.name, since, closed=closed)
        for node in look.nodes.get(act.pool, ())
        if (node.idle_since, node.closed) != (since, closed)
    ]
    ports.crew.gather(marks)
    return Done(act=act, pool=act.pool, decision=explain_act(act, look))


UID_SECONDS = 60.0
"""How long the UID of a cluster is not read again."""
KUBE_SYSTEM = "kube-system"


def read_cluster_uid(cluster: str, ports: Ports) -> str:
    """Return the UID of the namespace ``kube-system``; empty if there is none."""
    now = ports.clock.now()
    uid, read_at = ports.memory.uids.get(cluster, ("", now))
    if not uid or not 0 <= now - read_at <= UID_SECONDS:
        seen = ports.clusters[cluster].get_namespace(KUBE_SYSTEM)
        uid = seen.uid if seen else ""
        ports.memory.uids[cluster] = uid, now
    return uid


def find_obstacle(act: Act, look: Look, ports: Ports) -> Decision | None:
    """Return why a pool is not deleted now: the API is not proven, or too many went without a word.

    What the owner itself says needs no bound. Many absent owners or failed pools at once are more
    often a mistake, for example a list that is wrongly empty, than true.
    """
    pool, cluster = look.pools[act.pool], look.key.cluster
    if not _is_proven(pool, look, ports):
        text = f"node pool {act.pool} is kept: nothing proves that its cluster's API was read"
        return Decision(Verdict.KEEP, Reason.CLUSTER_UNPROVEN, text)
    if not _is_said(look) and not ports.budget.take_deletion(cluster, act.pool, ports.clock.now()):
        text = (
            f"node pool {act.pool} is left to a later tick: more than "
            f"{ports.settings.deletions_per_minute_max} would go in a minute without a word of "
            "their owners"
        )
        return Decision(Verdict.KEEP, Reason.DELETIONS_OVER_CAP, text)
    return None


def _is_said(look: Look) -> bool:
    """Return whether the owner itself says that it needs no pool."""
    workload = look.workload
    if workload is None:
        return False
    return bool(workload.deleting or workload.terminal or workload.suspended)


def _is_proven(pool: NodePool, look: Look, ports: Ports) -> bool:
    """Return whether the API that was read is that of the pool's cluster.

    A pool without the label of its cluster, as those of the Go program, is proven by a node of its
    own; a failed one without nodes by a node of any other pool.
    """
    label = pool.owner.cluster_uid if pool.owner else ""
    if label:
        return label == look.cluster_uid
    if look.nodes.get(pool.name):
        return True
    live = ports.clusters[look.key.cluster]
    return pool.status == PoolStatus.ERROR and bool(live.list_nodes(list(look.inventory.pools)))


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
    need, cluster, claim = find_need(act, look), look.key.cluster, claim_slot(act, look)
    name = build_name(claim, act.attempt, act.useless)
    demand = choose_way(look.wanted.demands[act.need], act.candidate, empty=act.empty)
    own = {key: value for key, value in act.labels if not labels.is_reserved(key)}
    if ports.adds is None:
        raise Broken(f"this function does not create node pool {name}")
    try:
        body = build_body(
            dataclasses.replace(demand, node_labels=demand.node_labels | own),
            claim,
            Try(attempt=act.attempt, candidate=act.candidate, round=act.round, useless=act.useless),
            maximum=act.maximum,
            created_at=int(ports.clock.now()),
            cluster_uid=look.cluster_uid,
            on_channel=bool(ports.pools.find_channel(cluster)),
            settings=ports.settings,
        )
    except Rejected as error:
        refusal = Decision(Verdict.REFUSE, error.reason, str(error))
        return Done(act=act, pool=name, decision=refusal, demand=demand)
    nodes = act.maximum if need.elastic else need.hosts
    sent = Sent(
        pool=name,
        namespace=look.key.namespace,
        chips=nodes * need.chips,
        way=need.ways[act.candidate],
    )
    call = partial(ports.adds.create, cluster, body)
    decision = _explain_create(name, demand)
    return Order(act=act, sent=sent, call=call, decision=decision, demand=demand)


def order_raise(act: Act, look: Look, ports: Ports) -> Order:
    """Return a higher maximum that is to be sent."""
    if ports.adds is None:
        raise Broken(f"this function does not raise the maximum of node pool {act.pool}")
    need = find_need(act, look)
    more = act.maximum - look.pools[act.pool].node_count
    sent = Sent(
        pool=act.pool, namespace=look.key.namespace, chips=more * need.chips, maximum=act.maximum
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
    done = partial(Done, act=each.act, pool=name, demand=each.demand)
    try:
        ports.budget.submit(cluster, each.sent, each.call, ports.clock)
    except AlreadyExists:
        text = f"node pool {name} is being created"
        return done(decision=Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, text))
    except Throttled as error:
        wait = _wait(each, Verdict.WAIT, Reason.NO_OPERATION_SLOT, _SLOTS)
        return dataclasses.replace(wait, error=error)
    except REFUSED as error:
        return done(
            decision=decide_gke_answer(name, "created", error),
            # A higher maximum has no other way, so it would be asked for again and again.
            refused=isinstance(error, REFUSALS) and each.act.verb == Verb.CREATE,
            error=error if isinstance(error, Busy) else None,
        )
    return done(decision=each.decision)


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
