"""Does the acts of a plan: one call each, right after the age of the look is compared.

A refusal is a fact of the next look. No write is inside another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.explain import explain_act
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import (
    Broken,
    Busy,
    Denied,
    InvalidRequest,
    LabelBudgetExceeded,
    NoCapacity,
    OldLook,
    OutOfTime,
    ProvisionerError,
)
from shared.model.failures import decide_gke_answer
from shared.model.pools import PoolStatus
from shared.plan.scene import Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.engine.look import Look, Memory
    from shared.engine.outside import Ports
    from shared.model.pools import NodePool
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


def read_cluster_uid(cluster: str, ports: Ports, memory: Memory) -> str:
    """Return the UID of the namespace ``kube-system``; empty if there is none."""
    now = ports.clock.now()
    uid, read_at = memory.uids.get(cluster, ("", now))
    if not uid or not 0 <= now - read_at <= UID_SECONDS:
        seen = ports.clusters[cluster].get_namespace(KUBE_SYSTEM)
        uid = seen.uid if seen else ""
        memory.uids[cluster] = uid, now
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
