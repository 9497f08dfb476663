"""The product broken on purpose, one safety at a time, to see that the stories notice.

The letters are those of the rules that keep the two functions apart: see
docs/decisions/0058-one-plan-two-functions.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from shared.model.errors import ProvisionerError
from shared.model.pools import PoolStatus
from tests.simulation.campaigns import generalise
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenario import Scenario
from tests.simulation.sim_scenarios import make_scenario

Function = Any
"""A function of the product, of any signature."""
Make = Callable[[Function], Function]


def _keep(scenario: Scenario) -> Scenario:
    return scenario


@dataclass(frozen=True, slots=True)
class Mutation:
    """One safety that is missing."""

    name: str
    places: tuple[tuple[str, Make], ...]
    """``function`` or ``Class.method`` of the product, wherever it is, and what replaces it."""
    shows: Callable[[Scenario], bool] = bool
    """Which stories may show it at all."""
    change: Callable[[Scenario], Scenario] = _keep
    """What makes it more likely that a story shows it."""
    seed: int = 0
    """A seed that shows it: it saves the search. When stories have changed and this seed shows
    nothing any more, the search finds another one."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break the product, in every module that imported the function, and mend it again."""
        with ExitStack() as stack:
            for name, make in self.places:
                for place, attribute in _find(name):
                    stack.enter_context(patch.object(place, attribute, make(vars(place)[attribute])))
            yield


def _find(name: str) -> list[tuple[object, str]]:
    """Return the places in the product where a function is: its class, or each module that has it."""
    modules = [module for known, module in sys.modules.items() if known.startswith("shared.")]
    owner, _, attribute = name.rpartition(".")
    if owner:
        found = {id(vars(each)[owner]): vars(each)[owner] for each in modules if owner in vars(each)}
        return [(each, attribute) for each in found.values()]
    plain = next(
        vars(each)[name]
        for each in modules
        if name in vars(each) and getattr(vars(each)[name], "__module__", "") == each.__name__
    )
    return [(each, name) for each in modules if vars(each).get(name) is plain]


def find_catch(mutation: Mutation, seeds: range) -> tuple[int, str] | None:
    """Return a seed whose story shows that the product is broken, and what it shows.

    The mutation's own seed is tried first, then all in their order.
    """
    for seed in (mutation.seed, *seeds):
        scenario = mutation.change(make_scenario(seed))
        if not mutation.shows(scenario):
            continue
        with mutation.applied():
            shown = {generalise(each) for each in run_scenario(scenario).violations}
        if shown:
            new = shown - {generalise(each) for each in run_scenario(scenario).violations}
            if new:
                return seed, min(new)
    return None


# --- what is broken -------------------------------------------------------------------------------


def _always(value: object) -> Make:
    """Return what replaces a function by one that always answers the same."""
    return lambda _plain: lambda *_args, **_named: value


def _match_by_key(plain: Function) -> Function:
    """Let a pool be a stray if its label has no key of a need."""

    def find_spare(census: Any) -> frozenset[str]:
        keys = {need.key for need in census.scene.needs}
        return frozenset(plain(census)) | {pool.name for pool in census.scene.pools if pool.need not in keys}

    return find_spare


def _delete_records(plain: Function) -> Function:
    """Delete a failed pool before its successor is there."""

    def end(pool: Any, census: Any, first: Any) -> Any:
        return plain(pool, census, {pool.name, *first})

    return end


def _forget_whole(_plain: Function) -> Function:
    """Call each pool too many that no slice is left for, though the others are not whole yet."""
    return lambda census: list(census.kept.left)


def _forget_listed(_plain: Function) -> Function:
    """Give each try of a slot the number of the first one."""
    return lambda census, need, slot: 0


def _number_refusals(plain: Function) -> Function:
    """Send the next candidate after a refusal under another name."""
    return lambda census, need, slot: plain(census, need, slot) + len(census.scene.refused)


def _agree_with_first(plain: Function) -> Function:
    """Do what the first plan says, without a second one from a fresh look."""

    def take_away(run: Any, part: Any, looks: int) -> None:
        memory, plan = run.memory, run.plan
        plain(run, part, looks)
        del memory, plan
        missing = [act for act in part if act.pool not in {done.act.pool for done in run.done}]
        for act in missing:
            if str(act.verb) == "delete":
                run.ports.takes.delete(run.key.cluster, act.pool)

    return take_away


def _ignore_uid(plain: Function) -> Function:
    """Take the pools of an earlier workload of the same name for those of the one that lives."""

    def choose(reads: Any, inventory: Any, workload: Any) -> Any:
        pools = plain(reads, inventory, workload)
        names = {pool.name for pool in pools}
        key = (reads.key.kind, reads.key.namespace, reads.key.name)
        owned = (pool for pool in inventory.pools if pool.owner and pool.owner.key == key)
        return [*pools, *(pool for pool in owned if pool.name not in names)]

    return choose


