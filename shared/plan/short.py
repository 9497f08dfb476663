"""Whether a pool helps its workload: it failed, lacks nodes for too long, or serves nobody. Pure.

One rule, *short*, is for all that lacks nodes, and one, *useless*, for pools that are whole and on
which the scheduler still places no pod that waits. We do not repeat the scheduler's rules: a pool
that does not help is given back after a bounded time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.needs import Tier
from shared.model.pools import PoolStatus
from shared.plan.scene import Word

if TYPE_CHECKING:
    from shared.plan.scene import Need, Pod, Pool, Scene

CAUSE_SECONDS = 120
"""How long a pool may lack nodes after GKE has said why."""
LOSS_SECONDS = 600
CREATION_SECONDS = 3600
"""Without a word of GKE."""
USELESS_SECONDS = 900
USELESS_MAX = 3
"""So many useless pools of a slot, and its need is refused."""


def is_whole(pool: Pool) -> bool:
    """Return whether all hosts of a pool are Ready."""
    running = pool.status in (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)
    return running and (pool.ready or 0) >= pool.shape.hosts


def has_failed(pool: Pool) -> bool:
    """Return whether GKE calls a pool failed, and it does not serve all the same."""
    return pool.status in (PoolStatus.ERROR, PoolStatus.RUNNING_WITH_ERROR) and not is_whole(pool)


def is_short(pool: Pool, need: Need, served: list[Pod], scene: Scene) -> bool:
    """Return whether a pool lacks nodes for longer than its patience while a pod waits for them.

    Its clock is the latest of the creation of the pod and of the pool, and the readiness of its
    youngest node. A pod that is younger than GKE's word counts from the word: pods that give up are
    made again.
    """
    patience = find_patience(pool, need)
    if (
        pool.status != PoolStatus.RUNNING
        or is_whole(pool)
        or pool.busy
        or patience is None
        or not served
    ):
        return False
    began = min(pod.created_at for pod in served)
    if pool.word:
        began = min(began, pool.word_at)
    return scene.now - max(began, pool.created_at, pool.ready_since or 0.0) >= patience


def find_patience(pool: Pool, need: Need) -> int | None:
    """Return for how many seconds a pool may lack nodes; None for as long as it likes.

    Flex-start has a wait of its own, and a pool that GKE's autoscaler fills and that has no other
    way stays.
    """
    way = need.ways[min(pool.candidate, len(need.ways) - 1)]
    if way.tier == Tier.FLEX_START or (pool.autoscaled and len(need.ways) == 1):
        return None
    return {Word.CAUSE: CAUSE_SECONDS, Word.LOST: LOSS_SECONDS}.get(
        pool.word or Word.NONE, CREATION_SECONDS
    )


def is_useless(pool: Pool, served: list[Pod], scene: Scene) -> bool:
    """Return whether a whole pool serves nobody although a pod is older than its nodes."""
    if (
        not is_whole(pool)
        or pool.ready_since is None
        or scene.now - pool.ready_since < USELESS_SECONDS
    ):
        return False
    strangers = any(pod.pool == pool.name and not pod.need for pod in scene.pods)
    return not strangers and any(pod.created_at < pool.ready_since for pod in served)


def helps_not(pool: Pool, need: Need, served: list[Pod], scene: Scene) -> bool:
    """Return whether a pool does not help: it is the record that its attempt failed."""
    return (
        has_failed(pool) or is_short(pool, need, served, scene) or is_useless(pool, served, scene)
    )


def is_last_useless(pool: Pool, served: list[Pod], scene: Scene) -> bool:
    """Return whether a useless pool is the last one that its slot gets."""
    return is_useless(pool, served, scene) and pool.useless + 1 >= USELESS_MAX
