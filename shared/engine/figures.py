"""What a tick measures of a cluster, for the operator's alerts and charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.engine.reconcile import Role
from shared.model.pools import PAID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.engine.look import Lists
    from shared.engine.work import Work


def measure(role: Role, lists: Lists, works: Iterable[Work]) -> dict[str, int]:
    """Return the figures of one tick: of demands in `provision`, of pools in `collect`."""
    return _measure_pools(lists) if role == Role.COLLECT else _measure_demands(works)


def _measure_demands(works: Iterable[Work]) -> dict[str, int]:
    """Count the workloads that wait and are not refused: GKE has not provided what they lack."""
    waits = []
    for work in works:
        scene = work.look.scene if work.look else None
        since = [pod.created_at for pod in scene.pods if pod.waits] if scene else []
        if scene and since and not work.refused:
            waits.append(scene.now - min(since))
    return {"waiting_demands": len(waits), "oldest_wait_seconds": round(max(waits, default=0.0))}


def _measure_pools(lists: Lists) -> dict[str, int]:
    """Count the chips of nodes of ours without an accelerator pod, and all autoscaled pools."""
    idle = [
        pool.units * len(lists.nodes.get(pool.name, ()))
        for pool in lists.inventory.pools.values()
        if pool.owner and pool.status in PAID and not lists.users.get(pool.name)
    ]
    return {"idle_chips": sum(idle), "autoscaled_pools": lists.inventory.autoscaled}