def _hide_errors(plain: Function) -> Function:
    """Take a workload that could not be read for one that is gone."""

    def read(reads: Any) -> Any:
        try:
            workload, known = plain(reads)
        except ProvisionerError:
            return None, True
        return workload, True if not known else known

    return read


def _count_stopping(plain: Function) -> Function:
    """Take a pool that ends for one that serves."""

    def helps(census: Any, pool: Any) -> bool:
        ends = pool.status == PoolStatus.STOPPING
        return bool(plain(census, replace(pool, status=PoolStatus.RUNNING) if ends else pool))

    return helps


def _forget_grace(plain: Function) -> Function:
    """Take a workload for over as soon as it is suspended."""
    return lambda scene: plain(replace(scene, grace_seconds=0))


def _start(plain: Function) -> Function:
    """Forget every label that stops us."""
    from shared.plan.scene import Stop  # noqa: PLC0415 -- used by this mutation only

    return lambda stops: (Stop.NOTHING, "")


def _forget_limit(plain: Function) -> Function:
    """Leave room for any number of chips."""
    return lambda *args, **named: replace(plain(*args, **named), chips=10**9)


def _let_releases_differ(scenario: Scenario) -> Scenario:
    """Let `collect` be another release, with a tick each half minute."""
    return replace(scenario, collect_release=1, ticks=tuple(float(at) for at in range(30, 2400, 30)))


def _has_list(scenario: Scenario) -> bool:
    return scenario.candidates > 1


def _has_slow_calls(scenario: Scenario) -> bool:
    return any(fault.kind in ("stall", "late") for fault in scenario.faults) or scenario.latency_seconds > 1


def _fails(scenario: Scenario) -> bool:
    return bool(scenario.stock) or any(fault.kind.startswith(("no-", "stock")) for fault in scenario.faults)


def _ends(scenario: Scenario, *verbs: str) -> bool:
    return any(act.verb in verbs for act in scenario.acts)


MUTATIONS = (
    Mutation("a: pools matched by key", (("find_spare", _match_by_key),), _has_list, _let_releases_differ),
    Mutation("b: the record goes first", (("_end_record", _delete_records),), _fails),
    Mutation("c: waiting pods ignored", (("is_waited_for", _always(False)),)),
    Mutation("d: pools that are not whole count", (("list_too_many", _forget_whole),)),
    Mutation("e: numbers come again", (("number_attempt", _forget_listed),), _fails),
    Mutation("f: another name after a refusal", (("number_attempt", _number_refusals),), _has_list),
    Mutation("g: old looks", (("expect_young", _always(None)),), _has_slow_calls),
    Mutation("g: several threads on a key", (("Crew.begin", _always(True)),)),
    Mutation("no second plan", (("_Run._take_away", _agree_with_first),)),
    Mutation("no UID check", (("Reads.choose_mine", _ignore_uid),), lambda each: _ends(each, "recreate")),
    Mutation("an unknown owner taken for gone", (("Reads.read_owner", _hide_errors),)),
    Mutation("used pools deleted", (("is_used", _always(False)),)),
    Mutation("no stop", (("find_strongest", _start),), lambda each: each.mode != "active" or _ends(each, "stop")),
    Mutation("no cap", (("Budget.take_deletion", _always(True)),), lambda each: each.cap < 50),  # noqa: PLR2004
    Mutation("no pause", (("find_pause", _always(0)),), _fails),
    Mutation("no try after a pause", (("find_pause", _always(10**9)),), _fails),
    Mutation("no limit", (("Budget.count_room", _forget_limit),), lambda each: bool(each.limit_chips)),
    Mutation("no grace", (("find_life", _forget_grace),), lambda each: _ends(each, "suspend")),
    Mutation("STOPPING taken for serving", (("Census.helps", _count_stopping),)),
    Mutation("useless pools kept", (("is_useless", _always(False)),)),
    Mutation("short pools kept", (("is_short", _always(False)),), _fails),
    Mutation("a part of a gang is Ready", (("is_complete", _always(True)),), lambda each: each.quota_pods > 0),
    Mutation("a part of a gang is held", (("_is_held_for_long", _always(False)),), lambda each: each.quota_pods > 0),
    Mutation("warm pools deleted at once", (("_end_idle", lambda _: _delete_idle),), lambda each: each.idle_seconds > 0),
)


def _delete_idle(pool: Any, _census: Any) -> Any:
    from shared.plan.scene import Act, Verb  # noqa: PLC0415 -- used by this mutation only

    return Act(verb=Verb.DELETE, pool=pool.name)
