"""Says in words what an act does and why, for the owner of the workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.engine.views import make_claim
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.names import build_name
from shared.model.pools import ELASTIC_SLOT, PoolStatus
from shared.needs.nodepool import choose_way
from shared.plan.scene import Verb, Word

if TYPE_CHECKING:
    from shared.engine.look import Look
    from shared.model.names import Claim
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
    return make_claim(look.key, uid, need, ELASTIC_SLOT if need.elastic else act.slot)


def name_pool(act: Act, look: Look) -> str:
    """Return the name of the pool of a create."""
    return build_name(claim_slot(act, look), act.attempt, act.useless)


def explain_act(act: Act, look: Look) -> Decision:
    """Return what an act does, and why."""
    name = act.pool
    if act.verb == Verb.CREATE:
        demand = choose_way(look.wanted.demands[act.need], act.candidate, empty=act.empty)
        text = f"creating node pool {name_pool(act, look)}: {demand.shape}, {demand.place}"
        return Decision(Verdict.CREATE, Reason.POOL_ABSENT, text)
    if act.verb == Verb.DELETE:
        return _explain_delete(act, look)
    if act.verb == Verb.RAISE:
        text = f"node pool {name} may have {act.maximum} nodes"
        return Decision(Verdict.RESIZE, Reason.POOL_GROWS, text)
    if act.verb in (Verb.LOWER, Verb.SWITCH_OFF):
        text = f"node pool {name} may have at most {act.maximum} nodes"
        return Decision(Verdict.RESIZE, Reason.POOL_SHRINKS, text)
    return Decision(Verdict.KEEP, Reason.POOL_WARM, f"node pool {name} {_MARKS[act.verb]}")


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
    return "got no machines" if lacks and not viewed.present else ""
