"""Counts pools: how many a need has, how many it lacks, and which it has too many. Pure.

Which slice runs on which pool of its own workload does not matter. A pool counts for a need because
it fits, by what GKE lists of it, and never because of its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.pools import PoolStatus
from shared.plan.scene import Asks, Need, Pod, Pool, Queue, Scene
from shared.plan.short import helps_not, is_whole

if TYPE_CHECKING:
    from shared.model.workloads import Taint

Slices = dict[str, list[Pod]]


def fits(pool: Pool, asks: Asks) -> bool:
    """Return whether the nodes of a pool of ours accept pods that ask so."""
    return (
        pool.ours
        and pool.shape == asks.shape
        and asks.labels <= frozenset(pool.node_labels.items())
        and all(_tolerates(asks, taint) for taint in pool.taints if taint.keeps_off)
    )


def _tolerates(asks: Asks, taint: Taint) -> bool:
    """Return whether pods tolerate a taint. GKE adds the toleration to pods that select spot nodes."""
    spot = taint.key == labels.SPOT and (labels.SPOT, "true") in asks.labels
    return spot or any(each.covers(taint) for each in asks.tolerations)


def group_slices(scene: Scene, need: Need) -> Slices:
    """Return the live pods of a need by the key of their slice."""
    slices: Slices = {}
    for pod in scene.pods:
        if pod.need == need.key and not pod.terminating:
            slices.setdefault(pod.slice, []).append(pod)
    return slices


def read_asks(need: Need, pods: list[Pod]) -> Asks:
    """Return what a slice asks: the words of the spec and what its live pods add."""
    return need.asks.union(tuple(pod.asks for pod in pods))


def find_places(pods: list[Pod]) -> set[str]:
    """Return the pools on which pods run."""
    return {pod.pool for pod in pods if pod.pool}


def is_mixed(pods: list[Pod]) -> bool:
    """Return whether the pods of one slice run on several pools."""
    return len(find_places(pods)) > 1


def list_elsewhere(scene: Scene, pods: list[Pod]) -> list[Pod]:
    """Return the pods that run on pools that are not ours."""
    ours = {pool.name for pool in scene.pools if pool.ours}
    return [pod for pod in pods if pod.pool and pod.pool not in ours]


def list_counted(scene: Scene, need: Need) -> list[Pool]:
    """Return the pools that count for a need: they fit, and they help or are on their way."""
    left_out = find_taken(scene, need)
    return [
        pool
        for pool in scene.pools
        if fits(pool, need.asks)
        and pool.status != PoolStatus.STOPPING
        and pool is not left_out
        and not helps_not(pool, need, list_served(pool, scene, need), scene)
    ]


def find_taken(scene: Scene, need: Need) -> Pool | None:
    """Return the one pool that only pods of others use and that is left out of the count.

    At most one is, in both functions alike, so that no stranger can make a workload buy twice. None
    is while a workload that uses it has a pool on its way.
    """
    if need.elastic or scene.takers_served:
        return None
    users = {
        name: [pod for pod in scene.pods if pod.pool == name]
        for name in find_places(list(scene.pods))
    }
    taken = [
        pool
        for pool in scene.pools
        if fits(pool, need.asks)
        and users.get(pool.name)
        and not any(pod.need for pod in users[pool.name])
    ]
    return min(taken, key=lambda pool: pool.name, default=None)


def list_served(pool: Pool, scene: Scene, need: Need) -> list[Pod]:
    """Return the waiting pods that a pool is to serve: their slice is on it, or on none."""
    users = {pod.slice for pod in scene.pods if pod.pool == pool.name}
    return [
        pod
        for key, pods in group_slices(scene, need).items()
        if users <= {key} and find_places(pods) <= {pool.name} and fits(pool, read_asks(need, pods))
        for pod in pods
        if pod.waits
    ]


def count_to_keep(scene: Scene, need: Need) -> int:
    """Return how many pools the workload may use: its slices, less those that run elsewhere."""
    slices = group_slices(scene, need).values()
    return need.most - sum(len(list_elsewhere(scene, pods)) >= need.hosts for pods in slices)


def list_demands(scene: Scene, need: Need) -> list[list[Pod]]:
    """Return the slices that need a pool now: they run on a counted one, or a pod of them waits.

    A queued workload with quota has no pods yet: then it is each slice that its Workload admits.
    """
    if scene.queue == Queue.QUOTA and scene.suspended_since is not None:
        return [[] for _ in range(need.most)]
    counted = {pool.name for pool in list_counted(scene, need)}
    return [
        pods
        for pods in group_slices(scene, need).values()
        if find_places(pods) & counted
        or (
            any(pod.waits for pod in pods)
            and not is_mixed(pods)
            and not list_elsewhere(scene, pods)
        )
    ]


def list_lacking(scene: Scene, need: Need) -> list[Asks]:
    """Return what each slice asks that no pool counts for; those that run come first."""
    demands = list_demands(scene, need)
    asked = [
        read_asks(need, pods)
        for pods in sorted(
            demands, key=lambda pods: (not find_places(pods), -len(read_asks(need, pods).labels))
        )
    ]
    most = min(len(demands), count_to_keep(scene, need))
    unmet, _ = assign(asked[: max(0, most)], list_counted(scene, need))
    return [asks for asks, pool in unmet if pool is None]


def assign(
    asked: list[Asks], pools: list[Pool]
) -> tuple[list[tuple[Asks, Pool | None]], list[Pool]]:
    """Return the slices that no whole pool serves, and the pools that are left over.

    Each pool serves one slice. A slice whose pool is not whole yet is named with it.
    """
    unmet: list[tuple[Asks, Pool | None]] = []
    left = list(pools)
    for asks in asked:
        pool = next((each for each in left if fits(each, asks)), None)
        if pool is not None:
            left.remove(pool)
        if pool is None or not is_whole(pool):
            unmet.append((asks, pool))
    return unmet, left
