"""The product broken on purpose, one safety at a time, to see that the simulator notices."""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from shared.core.decide.attempts import AttemptDecision
from shared.core.decide.pool_facts import OwnerState, PoolFacts, PoolPods
from shared.engine.looks import gather
from shared.engine.looks.sweep_report import DeletionCap
from shared.engine.places import Places
from shared.engine.steps import make_attempt, release_pools, serving_pools

from shared.core.decide import (
    attempts,
    collect,
    filling,
    needed_pools,
    pool_facts,
    pool_use,
    provision,
    warm_pools,
)
from shared.engine import changes
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import ProvisionerError, StaleView
from shared.model.names import PoolOwner, SliceClaim, build_owner_labels
from shared.model.pools import PoolStatus
from shared.needs.node_pool_body import build_node_pool
from tests.simulation.campaigns import generalise
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenarios import make_scenario

Function = Any
"""A function of the product, of any signature."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One safety that is missing."""

    name: str
    places: tuple[tuple[object, str, Callable[[Function], Function]], ...]
    """Module or class, name in it, and what replaces the function there."""
    seed: int = 0
    """A seed that shows it: it saves the search. When scenarios have changed and this seed shows
    nothing any more, the search finds another one."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break the product, in every module that imported the function, and mend it again."""
        with ExitStack() as stack:
            for place, name, make in self.places:
                plain = vars(place)[name]
                broken = make(plain)
                for module in [place, *_list_modules()]:
                    if vars(module).get(name) is plain:
                        stack.enter_context(patch.object(module, name, broken))
            yield


def _list_modules() -> list[object]:
    return [module for name, module in sys.modules.items() if name.startswith("shared.")]


def find_catch(mutation: Mutation, seeds: range) -> tuple[int, str] | None:
    """Return a seed whose scenario shows that the product is broken, and what it shows.

    The mutation's own seed is tried first, then all in their order.
    """
    for seed in (mutation.seed, *seeds):
        scenario = make_scenario(seed)
        with mutation.applied():
            found = {generalise(each) for each in run_scenario(scenario).violations}
        if found:
            new = found - {generalise(each) for each in run_scenario(scenario).violations}
            if new:
                return seed, min(new)
    return None


# --- what is broken -------------------------------------------------------------------------------


def _ignore_uid(plain: Function) -> Function:
    return lambda owner, workload, pods: plain(dataclasses.replace(owner, owner_uid=""), workload, pods)


def _look_once(_plain: Function) -> Function:
    def release(look: Any, pool: Any, **_: Any) -> Any:
        look.ports.pools.delete(look.cluster, pool.name)
        decision = Decision(Verdict.DELETE, Reason.OWNER_GONE, f"deleting node pool {pool.name} without a look")
        return release_pools.JudgedPool(PoolFacts(pool=pool, owner=OwnerState.GONE), decision)

    return release


def _delete_used_errors(plain: Function) -> Function:
    def decide(facts: Any, **named: Any) -> Decision:
        if facts.pool.status == PoolStatus.ERROR:
            facts = dataclasses.replace(facts, pods=PoolPods())
        found: Decision = plain(facts, **named)
        return found

    return decide


def _hide_owner_errors(plain: Function) -> Function:
    def read(*given: Any) -> Any:
        try:
            return plain(*given)
        except ProvisionerError:
            return gather.OwnerRead(None, None, lambda: None, lambda: None)

    return read


def _forget_missing(plain: Function) -> Function:
    return lambda *args, **named: dataclasses.replace(plain(*args, **named), missing={})


def _let_stopping_serve(plain: Function) -> Function:
    def decide(demand: Any, pool: Any, **named: Any) -> Any:
        if pool is not None and pool.status == PoolStatus.STOPPING:
            pool = dataclasses.replace(pool, status=PoolStatus.RUNNING)
        return plain(demand, pool, **named)

    return decide


def _believe_any_claim(plain: Function) -> Function:
    def decide(demand: Any, pool: Any, **named: Any) -> Any:
        if pool is not None and (pool.owner is None or pool.owner.claim_hash != demand.claim.hash):
            pod_labels = build_owner_labels(demand.claim, attempt=0, created_at=0, fingerprint=demand.fingerprint)
            pool = dataclasses.replace(pool, labels=pod_labels)
        return plain(demand, pool, **named)

    return decide


def forget_sent(plain: Function) -> Function:
    """Send each create as if another instance of the function had sent the last one."""

    def is_sent(places: Any, cluster: str, *given: Any, **named: Any) -> bool:
        places._sent.get(cluster, {}).clear()
        return bool(plain(places, cluster, *given, **named))

    return is_sent


def _believe_stale_views(plain: Function) -> Function:
    """Take a pool that GKE does not show for absent, and make the next one."""

    def decide(turn: Any, attempt: int, conflict: Any) -> Any:
        try:
            return plain(turn, attempt, conflict)
        except StaleView:
            look, now = turn.look, int(turn.look.now())
            body = build_node_pool(turn.demand, attempt=attempt + 1, created_at=now, settings=look.settings)
            look.ports.pools.create(look.cluster, body)
            decision = Decision(Verdict.CREATE, Reason.POOL_ABSENT, "the list does not have it")
            return AttemptDecision(attempt=attempt + 1, decision=decision)

    return decide


