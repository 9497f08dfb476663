"""Whether a pool helps its workload: it failed, lacks nodes for too long, or serves nobody. Pure.

One rule, *short*, is for all that lacks nodes, and one, *useless*, for pools that are whole and on
which the scheduler still places no pod that waits. We do not repeat the scheduler's rules: a pool
that does not help is given back after a bounded time.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from shared.model.needs import Tier
from shared.model.pools import FAILED, PoolStatus
from shared.plan.scene import Need, Pod, Pool, Scene, Word

CAUSE_SECONDS = 120  # how long a pool may lack nodes after GKE has said why
LOSS_SECONDS = 600
USELESS_SECONDS = 900
USELESS_MAX = 3  # so many useless pools of a slot, and its need is refused


class Trouble(StrEnum):
    """Why a pool does not help. It is then the record that its attempt failed."""

    NONE = ""
    FAILED = "failed"
    SHORT = "short"
    USELESS = "useless"


def find_trouble(
    pool: Pool, need: Need, waiting_since: float | None, users: Sequence[Pod], scene: Scene
) -> Trouble:
    """Return why a pool does not help its workload; NONE for one that does or is on its way.

    The oldest pod that waits for it was created at `waiting_since`; `users` are on its nodes.
    """
    if has_failed(pool):
        return Trouble.FAILED
    if is_off(pool) or is_short(pool, need, waiting_since, scene):
        return Trouble.SHORT
    return Trouble.USELESS if is_useless(pool, waiting_since, users, scene) else Trouble.NONE


def is_whole(pool: Pool) -> bool:
    """Return whether all hosts of a pool are Ready; an elastic one may have any number."""
    running = pool.status in (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)
    return running and pool.ready >= pool.shape.hosts


def has_failed(pool: Pool) -> bool:
    """Return whether GKE calls a pool failed, and it does not serve all the same."""
    return pool.status in FAILED and not (is_whole(pool) and pool.ready > 0)


def is_off(pool: Pool) -> bool:
    """Return whether `collect` has switched a pool off before all of its nodes came.

    No autoscaler takes the nodes of an elastic one away again, so it serves for its pods only.
    """
    off = pool.status == PoolStatus.RUNNING and pool.maximum == 0
    return off and (pool.elastic or not pool.nodes)


def lacks_nodes(pool: Pool) -> bool:
    """Return whether a pool that GKE calls running has fewer nodes than it may have."""
    nodes = pool.maximum if pool.elastic else pool.shape.hosts
    running = pool.status in (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)
    return running and not pool.busy and pool.ready < nodes


def is_short(pool: Pool, need: Need, waiting_since: float | None, scene: Scene) -> bool:
    """Return whether a pool lacks nodes for longer than its patience while a pod waits for them.

    Its clock is the latest of the creation of the pod and of the pool, and the readiness of its
    youngest node. A pod that is younger than GKE's word counts from the word: pods that give up are
    made again.
    """
    patience = find_patience(pool, need, scene)
    if patience is None or waiting_since is None or not lacks_nodes(pool):
        return False
    began = min(waiting_since, pool.word_at) if pool.word else waiting_since
    return scene.now - max(began, pool.owner.created_at, pool.ready_since or 0.0) >= patience


def find_patience(pool: Pool, need: Need, scene: Scene) -> int | None:
    """Return for how many seconds a pool may lack nodes; None for as long as it likes.

    Flex-start has a wait of its own, and a pool that GKE's autoscaler fills and that has no other
    way stays.
    """
    way = need.ways[min(pool.owner.candidate, len(need.ways) - 1)]
    if way.tier == Tier.FLEX_START:
        return need.flex_wait_seconds or None
    if pool.autoscaled and len(need.ways) == 1:
        return None
    if pool.word == Word.LOST:
        return LOSS_SECONDS
    return CAUSE_SECONDS if pool.word else scene.creation_seconds


def is_useless(pool: Pool, waiting_since: float | None, users: Sequence[Pod], scene: Scene) -> bool:
    """Return whether a whole pool serves nobody although a pod is older than its nodes."""
    since = pool.ready_since
    if not is_whole(pool) or since is None or scene.now - since < USELESS_SECONDS:
        return False
    if waiting_since is None or any(not pod.need for pod in users):  # pods of others
        return False
    # The pods of an elastic pool may wait for its next node, and then it is not whole.
    if pool.elastic and (users or pool.ready < pool.maximum):
        return False
    return waiting_since < since
