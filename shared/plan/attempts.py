"""Which try of a slot is next: its number, its way, and the pause before it. Pure.

A failed pool is the record of its attempt. It stays until a later one is listed, so that a restart
of this program forgets nothing. GKE's own list of operations is the record of one that is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.decisions import Reason
from shared.model.needs import Tier
from shared.plan.counting import list_counted, list_served
from shared.plan.limits import count_more_nodes
from shared.plan.scene import Act, Verb, Whose, Word
from shared.plan.short import USELESS_SECONDS, helps_not, is_last_useless, is_useless, is_whole

if TYPE_CHECKING:
    from shared.model.names import Slot
    from shared.plan.scene import Need, Pool, Scene

PAUSE_SECONDS = 60
PAUSE_SECONDS_MAX = 1800
SPARE_CREATES = 2
"""So many creates of a slot in an hour beside one for each of its ways are a mistake, not a try."""
AUTOSCALED_MAX = 150
"""Above so many autoscaled pools a new one comes with its nodes: GKE's autoscaler looks at each."""


def list_tries(scene: Scene, need: Need, slot: Slot) -> list[Pool]:
    """Return the pools of one slot, of whichever attempt."""
    shape = need.asks.shape
    return [
        pool
        for pool in scene.pools
        if pool.slot == slot and pool.shape == shape and pool.whose == Whose.DEPLOYMENT
    ]


def list_free_slots(scene: Scene, need: Need) -> list[Slot]:
    """Return the slots in which no pool counts, the lowest first. A slot that pauses stays one."""
    used = {pool.slot for pool in list_counted(scene, need)}
    slots: list[Slot] = [need.pin] if need.pin else list(range(len(scene.pools) + need.most + 1))
    return [slot for slot in slots if slot not in used]


def number_attempt(scene: Scene, need: Need, slot: Slot) -> int:
    """Return the number of the next attempt: never one that GKE still lists."""
    listed = [pool.attempt for pool in list_tries(scene, need, slot)]
    created = [
        each.attempt for each in scene.creations or () if (each.need, each.slot) == (need.key, slot)
    ]
    return max([*listed, *created], default=-1) + 1


def find_record(scene: Scene, need: Need, slot: Slot) -> Pool | None:
    """Return the newest pool of a slot if it does not help: it says which way is next."""
    newest = max(list_tries(scene, need, slot), key=lambda pool: pool.attempt, default=None)
    if newest is None or not helps_not(newest, need, list_served(newest, scene, need), scene):
        return None
    return newest


def plan_attempt(scene: Scene, need: Need, slot: Slot) -> Act | Reason:
    """Return the create of a slot's next pool, or why it does not come now.

    After a failure the next way follows at once. After the last one a pause comes, which doubles
    with each list that ended, and then the first way again. Ways that GKE refused a moment ago are
    passed over: GKE answers at once, so nothing is lost.
    """
    record, ways = find_record(scene, need, slot), len(need.ways)
    created = sum((each.need, each.slot) == (need.key, slot) for each in scene.creations or ())
    if created > ways + SPARE_CREATES:
        return Reason.PAUSED
    if need.key in scene.refused_useless or (record and _ends_here(record, scene, need)):
        return Reason.POOL_USELESS
    candidate = record.candidate + 1 if record else _count_lost(scene, need, slot) % ways
    if record and candidate >= ways and scene.now - _failed_at(record) < find_pause(record.round):
        return Reason.PAUSED
    if record and goes_first(record, scene, need):
        return Reason.POOL_GOES_FIRST
    round_number = record.round + (candidate >= ways) if record else 0
    return _create(scene, need, slot, record, candidate % ways, round_number)


def _count_lost(scene: Scene, need: Need, slot: Slot) -> int:
    """Return how many creates of a slot without a pool a pod that waits has seen.

    Their pools had to go first, so GKE's operations are the only record.
    """
    if list_tries(scene, need, slot):
        return 0
    oldest = min(
        (pod.created_at for pod in scene.pods if pod.need == need.key and pod.waits),
        default=scene.now,
    )
    mine = [each for each in scene.creations or () if (each.need, each.slot) == (need.key, slot)]
    return sum(oldest < each.began_at for each in mine)


def _create(
    scene: Scene, need: Need, slot: Slot, record: Pool | None, first: int, round_number: int
) -> Act | Reason:
    left = [
        number for number in range(first, len(need.ways)) if need.ways[number] not in scene.refused
    ]
    if not left:
        return Reason.PAUSED
    helped_nobody = record is not None and is_useless(
        record, list_served(record, scene, need), scene
    )
    return Act(
        verb=Verb.CREATE,
        need=need.key,
        slot=slot,
        attempt=number_attempt(scene, need, slot),
        candidate=left[0],
        round=round_number,
        useless=record.useless + 1 if record and helped_nobody else 0,
        empty=comes_empty(scene, need, left[0]),
    )


def find_pause(rounds: int) -> int:
    """Return the seconds between the end of a capacity list and its next beginning."""
    return min(PAUSE_SECONDS << min(rounds, 5), PAUSE_SECONDS_MAX)


def find_next_try(scene: Scene, need: Need) -> float | None:
    """Return when the pause of the lowest free slot ends, in unix seconds; None if it does not pause."""
    for slot in list_free_slots(scene, need)[:1]:
        record = find_record(scene, need, slot)
        if record and record.candidate + 1 >= len(need.ways):
            return _failed_at(record) + find_pause(record.round)
    return None


def _failed_at(record: Pool) -> float:
    if record.word:
        return record.word_at
    if is_whole(record):
        return (record.ready_since or 0.0) + USELESS_SECONDS
    return record.created_at


def _ends_here(record: Pool, scene: Scene, need: Need) -> bool:
    return is_last_useless(record, list_served(record, scene, need), scene)


def goes_first(pool: Pool, scene: Scene, need: Need) -> bool:
    """Return whether a record is deleted before its successor is created.

    It is only so where the successor needs what the pool holds: a part of the same reservation, or
    machines that leave no room under the limit.
    """
    now, following = (
        need.ways[pool.candidate % len(need.ways)],
        need.ways[(pool.candidate + 1) % len(need.ways)],
    )
    same = now == following and now.tier == Tier.RESERVATION
    return same or ((pool.ready or 0) > 0 and count_more_nodes(scene, need) < need.hosts)


def comes_empty(scene: Scene, need: Need, candidate: int) -> bool:
    """Return whether GKE's autoscaler makes the nodes, so that a stockout is known in two minutes.

    Where there is no other way it helps nobody to know. A reservation answers within a minute. The
    autoscaler would give some hosts to a slice of GPUs, which then neither serves nor is free.
    """
    if need.ways[candidate].tier == Tier.FLEX_START:
        return True
    autoscaled = sum(pool.autoscaled for pool in scene.pools) + scene.autoscaled_elsewhere
    several_gpu_hosts = not need.asks.shape.topology and need.hosts > 1
    return (
        len(need.ways) > 1
        and need.ways[candidate].tier != Tier.RESERVATION
        and autoscaled < AUTOSCALED_MAX
        and not several_gpu_hosts
        and not need.elastic
        and not scene.queue
    )


def holds_room(pool: Pool, *, short: bool) -> bool:
    """Return whether a limit counts a pool that has no machines and gets none."""
    return (
        pool.autoscaled and pool.maximum > 0 and not pool.ready and short and pool.word != Word.LOST
    )
