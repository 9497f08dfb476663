"""Which try of a slot is next: its number, its way, and the pause before it. Pure.

A failed pool is the record of its attempt. It stays until a later one is listed, so that a restart
of this program forgets nothing. GKE's own list of operations is the record of one that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from shared.model.decisions import Reason
from shared.model.names import ATTEMPTS_MAX, Slot
from shared.model.needs import NodeSource, Tier
from shared.model.pools import PoolStatus
from shared.plan.counting import Census
from shared.plan.limits import Means, count_nodes
from shared.plan.scene import Act, Need, Pool, PoolOperation, Verb, Way, Word
from shared.plan.short import USELESS_MAX, USELESS_SECONDS, Trouble

PAUSE_SECONDS = 60
PAUSE_SECONDS_MAX = 1800
SPARE_CREATES = 2
"""So many creates of a slot in an hour beside one for each of its ways are a mistake, not a try."""
AUTOSCALED_MAX = 150  # assumes: autoscaler-pools
"""Above so many autoscaled pools a new one comes with its nodes: GKE's autoscaler looks at each."""


def list_tries(census: Census, need: Need, slot: Slot) -> list[Pool]:
    """Return the pools of one slot of a need, of whichever attempt."""
    return [pool for pool in census.by_slot.get(slot, ()) if census.belongs(pool, need)]


def list_free_slots(census: Census, need: Need) -> Iterator[Slot]:
    """Yield the slots in which no pool counts, the lowest first. A slot that pauses stays one."""
    counted = census.counted.values()
    used = {pool.owner.slot for pool in counted if census.belongs(pool, need)}
    return (slot for slot in need.list_slots(len(counted) + need.most + 1) if slot not in used)


def list_creations(census: Census, need: Need, slot: Slot) -> Sequence[PoolOperation]:
    """Return the creates of a slot in the last hour, as far as GKE's operations were read."""
    return census.creations.get((need.key, slot), ())


def number_attempt(census: Census, need: Need, slot: Slot) -> int:
    """Return the number of the next attempt: never one that GKE still lists."""
    used = {pool.owner.attempt for pool in list_tries(census, need, slot)}
    used |= {each.attempt for each in list_creations(census, need, slot)}
    highest = max(used, default=-1)
    if highest + 1 < ATTEMPTS_MAX:
        return highest + 1
    return next(number for number in range(ATTEMPTS_MAX) if number not in used)


def find_record(census: Census, need: Need, slot: Slot) -> Pool | None:
    """Return the newest pool of a slot if it does not help: it says which way is next."""
    newest = max(list_tries(census, need, slot), key=lambda pool: pool.owner.attempt, default=None)
    return newest if newest and census.troubles[newest.name] else None


class Past(Struct, frozen=True):
    """What came of the tries of a slot before."""

    following: int = 0  # the number of the way that is next in its list; after all, their number
    rounds: int = 0  # how many lists have ended since a pool was whole
    useless: int = 0  # how many pools have helped nobody
    failed_at: float = 0.0  # when the last try failed, in unix seconds


def recall(census: Census, need: Need, slot: Slot) -> Past:
    """Return what came of the tries of a slot: by its record, else by GKE's operations."""
    record, creations = find_record(census, need, slot), list_creations(census, need, slot)
    if record:
        return read_record(record, census, len(need.ways))
    if creations and not list_tries(census, need, slot):
        return read_operations(census, need, slot)
    return Past()


def read_record(record: Pool, census: Census, ways: int) -> Past:
    """Return what a record says. Lists and useless pools are counted since a pool was whole."""
    owner, following = record.owner, min(record.owner.candidate + 1, ways)
    if census.troubles[record.name] == Trouble.USELESS:
        failed_at = (record.ready_since or 0.0) + USELESS_SECONDS
        return Past(following, useless=owner.useless + 1, failed_at=failed_at)
    if record.word == Word.LOST:
        return Past(following, failed_at=record.word_at)
    failed_at = record.word_at if record.word else owner.created_at
    return Past(following, owner.round, owner.useless, failed_at)


def read_operations(census: Census, need: Need, slot: Slot) -> Past:
    """Return what GKE's operations say: the pools of the slot had to go first."""
    creations, ends = list_creations(census, need, slot), census.deletions
    own = (each for each in ends if (each.need, each.slot) == (need.key, slot))
    last = max(own, key=lambda each: each.began_at, default=None)
    waiting = (each.waiting_since for each in census.slices[need.key])
    oldest = min((since for since in waiting if since is not None), default=census.scene.now)
    lost, useless = count_lost(creations, last, oldest), count_gone(creations, last, oldest)
    if not lost:
        return Past()
    rounds, at = divmod(lost - 1, len(need.ways))
    failed_at = max(each.began_at for each in creations)
    return Past(at + 1, 0 if useless else rounds, useless, failed_at)


def count_lost(
    creations: Sequence[PoolOperation], last: PoolOperation | None, oldest: float
) -> int:
    """Return how many creates a pod that waits has seen; `last` is the last delete.

    The pod that waits longest was created at `oldest`.
    """
    if last and oldest < last.began_at:
        return len(creations)
    return sum(oldest < each.began_at for each in creations)


def count_gone(
    creations: Sequence[PoolOperation], last: PoolOperation | None, oldest: float
) -> int:
    """Return how many pools without a record have helped nobody, as `count_lost` counts.

    Under a limit the machines of a useless pool had to go before its successor. It was useless if
    a pod that was older than it waits still, after the time in which it should have helped.
    """
    if last is None or oldest >= last.began_at:
        return 0
    if last.useless + 1 >= USELESS_MAX:  # its need was refused: who is served now is a new demand
        return 0
    served_nobody = any(
        each.attempt == last.attempt
        and not each.failed
        and oldest < each.began_at <= last.began_at - USELESS_SECONDS
        for each in creations
    )
    return last.useless + served_nobody


