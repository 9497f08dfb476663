"""The plan's rules, broken: each that always gives one answer, and some that err in another way.

`tests/rules/test_plan_scenes.py` puts one after the other into the plan; each must fail a scene.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from msgspec import structs

import shared.plan
from shared.model.names import Slot
from shared.plan import attempts, counting
from shared.plan.counting import Census
from shared.plan.plan import Life
from shared.plan.scene import Act, Asks, Need, Pool, PoolOperation, Scene, Verb, Word

Rule = Callable[..., Any]
MODULES = [
    importlib.import_module(f"shared.plan.{each.name}") for each in pkgutil.iter_modules(shared.plan.__path__)
]
RIGHT: dict[str, Rule] = {name: rule for module in MODULES for name, rule in vars(module).items()}
"""The plan as it is, by the names of its rules."""
ANSWERS: dict[str, tuple[object, ...]] = {"bool": (True, False), "int": (0,), "list": ([],)}
"""By the type that a rule returns, what it may answer whatever it is asked."""


def always(value: object) -> Rule:
    return lambda *_, **__: value


def list_rules(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the functions of a module and the methods of its classes, by their names."""
    for name, each in vars(module).items():
        if getattr(each, "__module__", "") == module.__name__:
            yield name, each
            yield from ((f"{name}.{key}", rule) for key, rule in vars(each).items() if not key.startswith("__"))


def list_constant_rules() -> Iterator[tuple[str, str, object]]:
    """Yield what is said of a rule that always gives one answer, its name, and the wrong rule."""
    for module in MODULES:
        for name, rule in list_rules(module):
            field = getattr(rule, "fget", None) or getattr(rule, "func", None)
            kind = getattr(field or rule, "__annotations__", {}).get("return", "")
            (base,) = re.findall(r"^\w*", str(kind))
            for answer in (*ANSWERS.get(base, ()), *[None] * ("| None" in str(kind))):
                wrong = always(answer)
                yield f"{name} is always {answer}", name, property(wrong) if field else wrong


def number_from_listed(census: Census, need: Need, slot: Slot) -> int:
    tries = attempts.list_tries(census, need, slot)
    return max([each.owner.attempt + 1 for each in tries if each.status != "STOPPING"] + [0])


def count_operations(census: Census, need: Need, slot: Slot) -> int:
    return len(attempts.list_creations(census, need, slot))


def list_whichever(census: Census, need: Need, slot: Slot) -> list[Pool]:
    return list(census.by_slot.get(slot, ()))


def stop_when_refused(census: Census, need: Need, past: attempts.Past) -> int | None:
    number: int | None = RIGHT["find_candidate"](census, need, past)
    return None if census.scene.refused else number


def try_refused(_census: Census, _need: Need, past: attempts.Past) -> int:
    return past.following


def never_forget(record: Pool, census: Census, ways: int) -> attempts.Past:
    past: attempts.Past = RIGHT["read_record"](record, census, ways)
    return structs.replace(past, rounds=record.owner.round)


def fit_by_key(pool: Pool, asks: Asks) -> bool:
    return pool.shape == asks.shape and pool.owner.need == "k1tpu"


def spare_at_once(census: Census) -> frozenset[str]:
    for pool in census.scene.pools:
        structs.force_setattr(pool, "spare_before", True)
    names: frozenset[str] = RIGHT["find_spare"](census)
    return names


def forget_word(pool: Pool, *rest: Any) -> bool:
    return bool(RIGHT["is_short"](structs.replace(pool, word=Word.NONE), *rest))


def forget_pending(census: Census, need: Need, slot: Slot) -> list[PoolOperation]:
    return [structs.replace(each, pending=False) for each in RIGHT["list_creations"](census, need, slot)]


def forget_quota(scene: Scene) -> Life:
    life: Life = RIGHT["find_life"](structs.replace(scene, quota_lost_at=0.0))
    return life


WRONG: dict[str, tuple[str, object]] = {
    # a key decides nothing
    "compare the key": ("fits", fit_by_key),
    "fit by shape only": ("fits", lambda pool, asks: pool.shape == asks.shape),
    "the taint of the accelerator keeps pods off": ("_TAINTS_OF_SHAPES", set()),
    # whole ones count, and two ticks agree
    "a pool that is coming is whole": ("is_whole", lambda pool: pool.status != "ERROR"),
    "what is left over is too many": ("list_too_many", lambda census: list(census.kept.left)),
    "one tick is enough": ("find_spare", spare_at_once),
    "own hung pods hold a pool": ("is_used", lambda pool, census: pool.name in census.users),
    "a pool that is deleted counts": (
        "Census.helps",
        lambda census, pool: pool.name in census.homes and not census.troubles[pool.name],
    ),
    # a number never comes again, and failures alone move the way
    "a number comes again": ("number_attempt", number_from_listed),
    "the number is that of the operations only": ("number_attempt", count_operations),
    "a record of whichever need": ("list_tries", list_whichever),
    "every create of the hour was lost": ("count_lost", lambda creations, *_: len(creations)),
    "creates of the hour are not counted": ("SPARE_CREATES", 100),
    "a create that no list shows yet is forgotten": ("list_creations", forget_pending),
    # after a refusal the next way
    "refusals are not seen": ("find_candidate", try_refused),
    "a refused way stops the slot": ("find_candidate", stop_when_refused),
    "the pause does not double": ("find_pause", always(60)),
    "lists that ended are never forgotten": ("read_record", never_forget),
    # short and useless
    "a lost host has no patience of its own": ("is_short", forget_word),
    "a refusal as useless never ends": ("is_refused_useless", lambda census, need: bool(census.deletions)),
    # counting
    "no upper bound": ("count_to_keep", lambda census, need: RIGHT["count_to_keep"](census, need) + 10),
    "keep what the spec says, wherever it runs": ("count_to_keep", lambda census, need: need.most),
    "followers buy a pool": ("_waits_for_pool", lambda each: each.waiting_since is not None and not each.mixed),
    "a pod buys without waiting": ("_waits_for_pool", lambda each: not each.mixed and not each.outside),
    "slices are kept as the spec lists them": (
        "list_kept",
        lambda census, need: [counting.Slice(need=need)] * counting.count_to_keep(census, need),
    ),
    "those that ask most come before those that run": (
        "Census._rank_want",
        lambda census, want: -len(want.need.asks.labels),
    ),
    # limits, life and queue
    "every need has the whole room": ("Means.less", lambda means, chips: means),
    "there is room for everything": ("_count_affordable", lambda census, need, means: need.hosts),
    "an elastic need has no limit": ("count_wanted", lambda census, need: need.nodes or 0),
    "nothing is asked": ("list_asks", always(())),
    "suspended is over": ("find_life", lambda scene: Life.LIVE if scene.suspended_since is None else Life.OVER),
    "quota is lost without a grace": ("find_life", forget_quota),
    "a closed pool stays closed": ("_is_needed_again", lambda pool, census: pool.name in census.users),
    "warm pools go at once": ("_end_idle", lambda pool, census: Act(verb=Verb.DELETE, pool=pool.name)),
}
CONSTANT = {title: (name, rule) for title, name, rule in list_constant_rules()}
