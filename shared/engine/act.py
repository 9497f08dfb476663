"""Does the acts of a plan, each right after the age of the look is compared.

What exists is deleted, bounded or marked; pools are created and maxima raised, each counted against
limits and slots before its call. A refusal is a fact of the next look. No write is inside another.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.engine.budget import REFUSALS, Entry
from shared.engine.scenes import is_over
from shared.engine.tell import claim_slot, describe_act, explain_answer, find_demand, find_need
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import (
    AlreadyExists,
    Broken,
    Busy,
    Denied,
    InvalidRequest,
    NoCapacity,
    OldLook,
    OutOfTime,
    Throttled,
)
from shared.model.failures import decide_gke_answer
from shared.model.pools import PoolStatus
from shared.needs.nodepool import build_body
from shared.plan.scene import Answer, Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from shared.engine.look import Look
    from shared.engine.outside import Ports
    from shared.engine.tell import Outcome
    from shared.model.pools import NodePool
    from shared.plan.scene import Act

LOOK_SECONDS = 10.0
"""How old a look may be when an act rests on it. Most looks take less than a second."""
REFUSED = (Busy, Denied, InvalidRequest, NoCapacity)
UID_SECONDS = 60.0
"""How long the UID of a cluster is not read again."""
KUBE_SYSTEM = "kube-system"


def expect_young(look: Look, ports: Ports, since: float | None = None) -> None:
    """Return right before a call if what it rests on is young enough.

    Args:
        look: that the act rests on.
        ports: of the function.
        since: when the read began whose age counts; by default that of the look.

    Raises:
        OldLook: it is too old; look again.
        OutOfTime: the delivery is about to end.
    """
    now, began_at = ports.clock.now(), look.began_at if since is None else since
    if now > look.until:
        raise OutOfTime(f"no time is left for {look.key}; a later delivery or tick does it")
    if not 0 <= now - began_at <= LOOK_SECONDS:
        raise OldLook(f"the look at {look.key} took too long to act on")


def do_act(act: Act, look: Look, ports: Ports) -> Outcome:
    """Do one act that changes an existing pool, and return what came of it.

    Raises:
        OldLook: the look is too old to act on.
        ProvisionerError: GKE or the cluster gave no answer, or refused for a time.
    """
    outcome, cluster = describe_act(act, look), look.key.cluster
    if act.verb in (Verb.MARK, Verb.CLOSE, Verb.OPEN):
        _mark(act, look, ports)
        return outcome
    if ports.takes is None:
        raise Broken(f"this function does not {act.verb} node pool {act.pool}")
    if act.verb != Verb.DELETE:
        expect_young(look, ports)
        lower = partial(ports.takes.lower_maximum, cluster, act.pool, act.maximum)
        return _submit(outcome, lower, "bounded")
    obstacle = find_obstacle(act, look, ports)
    if obstacle is not None:
        return dataclasses.replace(outcome, decision=obstacle)
    expect_young(look, ports, look.users_read_at)
    answer = _submit(outcome, partial(ports.takes.delete, cluster, act.pool), "deleted")
    if not answer.acted:
        ports.budget.give_back_deletion(cluster, act.pool)
    return answer


def _submit(outcome: Outcome, call: Callable[[], None], words: str) -> Outcome:
    """Make a call; what GKE refuses becomes the decision."""
    try:
        call()
    except REFUSED as error:
        return dataclasses.replace(
            outcome,
            decision=decide_gke_answer(outcome.pool, words, error),
            refused=isinstance(error, REFUSALS),
            error=error if isinstance(error, Busy) else None,
        )
    return outcome


def _mark(act: Act, look: Look, ports: Ports) -> None:
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


def read_cluster_uid(cluster: str, ports: Ports) -> str:
    """Return the UID of the namespace ``kube-system``; empty if there is none."""
    now = ports.clock.now()
    uid, read_at = ports.memory.uids.get(cluster, ("", now))
    if not uid or not 0 <= now - read_at <= UID_SECONDS:
        namespace = ports.clusters[cluster].get_namespace(KUBE_SYSTEM)
        uid = namespace.uid if namespace else ""
        ports.memory.uids[cluster] = uid, now
    return uid


def find_obstacle(act: Act, look: Look, ports: Ports) -> Decision | None:
    """Return why a pool is not deleted now: the API is not proven, or too many went without a word.

    What the owner itself says needs no bound. Many absent owners or failed pools at once are more
    often a mistake, for example a list that is wrongly empty, than true.
    """
    owner, most = look.workload, ports.settings.deletions_per_minute_max
    if not _is_proven(look.pools[act.pool], look, ports):
        text = f"node pool {act.pool} is kept: nothing proves that its cluster's API was read"
        return Decision(Verdict.KEEP, Reason.CLUSTER_UNPROVEN, text)
    if owner and (is_over(owner) or owner.suspended):
        return None
    if ports.budget.take_deletion(look.key.cluster, act.pool, ports.clock.now()):
        return None
    text = (
        f"node pool {act.pool} is left to a later tick: more than {most} would go in a minute "
        "without a word of their owners"
    )
    return Decision(Verdict.KEEP, Reason.DELETIONS_OVER_CAP, text)


def _is_proven(pool: NodePool, look: Look, ports: Ports) -> bool:
    """Return whether the API that was read is that of the pool's cluster.

    A pool without the label of its cluster, as those of the Go program, is proven by a node of its
    own; a failed one without nodes by a node of any other pool.
    """
    label = pool.owner.cluster_uid if pool.owner else ""
    if label:
        return label == read_cluster_uid(look.key.cluster, ports)
    if look.nodes.get(pool.name):
        return True
    live = ports.clusters[look.key.cluster]
    return pool.status == PoolStatus.ERROR and bool(live.list_nodes(list(look.inventory.pools)))


@dataclass(frozen=True, slots=True)
class Order:
    """One create, or one higher maximum, that is ready to be sent."""

    act: Act
    outcome: Outcome
    """If GKE accepts it."""
    entry: Entry
    call: Callable[[], None]


def order(act: Act, look: Look, ports: Ports) -> Order:
    """Return what is to be sent for an act.

    Raises:
        Rejected: GKE would not accept it.
    """
    outcome, need = describe_act(act, look), find_need(act, look)
    entry = Entry(pool=outcome.pool, namespace=look.key.namespace)
    if ports.adds is None:
        raise Broken(f"this function does not {act.verb} node pool {outcome.pool}")
    if act.verb == Verb.RAISE:
        entry.chips = (act.maximum - look.pools[act.pool].node_count) * need.chips
        entry.maximum, least = act.maximum, act.maximum if need.part else 0
        raises = partial(ports.adds.raise_maximum, look.key.cluster, act.pool, act.maximum)
        return Order(act, outcome, entry, partial(raises, least=least))
    entry.chips = (act.maximum if need.elastic else need.hosts) * need.chips
    entry.way = need.ways[act.candidate]
    body = _build_body(act, look, ports)
    return Order(act, outcome, entry, partial(ports.adds.create, look.key.cluster, body))


def _build_body(act: Act, look: Look, ports: Ports) -> dict[str, Any]:
    """Return the node pool that a create sends."""
    demand, cluster = find_demand(act, look), look.key.cluster
    own = {key: value for key, value in act.labels if not labels.is_reserved(key)}
    return build_body(
        dataclasses.replace(demand, node_labels=demand.node_labels | own),
        claim_slot(act, look),
        act,
        maximum=act.maximum,
        created_at=int(ports.clock.now()),
        cluster_uid=read_cluster_uid(cluster, ports),
        on_channel=bool(ports.pools.find_channel(cluster)),
        settings=ports.settings,
    )


def take_room(orders: Sequence[Order], look: Look, ports: Ports) -> list[Outcome]:
    """Write down all of some orders, or return why none of them is sent."""
    entries = [each.entry for each in orders]
    reason = ports.budget.take(look.key, entries, look.inventory, ports.clock.now())
    return [_wait(each, reason, look) for each in orders] if reason else []


def _wait(each: Order, reason: Reason, look: Look) -> Outcome:
    """Return what is told of an order that was not sent, as the plan says it of one."""
    need = find_need(each.act, look)
    decision = explain_answer(Answer(reason, need.key), need, look)
    return dataclasses.replace(each.outcome, decision=decision)


def send(each: Order, look: Look, ports: Ports) -> Outcome:
    """Send an order that was written down, and return what GKE answered.

    Raises:
        OldLook: the look is too old to act on.
        ProvisionerError: GKE gave no answer.
    """

    def call() -> None:
        expect_young(look, ports)
        each.call()

    try:
        submit = partial(ports.budget.submit, look.key.cluster, each.entry, call, ports.clock)
        outcome = _submit(each.outcome, submit, "created")
    except AlreadyExists:
        text = f"node pool {each.entry.pool} is being created"
        decision = Decision(Verdict.WAIT, Reason.POOL_IN_PROGRESS, text)
        return dataclasses.replace(each.outcome, decision=decision)
    except Throttled as error:
        wait = _wait(each, Reason.NO_OPERATION_SLOT, look)
        return dataclasses.replace(wait, error=error)
    # A higher maximum has no other way, so it would be asked for again and again.
    return dataclasses.replace(outcome, refused=outcome.refused and not each.entry.maximum)