def plan_attempt(census: Census, need: Need, slot: Slot, means: Means) -> Act | Reason:
    """Return the create of a slot's next pool, or why it does not come now.

    After a failure the next way follows at once. After the last one a pause comes, which doubles
    with each list that ended, and then the first way again.
    """
    past, ways = recall(census, need, slot), len(need.ways)
    creations = list_creations(census, need, slot)
    if any(each.pending for each in creations):
        return Reason.POOL_IN_PROGRESS
    if is_refused_useless(census, need) or past.useless >= USELESS_MAX:
        return Reason.POOL_USELESS
    number = find_candidate(census, need, past)
    if number is None or len(creations) > ways + SPARE_CREATES:
        return Reason.PAUSED
    following = need.ways[number % ways]
    if waits_for_end(census, need, slot, following, means):
        return Reason.POOL_GOES_FIRST
    return Act(
        verb=Verb.CREATE,
        need=need.key,
        slot=slot,
        attempt=number_attempt(census, need, slot),
        candidate=number % ways,
        round=past.rounds + (number >= ways),
        useless=past.useless,
        empty=comes_empty(census, need, following),
    )


def find_candidate(census: Census, need: Need, past: Past) -> int | None:
    """Return which way is next, counted on from the list before; None while a pause holds.

    A way that GKE refused a moment ago is passed over: GKE answers at once, so nothing is lost.
    """
    ways, refused = len(need.ways), census.scene.refused
    passed = census.scene.now - past.failed_at >= find_pause(past.rounds)
    numbers = (
        number
        for number in range(past.following, 2 * ways if passed else ways)
        if need.ways[number % ways] not in refused and may_use(census, need.ways[number % ways])
    )
    return next(numbers, None)


def may_use(census: Census, way: Way) -> bool:
    """Return whether a way can serve: a queued workload cannot wait for flex-start's queue."""
    return not (census.scene.queued and way.tier == Tier.FLEX_START)


def find_pause(rounds: int) -> int:
    """Return the seconds between the end of a fallback list and its next beginning."""
    return min(PAUSE_SECONDS << min(rounds, 5), PAUSE_SECONDS_MAX)


def is_last_useless(pool: Pool, census: Census) -> bool:
    """Return whether a useless pool is the last one that its slot gets, or any slot of its need."""
    if census.troubles[pool.name] != Trouble.USELESS:
        return False
    home = census.homes[pool.name]
    return pool.owner.useless + 1 >= USELESS_MAX or is_refused_useless(census, home)


def is_refused_useless(census: Census, need: Need) -> bool:
    """Return whether a need gets nothing since its last useless pool was deleted.

    A pod that was made after that delete is a new demand.
    """
    ends = [
        each.began_at
        for each in census.deletions
        if each.need == need.key and each.useless + 1 >= USELESS_MAX
    ]
    if not ends:
        return False
    pods = (pod for each in census.slices[need.key] for pod in each.pods)
    return max((pod.created_at for pod in pods if pod.waits), default=0.0) <= max(ends)


def waits_for_end(census: Census, need: Need, slot: Slot, following: Way, means: Means) -> bool:
    """Return whether a slot's last pool must be gone first: the next one needs what it holds.

    One that is being deleted still holds its reservation.
    """
    if following.tier == Tier.RESERVATION and any(
        pool.status == PoolStatus.STOPPING
        and need.ways[pool.owner.candidate % len(need.ways)] == following
        for pool in list_tries(census, need, slot)
    ):
        return True
    record = find_record(census, need, slot)
    return record is not None and goes_first(record, need, following, means)


def goes_first(record: Pool, need: Need, following: Way, means: Means) -> bool:
    """Return whether a record is deleted before its successor is created.

    It is only so where the successor needs what the pool holds: a part of the same reservation, or
    machines that leave no room under the limit.
    """
    now, chips = need.ways[record.owner.candidate % len(need.ways)], need.hosts * need.chips
    if now == following and now.tier == Tier.RESERVATION:
        return True
    freed = means.chips + count_nodes(record.status, record.maximum, record.nodes) * need.chips
    return record.nodes > 0 and means.chips < chips <= freed


def comes_empty(census: Census, need: Need, way: Way) -> bool:
    """Return whether GKE's autoscaler makes the nodes, so that a stockout is known in two minutes.

    Where there is no other way it helps nobody to know. A reservation answers within a minute. The
    autoscaler would give some hosts to a slice of GPUs, which then neither serves nor is free.
    """
    if way.tier == Tier.FLEX_START:
        return True
    if census.scene.queued or need.elastic:
        return not census.scene.queued and not need.part
    if census.scene.autoscaled >= AUTOSCALED_MAX or (need.asks.shape.gpus and need.hosts > 1):
        return False
    if way.nodes_from is not None:
        return way.nodes_from == NodeSource.AUTOSCALER
    return len(need.ways) > 1 and way.tier != Tier.RESERVATION


def holds_room(pool: Pool, census: Census) -> bool:
    """Return whether a limit counts nodes that a short pool may still get, and should not."""
    short = census.troubles[pool.name] == Trouble.SHORT and pool.word != Word.LOST
    return (
        short and pool.autoscaled and pool.maximum > pool.nodes and (pool.elastic or not pool.nodes)
    )
