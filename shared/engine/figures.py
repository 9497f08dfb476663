"""What a tick measures of a cluster, for the operator's alerts and charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.engine.reconcile import Role
from shared.model.decisions import Verdict
from shared.model.pools import PAID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.engine.look import Lists, Look
    from shared.engine.report import Outcome


def measure(
    role: Role, lists: Lists, told: Iterable[tuple[Look, Sequence[Outcome]]]
) -> dict[str, int]:
    """Return the figures of one tick: of demands in `provision`, of pools in `collect`."""
    return _measure_pools(lists) if role == Role.COLLECT else _measure_demands(told)


def _measure_demands(told: Iterable[tuple[Look, Sequence[Outcome]]]) -> dict[str, int]:
    """Count the workloads that wait and are not refused: GKE has not provided what they lack."""
    waits = []
    for look, outcomes in told:
        since = [pod.created_at for pod in look.scene.pods if pod.waits]
        if since and all(each.decision.verdict != Verdict.REFUSE for each in outcomes):
            waits.append(look.scene.now - min(since))
    return {"waiting_demands": len(waits), "oldest_wait_seconds": round(max(waits, default=0.0))}


def _measure_pools(lists: Lists) -> dict[str, int]:
    """Count the chips of nodes of ours without an accelerator pod, and all autoscaled pools."""
    idle = [
        pool.units * len(lists.nodes.get(pool.name, ()))
        for pool in lists.pools
        if pool.owner and pool.status in PAID and not lists.users.get(pool.name)
    ]
    return {
        "idle_chips": sum(idle),
        "autoscaled_pools": sum(pool.autoscaled for pool in lists.pools),
    }
