"""What becomes of a create that GKE has accepted.

A pool that is created with its nodes is a failure only after some 35 minutes without capacity. GKE
tries all that time, and the pool cannot be deleted. It may come good at any moment. A reservation
answers within a minute. A pool that the autoscaler fills is created empty, in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.pools import PoolStatus

if TYPE_CHECKING:
    from tests.simulation.sim_pool_bodies import Pool
    from tests.simulation.sim_pools import GkePools
    from tests.simulation.sim_scenario import Fault

TRIES_SECONDS = 2104.0
"""How long GKE looks for machines: quoted messages say "after 35m4s" to "after 35m11s"."""
STUCK_SECONDS = 4500.0
EMPTY_SECONDS = 22.0
RESERVED_SECONDS = 40.0
SOON_SECONDS = 120.0
"""A stockout of at most this length is one of quota, which GKE tells within 26 to 51 seconds."""
AGAIN_SECONDS = 150.0  # how often GKE may find machines that have come meanwhile
EXHAUSTED = (
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: The zone '{zone}' does not have enough resources available to "
    "fulfill the request"
)
_NO_QUOTA = (
    "Not all instances running in IGM after 35.2s. Current errors: [GCE_QUOTA_EXCEEDED]: Instance '{pool}-0' "
    "creation failed: Quota 'TPU_LITE_PODSLICE_V5' exceeded. Limit: 0.0 in region us-east5"
)
_FAILED = (
    "Not all instances running in IGM after 35m7s. Expected {size}, running {made}, transitioning {short}. "
    "Current errors: [GCE_STOCKOUT]: Instance '{pool}-0' creation failed: The zone '{zone}' does not have enough "
    "resources available to fulfill the request"
)


def follow_creation(gke: GkePools, pool: Pool, outcome: Fault | None) -> None:
    """Let a creation end in time, with the nodes that there are then."""
    kind, rng, time = outcome.kind if outcome else "", gke.world.rng, gke.world.time
    seconds = 60 + rng.random() * 60
    if kind == "stockout":
        # A stockout of a known length may come good late.
        known = outcome.seconds if outcome else 0.0
        pool.dry_until = time.now + (known or TRIES_SECONDS + 60)
    if not pool.begins:
        end = STUCK_SECONDS if kind == "slow" else EMPTY_SECONDS + 6 * (rng.random() - 0.5)
        time.after(end, lambda: _run(gke, pool))
        return
    soon = kind == "stockout" and pool.dry_until - time.now <= SOON_SECONDS
    if soon or gke.world.faults.fails_soon(pool.cluster):
        answer = _NO_QUOTA.format(pool=pool.name)
        time.after(26 + 25 * rng.random(), lambda: gke.set_status(pool, PoolStatus.ERROR, answer))
        return
    if gke.find_machines(pool, pool.begins) < pool.begins:
        tries = RESERVED_SECONDS if pool.listed.reservation else TRIES_SECONDS
        _try_again(gke, pool, until=time.now + tries + 14 * (rng.random() - 0.5))
        return
    _take_machines(gke, pool)
    if kind == "slow":
        time.after(STUCK_SECONDS, lambda: _run(gke, pool))
    elif kind in ("degraded", "half"):
        time.after(seconds, lambda: _run_half(gke, pool))
        if kind == "degraded":
            time.after(seconds + 200, lambda: _run(gke, pool))
    else:
        time.after(seconds, lambda: _run(gke, pool))


def _take_machines(gke: GkePools, pool: Pool) -> None:
    """Let the group make all machines; they start some seconds later."""
    time = gke.world.time
    pool.granted = pool.asked = pool.begins
    pool.note_machines(time.now, coming=pool.begins)
    time.after(20.0, lambda: pool.note_machines(time.now, made=pool.granted))


def _try_again(gke: GkePools, pool: Pool, *, until: float) -> None:
    """Let GKE look for machines until it gives up."""
    time, rng = gke.world.time, gke.world.rng
    if not gke.is_there(pool) or pool.status != PoolStatus.PROVISIONING:
        return
    if gke.find_machines(pool, pool.begins) >= pool.begins:
        gke.world.tell(f"GKE finds machines for {pool.name} after {time.now - pool.made_at:.0f} s")
        _take_machines(gke, pool)
        time.after(60 + rng.random() * 60, lambda: _run(gke, pool))
    elif time.now >= until:
        _fail(gke, pool)
    else:
        if not pool.machines:
            pool.note_machines(time.now, coming=pool.size)
            time.after(10.0, lambda: pool.note_machines(time.now, error=EXHAUSTED.format(zone=pool.zone)))
        time.at(min(time.now + AGAIN_SECONDS, until), lambda: _try_again(gke, pool, until=until))


def _fail(gke: GkePools, pool: Pool) -> None:
    """Let a creation fail; a part of the machines of GPUs may be there, and stays."""
    some = gke.find_machines(pool, pool.size - 1) if pool.listed.gpus_per_node and pool.size > 1 else 0
    pool.granted = some
    answer = _FAILED.format(size=pool.size, made=some, short=pool.size - some, pool=pool.name, zone=pool.zone)
    pool.note_machines(gke.world.time.now, made=some, error=EXHAUSTED.format(zone=pool.zone))
    gke.set_status(pool, PoolStatus.ERROR, answer)
    if some:
        gke.fill(pool)


def _run(gke: GkePools, pool: Pool) -> None:
    if gke.is_there(pool):
        gke.set_status(pool, PoolStatus.RUNNING)
        gke.fill(pool)


def _run_half(gke: GkePools, pool: Pool) -> None:
    if gke.is_there(pool):
        gke.set_status(pool, PoolStatus.RUNNING_WITH_ERROR, "some nodes did not register")
        gke.fill(pool, pool.size // 2)
