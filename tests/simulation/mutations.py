"""The product broken on purpose, one safety at a time, to see that the stories notice.

The letters are those of the rules that keep the two functions apart: see
docs/decisions/engine.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from shared.model.errors import ProvisionerError
from shared.model.pools import PoolStatus
from tests.simulation.campaigns import generalise
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenario import Act, Fault, Rollout, Scenario, Stock
from tests.simulation.sim_scenarios import make_scenario

Function = Any  # a function of the product, of any signature
Make = Callable[[Function], Function]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One safety that is missing."""

    name: str
    places: tuple[tuple[str, Make], ...]
    """``function`` or ``Class.method`` of the product, wherever it is, and what replaces it."""
    shows: Callable[[Scenario], bool] = bool  # which stories may show it at all
    story: Scenario | None = None  # a story that shows it; without one, seeds are searched
    seed: int = 0
    """A seed that shows it: it saves the search. When stories have changed and this seed shows
    nothing any more, the search finds another one."""
    test: str = ""  # the test that shows it, where no story does

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break the product, in every module that imported the function, and mend it again."""
        with ExitStack() as stack:
            for name, make in self.places:
                for place, attribute in _find(name):
                    stack.enter_context(patch.object(place, attribute, make(vars(place)[attribute])))
            yield


def _find(name: str) -> list[tuple[object, str]]:
    """Return where a function of the product is: its class, or each module that has it.

    Raises:
        LookupError: the product has no such function any more, so nothing would be broken.
    """
    modules = [module for known, module in sys.modules.items() if known.startswith("shared.")]
    first, _, attribute = name.partition(".")
    plain = next((each for each in (vars(module).get(first) for module in modules) if each is not None), None)
    if plain is None or (attribute and attribute not in vars(plain)):
        raise LookupError(f"the product has no function {name}")
    if attribute:
        return [(plain, attribute)]
    return [(each, name) for each in modules if vars(each).get(name) is plain]


def find_catch(mutation: Mutation, seeds: range) -> tuple[int, str] | None:
    """Return a seed whose story shows that the product is broken, and what it shows.

    The mutation's own seed is tried first, then all in their order.
    """
    stories = ((seed, make_scenario(seed)) for seed in (mutation.seed, *seeds))
    for seed, scenario in [(0, mutation.story)] if mutation.story else stories:
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

    def take_away(run: Any) -> None:
        plain(run)
        missing = [act for act in run.plan.takes if act.pool not in {done.pool for done in run.done}]
        for act in missing:
            if str(act.verb) == "delete":
                run.ports.takes.delete(run.key.cluster, act.pool)

    return take_away


def _ignore_uid(plain: Function) -> Function:
    """Take the pools of an earlier workload of the same name for those of the one that lives."""

    def choose(look: Any, ports: Any, source: Any) -> Any:
        pools = plain(look, ports, source)
        listed = look.inventory.pools.values()
        owned = (pool for pool in listed if pool.owner and pool.owner.key == look.key.workload)
        return {pool.name: pool for pool in owned} | pools

    return choose


def _hide_errors(plain: Function) -> Function:
    """Take a workload that could not be read for one that is gone."""

    def read(key: Any, ports: Any, lists: Any) -> Any:
        try:
            workload, known = plain(key, ports, lists)
        except ProvisionerError:
            return None, True
        return workload, known or True

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

    return lambda key, ports, source: lambda: (Stop.NOTHING, "")


def _forget_limit(plain: Function) -> Function:
    """Leave room for any number of chips."""
    return lambda *args, **named: replace(plain(*args, **named), chips=10**9)


def _fails(scenario: Scenario) -> bool:
    return bool(scenario.stock) or any(fault.kind.startswith(("no-", "stock")) for fault in scenario.faults)


def _ends(scenario: Scenario, *verbs: str) -> bool:
    return any(act.verb in verbs for act in scenario.acts)


_OFTEN = tuple(float(at) for at in range(30, 2400, 30))
_ONE = Act(5.0, "create", 0, "train", "JobSet", "two", 1)
_BLIND = Scenario(
    acts=(_ONE, Act(900.0, "suspend", 0, "train"), Act(1100.0, "resume", 0, "train")),
    faults=(Fault(900.0, "no-right", "get_workload", 0, 190.0),),
    ticks=_OFTEN,
)
_LATE_POD = Scenario(
    acts=(
        Act(5.0, "create", 0, "train", "JobSet", "one", 3),
        Act(900.0, "delete", 0, "train"),
        Act(933.0, "create", 0, "late", "Pod", "one", 1),
    ),
    faults=(Fault(899.0, "lose"), Fault(900.5, "stall", "list_bound_pods", 0, 30.0)),
    ticks=_OFTEN,
)
"""A pod comes to a pool whose nodes were found empty, while the look at another pool takes long."""
_DIFFERING = Scenario(acts=(_ONE,), ticks=_OFTEN, candidates=2, collect_release=1)
_NO_CHIPS = Scenario(acts=(_ONE,), faults=(Fault(0.0, "no-chips", "", 0, 2400.0),), ticks=_OFTEN)
_TWO_WRITERS = Scenario(
    acts=(_ONE,),
    faults=(Fault(5.0, "delay", "", 0, 87.0), Fault(92.0, "quota", "create", 0)),
    ticks=(95.0, *(at for at in _OFTEN if at > 300)),
    candidates=2,
    rollouts=(Rollout(0.0, "provision", 900.0),),
)
"""A tick and a message of two instances meet the same demand, and one of them is refused."""
_DRY_ZONE = Scenario(acts=(_ONE,), ticks=_OFTEN, candidates=2, stock=(Stock(0.0, "a", 0), Stock(0.0, "b", 30)))
_HALF_GANG = Scenario(
    acts=(Act(5.0, "queue", 0, "gang", "JobSet", "two", 2),),
    ticks=_OFTEN,
    candidates=1,
    stock=(Stock(0.0, "a", 2),),
    quota_pods=8,
    check_seconds=600,
)

MUTATIONS = (
    Mutation("a: pools matched by key", (("find_spare", _match_by_key),), story=_DIFFERING),
    Mutation("b: the record goes first", (("_end_record", _delete_records),), story=_NO_CHIPS),
    Mutation("e: numbers come again", (("number_attempt", _forget_listed),), _fails, seed=2),
    Mutation(
        "f: another name after a refusal",
        (("number_attempt", _number_refusals), ("_rests_on_operations", _always(False))),
        story=_TWO_WRITERS,
    ),
    Mutation("no second plan", (("Run.take_away", _agree_with_first),), seed=74),
    Mutation("no UID check", (("choose_mine", _ignore_uid),), seed=2),
    Mutation("used pools deleted", (("is_used", _always(False)),)),
    Mutation("no stop", (("begin_stop", _start),), lambda each: each.mode != "active" or _ends(each, "stop")),
    Mutation("no cap", (("Books.take_deletion", _always(True)),), lambda each: each.cap < 50, seed=140),
    Mutation("no pause", (("find_pause", _always(0)),), story=_NO_CHIPS),
    Mutation("no try after a pause", (("find_pause", _always(10**9)),), _fails, seed=2),
    Mutation("no limit", (("Books.count_room", _forget_limit),), lambda each: bool(each.limit_chips)),
    Mutation("no grace", (("find_life", _forget_grace),), lambda each: _ends(each, "suspend"), seed=95),
    Mutation("short pools kept", (("is_short", _always(False)),), story=_DRY_ZONE),
    Mutation(
        "a part of a gang is Ready", (("is_complete", _always(True)),), lambda each: each.quota_pods > 0, seed=42
    ),
    Mutation("a part of a gang is held", (("_is_held_for_long", _always(False)),), story=_HALF_GANG),
    Mutation("g: old looks", (("expect_young", _always(None)),), story=_LATE_POD),
    Mutation("an unknown owner taken for gone", (("read_owner", _hide_errors),), story=_BLIND),
    Mutation("useless pools kept", (("is_useless", _always(False)),), seed=33),
    Mutation(
        "warm pools go at once",
        (("_end_idle", lambda _: _delete_idle),),
        lambda each: each.idle_seconds > 0,
        seed=40,
    ),
)
_SCENES = "tests/rules/test_plan_scenes.py::test_a_scene_has_its_plan"
QUIET = (
    Mutation(
        "c: waiting pods ignored", (("is_waited_for", _always(False)),), test=f"{_SCENES}[what fits is waited for]"
    ),
    Mutation(
        "d: pools that are not whole count",
        (("list_too_many", _forget_whole),),
        test=f"{_SCENES}[its own pool has lost a host, so the other one stays]",
    ),
    Mutation(
        "g: several threads on a key",
        (("Crew.begin", _always(True)),),
        test="tests/engine/test_turns.py::test_a_wake_up_that_meets_its_key_lets_the_thread_look_once_more",
    ),
    Mutation(
        "STOPPING taken for serving",
        (("Census.helps", _count_stopping),),
        test=f"{_SCENES}[a STOPPING pool keeps its number]",
    ),
)
"""No story shows these, because another safety holds behind each: c and d guard the same pools,
names keep two threads from making one pool twice, and what is STOPPING is gone in minutes."""


def _delete_idle(pool: Any, _census: Any) -> Any:
    from shared.plan.scene import Act, Verb  # noqa: PLC0415 -- used by this mutation only

    return Act(verb=Verb.DELETE, pool=pool.name)
