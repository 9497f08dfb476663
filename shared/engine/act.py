"""Does the acts of a plan: one call each, right after the age of the look is compared.

A refusal is a fact of the next look. No write is inside another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from shared.engine.deletions import find_obstacle
from shared.engine.explain import explain_act
from shared.model.decisions import Verdict
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
from shared.plan.failures import decide_gke_answer
from shared.plan.scene import Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.engine.look import Look
    from shared.engine.outside import Ports
    from shared.model.decisions import Decision
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
    for node in look.nodes.get(act.pool, ()):
        if (node.idle_since, node.closed) != (since, closed):
            expect_young(look, ports)
            live.mark_idle(node.name, since, closed=closed)
    return Done(act=act, pool=act.pool, decision=explain_act(act, look))
