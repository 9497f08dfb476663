"""The answer of Kueue's admission check: ready, a pause, refused, or wait. Pure.

All or nothing is Kueue's: a workload is resumed when each of its slices has a whole pool. A part of
them is held for a time and then given back, so that two workloads never hold halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.decisions import Reason
from shared.plan.counting import list_counted
from shared.plan.short import is_whole

if TYPE_CHECKING:
    from shared.plan.scene import Scene


def decide_check(scene: Scene) -> Reason | None:
    """Return what Kueue is told about a workload with quota; None while it waits."""
    if any(need.never for need in scene.needs):
        return Reason.CHECK_REJECTED
    counted = {need.key: list_counted(scene, need) for need in scene.needs}
    if all(sum(map(is_whole, counted[need.key])) >= need.most for need in scene.needs):
        return Reason.CHECK_READY
    held = (
        scene.part_held_since is not None
        and scene.now - scene.part_held_since >= scene.part_seconds
    )
    return Reason.CHECK_RETRY if held and any(counted.values()) else None
