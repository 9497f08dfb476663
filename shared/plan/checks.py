"""The answer of Kueue's admission check: ready, a pause, refused, or wait. Pure.

All or nothing is Kueue's: a workload is resumed when each of its slices has a whole pool. A part of
them is held for a time and then given back, so that two workloads never hold halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.decisions import Reason
from shared.plan.attempts import may_use
from shared.plan.short import is_whole

if TYPE_CHECKING:
    from shared.plan.counting import Census, Slice
    from shared.plan.scene import Pool


def decide_check(census: Census) -> Reason | None:
    """Return what Kueue is told about a workload with quota; None while it waits.

    With another flavor a workload may still be served, so only its spec itself is refused.
    """
    never = [need.never for need in census.scene.needs if need.never]
    if any(not each.of_flavor for each in never):
        return Reason.CHECK_REJECTED
    if not never and is_complete(census):
        return Reason.CHECK_READY
    retries = never or not _may_come(census) or _is_held_for_long(census)
    return Reason.CHECK_RETRY if retries else None


def _may_come(census: Census) -> bool:
    """Return whether each need has a way that serves before its pods exist."""
    return all(any(may_use(census, way) for way in need.ways) for need in census.scene.needs)


def _is_held_for_long(census: Census) -> bool:
    """Return whether a part of the pools was held for its time."""
    since, now = census.scene.part_held_since, census.scene.now
    held = since is not None and now - since >= census.scene.part_seconds
    return held and bool(census.counted)


def is_complete(census: Census) -> bool:
    """Return whether each slice of a queued workload has a pool with all of its nodes."""
    kept = census.kept
    return not kept.unserved and all(_is_full(want, pool) for want, pool in kept.served)


def _is_full(want: Slice, pool: Pool) -> bool:
    return is_whole(pool) and (pool.ready or 0) >= (want.need.nodes or 0)
