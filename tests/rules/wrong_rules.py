"""Each guard of the plan, broken: its name, and what stands in its place.

`tests/rules/test_plan_scenes.py` puts one after the other into the plan; each must fail a scene.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from msgspec import structs

import shared.plan
from shared.model.names import Slot
from shared.plan import attempts, counting
from shared.plan.counting import Census
from shared.plan.plan import Life
from shared.plan.scene import Act, Asks, Creation, Need, Pool, Scene, Verb, Word
from shared.plan.short import Trouble

Rule = Callable[..., Any]
MODULES = [
    importlib.import_module(f"shared.plan.{each.name}") for each in pkgutil.iter_modules(shared.plan.__path__)
]


RIGHT: dict[str, Rule] = {name: rule for module in MODULES for name, rule in vars(module).items()}
"""The plan as it is, by the names of its rules."""


def always(value: object) -> Rule:
    return lambda *_, **__: value


def change_scene(name: str, **fields: object) -> Rule:
    """Return a rule that is right about another scene."""

    def judge(scene: Scene | Census) -> Any:
        if isinstance(scene, Census):
            return RIGHT[name](Census(structs.replace(scene.scene, **fields)))
        return RIGHT[name](structs.replace(scene, **fields))

    return judge


def forget_word(pool: Pool, *rest: Any) -> bool:
    return bool(RIGHT["is_short"](structs.replace(pool, word=Word.NONE), *rest))


def wait_always(pool: Pool, need: Need, service: Any, scene: Scene) -> bool:
    return bool(RIGHT["is_short"](pool, need, structs.replace(service, waiting_since=0.0), scene))


def number_from_listed(census: Census, need: Need, slot: Slot) -> int:
    tries = attempts.list_tries(census, need, slot)
    return max([each.attempt + 1 for each in tries if each.status != "STOPPING"] + [0])


def count_operations(census: Census, need: Need, slot: Slot) -> int:
    return len(attempts.list_creations(census, need, slot))


def list_whichever(census: Census, need: Need, slot: Slot) -> list[Pool]:
    return [pool for pool in census.by_slot.get(slot, ()) if pool.ours]


def stop_when_refused(census: Census, need: Need, slot: Slot, record: Pool | None) -> int | None:
    number: int | None = RIGHT["find_candidate"](census, need, slot, record)
    return None if census.scene.refused else number


def try_refused(_census: Census, _need: Need, _slot: Slot, record: Pool | None) -> int:
    return record.candidate + 1 if record else 0


def fit_by_key(pool: Pool, asks: Asks) -> bool:
    return pool.shape == asks.shape and pool.need == "k1tpu"


def spare_at_once(census: Census) -> frozenset[str]:
    for pool in census.scene.pools:
        structs.force_setattr(pool, "spare_before", True)
    names: frozenset[str] = RIGHT["find_spare"](census)
    return names


def hold_nothing(census: Census) -> Any:
    apart = [structs.replace(need, apart=True) for need in census.scene.needs]
    return RIGHT["_list_lacking"](Census(structs.replace(census.scene, needs=tuple(apart))))


def wait_also_in_vain(each: Any) -> bool:
    need = structs.replace(each.need, never=None)
    return bool(RIGHT["_waits_for_pool"](structs.replace(each, need=need)))


def forget_pending(census: Census, need: Need, slot: Slot) -> list[Creation]:
    return [structs.replace(each, pending=False) for each in RIGHT["list_creations"](census, need, slot)]


def hang_when_lost(pool: Pool, census: Census) -> bool:
    return pool.word == Word.LOST and bool(RIGHT["_hangs"](pool, census))


def range_at_once(census: Census, need: Need, slot: Slot) -> range:
    return range(attempts.count_lost(census, need, slot) % len(need.ways), len(need.ways))


WRONG: dict[str, tuple[str, object]] = {
    # a) a key decides nothing
    "compare the key": ("fits", fit_by_key),
    "fit by shape only": ("fits", lambda pool, asks: pool.ours and pool.shape == asks.shape),
    "taints keep nobody off": ("_tolerates", always(True)),
    "the taint of the accelerator keeps pods off": ("_TAINTS_OF_SHAPES", set()),
    # b) the successor first
    "delete the newest failed attempt": ("has_successor", always(True)),
    "a successor is not seen": ("has_successor", always(False)),
    "nothing goes first": ("goes_first", always(False)),
    "everything goes first": ("goes_first", always(True)),
    "a record is never needless": ("is_needless", always(False)),
    "a record is always needless": ("is_needless", always(True)),
    "within the grace records stay": ("plan_records", always([])),
    # c) nobody waits
    "no pod is waited for": ("is_waited_for", always(False)),
    "no idle pool may serve": ("may_serve_soon", always(False)),
    "every idle pool may serve": ("may_serve_soon", always(True)),
    # d) whole ones count
    "a pool that is coming is whole": ("is_whole", lambda pool: pool.status != "ERROR"),
    "what is left over is too many": ("list_too_many", lambda census: list(census.kept.left)),
    "nothing is too many": ("list_too_many", always([])),
    "one tick is enough": ("find_spare", spare_at_once),
    "mixed slices are not seen": ("Slice.mixed", property(always(False))),
    "every pool is at rest": ("Pool.at_rest", property(lambda pool: pool.ours)),
    "no pod holds a pool": ("is_used", always(False)),
    "only what lost a host can hang": ("_hangs", hang_when_lost),
    "a useless pool waits for its successor for ever": ("_is_useless_for_long", always(False)),
    "nothing pauses without a record": ("_range_without_record", range_at_once),
    "own hung pods hold a pool": ("is_used", lambda pool, census: pool.name in census.users),
    "pods that end too late hold a pool": ("_holds", always(True)),
    # e) a number never comes again, and failures alone move the way
    "a number comes again": ("number_attempt", number_from_listed),
    "the number is that of the operations only": ("number_attempt", count_operations),
    "a record is no record": ("find_record", always(None)),
    "a record of whichever need": ("list_tries", list_whichever),
    "what went first is forgotten": ("count_lost", always(0)),
    "every create of the hour was lost": ("count_lost", count_operations),
    "creates of the hour are not counted": ("SPARE_CREATES", 100),
    # f) after a refusal the next way
    "refusals are not seen": ("find_candidate", try_refused),
    "a refused way stops the slot": ("find_candidate", stop_when_refused),
    "no pause": ("find_pause", always(0)),
    "the pause does not double": ("find_pause", always(60)),
    "lists that ended are never forgotten": ("count_rounds", lambda record, census: record.round),
    "a failure forgets useless ones": (
        "count_useless",
        lambda record, census: (record.useless + 1) * (census.troubles[record.name] == Trouble.USELESS),
    ),
    # short and useless
    "a lost host has no patience of its own": ("is_short", forget_word),
    "a pod needs not wait for what is short": ("is_short", wait_always),
    "flex-start has patience": ("find_patience", always(3600)),
    "patience is without end": ("find_patience", always(None)),
    "what is switched off may still come": ("is_off", always(False)),
    "nothing is useless": ("is_useless", always(False)),
    "useless for ever": ("is_last_useless", always(False)),
    "a refusal as useless is forgotten": ("is_refused_useless", always(False)),
    "a create that no list shows yet is forgotten": ("list_creations", forget_pending),
    "a useless pool that went first is forgotten": ("count_gone", lambda *_: 0),
    "a refusal as useless never ends": ("is_refused_useless", lambda census, need: bool(census.scene.deletions)),
    "failed pools count": ("has_failed", always(False)),
    # counting
    "only slices that wait are demands": (
        "list_demands",
        lambda census, need: [want for want in RIGHT["list_demands"](census, need) if want.waiting_since],
    ),
    "no upper bound": ("count_to_keep", lambda census, need: RIGHT["count_to_keep"](census, need) + 10),
    "keep what the spec says, wherever it runs": ("count_to_keep", lambda census, need: need.most),
    "followers buy a pool": ("_waits_for_pool", lambda each: each.waiting_since is not None and not each.mixed),
    "a pod buys without waiting": ("_waits_for_pool", lambda each: not each.mixed and not each.outside),
    "taken pools are ignored": ("find_taken", always({})),
    "takers with a pool on its way take too": ("find_taken", change_scene("find_taken", takers_served=False)),
    "slices are kept as the spec lists them": (
        "list_kept",
        lambda census, need: [counting.Slice(need=need, asks=need.asks)] * counting.count_to_keep(census, need),
    ),
    "those that ask most come before those that run": (
        "Census._rank_want",
        lambda census, want: -len(want.asks.labels),
    ),
    "a slot is whatever fits in it": (
        "Census.belongs",
        lambda census, pool, need: census.answers(pool, need.asks),
    ),
    "an elastic pool grows beside its successor": ("Census._is_superseded", always(False)),
    "pods that run elsewhere want nodes": ("Census.count_outside", always(0)),
    "a failed Go pool is in nobody's way": ("is_in_the_way", always(False)),
    "every Go pool is in the way": ("is_in_the_way", lambda pool, census: pool.whose == "go"),
    "no warm pool waits for a pod": ("_is_warm_for_a_pod", always(False)),
    "a failure is as old as the world": ("find_failure_time", always(0.0)),
    "a pool that is deleted counts": (
        "Census.helps",
        lambda census, pool: pool.name in census.homes and not census.troubles[pool.name],
    ),
    # limits and slots
    "a list's pools come with their nodes": ("comes_empty", always(False)),
    "every pool comes empty": ("comes_empty", always(True)),
    "an empty pool holds its room": ("holds_room", always(False)),
    "a part of a gang is bought": ("count_chips", always(0)),
    "every need has the whole room": ("Means.less", lambda means, chips: means),
    "there is room for everything": ("_count_affordable", lambda census, need, means: need.hosts),
    "an elastic need has no limit": ("count_wanted", lambda census, need: need.nodes or 0),
    "earlier nodes are bought again": ("count_wanted", lambda census, need: min(need.nodes or 0, 1000)),
    "a maximum is lowered below what GKE makes": (
        "lower_maximum",
        lambda pool, wanted=1, need="": RIGHT["lower_maximum"](
            structs.replace(pool, machines=0), wanted, need=need
        ),
    ),
    "strangers' nodes count as its own": ("_count_others", always(0)),
    "an elastic pool never changes": ("size_pool", always(None)),
    # life, queue, stop
    "suspended is over": ("find_life", lambda scene: Life.LIVE if scene.suspended_since is None else Life.OVER),
    "an unknown owner is gone": ("find_life", change_scene("find_life", owner_known=True)),
    "a suspended workload is live": ("find_life", change_scene("find_life", suspended_since=None)),
    "quota is lost without a grace": ("find_life", change_scene("find_life", quota_lost_at=0.0)),
    "Retry gives nothing back": ("find_life", change_scene("find_life", retried=False)),
    "an answer of Kueue's check is never given": ("decide_check", always(None)),
    "pools on their way are ready": ("is_complete", lambda census: not census.kept.unserved),
    "a queued workload waits for flex-start": ("may_use", always(True)),
    "idle pools are never opened": ("plan_opens", always([])),
    "a closed pool stays closed": ("_is_needed_again", lambda pool, census: pool.name in census.users),
    "warm pools go at once": ("_end_idle", lambda pool, census: Act(verb=Verb.DELETE, pool=pool.name)),
    "what is too many stays": ("_end_idle", always(None)),
    "over, and all stay": ("plan_ends", always([])),
    "nothing is told": ("list_notices", always([])),
    # parts
    "a part that waits for a claim holds no other": ("_list_lacking", hold_nothing),
    "parts that can never run get pools": ("_waits_for_pool", wait_also_in_vain),
}