def _repeat_candidate(plain: Function) -> Function:
    """Try the candidate that failed again, in the next round, instead of the next one."""
    return lambda attempt, used=(), candidates=1: plain(attempt + candidates - 1, used, candidates)


def _forget_marks(plain: Function) -> Function:
    """Take an idle pool whose nodes are marked for one that is closed and whose time is over."""

    def decide(facts: Any, **named: Any) -> Any:
        found = plain(facts, **named)
        return None if facts.pods is not None and any(facts.marks.values()) else found

    return decide


def _forget_machines(plain: Function) -> Function:
    """Decide about an empty pool by its errors alone, whatever machines there are by now."""

    def decide(demand: Any, pod: Any, pool: Any, filling: Any, **named: Any) -> Any:
        known = filling.machines and dataclasses.replace(filling.machines, made=0, coming=0)
        return plain(demand, pod, pool, dataclasses.replace(filling, machines=known), **named)

    return decide


class _WithoutDeletes:
    """The port of GKE's pools, of which nothing is deleted."""

    def __init__(self, pools: Any) -> None:
        self._pools = pools

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pools, name)

    def delete(self, cluster: str, name: str) -> None:
        """Leave the pool where it is."""


def _forget_last_look(plain: Function) -> Function:
    """Delete a pool after other calls have followed the look at its machines."""

    def delete(*given: Any, **named: Any) -> Any:
        return plain(*given, **{**named, "last_look": None})

    return delete


def _keep_left(plain: Function) -> Function:
    """Go on to the next way of a list, and leave the pool of the last one."""

    def give_up(turn: Any, pod: Any, lost: Any) -> Any:
        ports = dataclasses.replace(turn.look.ports, pools=_WithoutDeletes(turn.look.ports.pools))
        look = dataclasses.replace(turn.look, ports=ports)
        return plain(dataclasses.replace(turn, look=look), pod, lost)

    return give_up


MUTATIONS = (
    Mutation("no UID check", ((pool_facts, "classify_owner", _ignore_uid),), seed=1),
    Mutation("no second look", ((release_pools, "release_pool", _look_once),), seed=1),
    Mutation(
        "ERROR pool deleted with pods",
        (
            (collect, "decide_collect", _delete_used_errors),
            (pool_use, "decide_replacement", lambda _: lambda decision, _pods, **_lost: decision),
        ),
        seed=16,
    ),
    Mutation("fingerprints ignored", ((PoolOwner, "was_made_for", lambda _: lambda *_: True),), seed=16),
    Mutation(
        "name without UID",
        (
            (
                SliceClaim,
                "hash",
                lambda plain: property(lambda self: plain.func(dataclasses.replace(self, owner_uid="-"))),
            ),
        ),
        seed=21,
    ),
    Mutation("unknown owner taken for gone", ((gather, "read_owner", _hide_owner_errors),), seed=211),
    Mutation("no next attempt", ((needed_pools, "plan_pools", _forget_missing),), seed=10),
    Mutation("STOPPING taken for serving", ((provision, "decide_provision", _let_stopping_serve),), seed=9),
    Mutation("no check of the claim label", ((provision, "decide_provision", _believe_any_claim),), seed=465),
    Mutation("bound pods ignored", ((pool_facts, "count_pods", lambda _: lambda *_, **__: PoolPods()),)),
    Mutation("no cap", ((DeletionCap, "take", lambda _: lambda _self: True),), seed=102),
    Mutation(
        "no proof of the cluster",
        ((gather, "is_proven", lambda _: lambda *_: True), (gather, "is_other", lambda _: lambda *_: False)),
        seed=100,
    ),
    Mutation("no try after a pause", ((attempts, "find_pause", lambda _: lambda *_: float(10**9)),), seed=2),
    Mutation("no pause", ((attempts, "find_pause", lambda _: lambda *_: 0.0),)),
    Mutation("the same candidate again", ((attempts, "choose_next", _repeat_candidate),), seed=2),
    Mutation("no list before a candidate", ((changes, "_read_again", lambda _: lambda *_: None),), seed=767),
    Mutation("idle pools deleted at once", ((warm_pools, "decide_warm", _forget_marks),), seed=131),
    Mutation(
        "stale views believed",
        ((Places, "is_sent", forget_sent), (make_attempt, "_look_and_decide", _believe_stale_views)),
        seed=41,
    ),
    Mutation("an empty pool taken for serving", ((filling, "is_empty", lambda _: lambda *_: False),), seed=23),
    Mutation("a pool deleted as its first node comes", ((filling, "decide_empty", _forget_machines),), seed=1236),
    Mutation("no last look at the machines", ((changes, "delete_pool", _forget_last_look),), seed=2),
    Mutation("both ways kept", ((serving_pools, "give_up_lost", _keep_left),), seed=2),
)
