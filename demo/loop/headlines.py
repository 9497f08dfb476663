"""The numbers that a report begins with. Pure.

What our functions do happens in real time, and what GKE does at the speed of its clock: so the
demand counts in real seconds, and the rest in virtual ones.
"""

from dataclasses import dataclass
from statistics import median

from demo.loop.run_outcome import Outcome
from demo.loop.states import SliceTimeline
from demo.loop.steps import Step
from demo.loop.stretches import Phase, list_stretches
from shared.shapes.catalogue import GPUS, TPUS

_CHIPS = {
    each.name: each.chips
    for family in (*TPUS.values(), *GPUS.values())
    if not family.attached_cpus
    for each in family.machines
}
"""Chips of one node. An N1 machine says nothing about the GPUs that are attached to it."""
_MINUTE = 60.0
_LATE_SECONDS = 2.0
"""A step is seen so late at most; a pool that was there before is another slice's."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds over the slices that got so far."""

    median: float
    longest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Headlines:
    """The headline numbers of one run."""

    slices: int
    running: int
    """How many of them ran."""
    demand_to_create: Spread | None
    """From the unschedulable leader to GKE's first acceptance, in real seconds; None if there was
    none."""
    create_to_running: Spread | None
    """From there until all pods ran, in virtual seconds, failed creations included."""
    paid: float
    """Chip minutes of the nodes that were there, in virtual time."""
    run: float
    """Chip minutes of slices whose pods all ran."""
    calls_per_slice: float
    """Calls to GKE that name a pool, the refused ones included."""


def find_headlines(outcome: Outcome) -> Headlines:
    """Return the headline numbers of a run."""
    timeline = outcome.timeline
    slices = list(timeline.slices.values())
    made = {pool: one.creation for one in slices if one.creation for pool in one.pools}
    chips = {pool: _CHIPS.get(each.machine_type, 0) for pool, each in made.items()}
    lives = [(each, each.ended_at or outcome.ended_at) for each in timeline.nodes_seen]
    paid = sum(chips.get(life.pool, 0) * max(0.0, end - life.began_at) for life, end in lives)
    run = 0.0
    for one in slices:
        pool = one.leader_pool or one.pool  # its own may have failed, and it runs on another slice's
        hosts = min(one.pods, made[pool].node_count) if pool in made else 0
        stretches = list_stretches(one, timeline, outcome.ended_at)
        seconds = sum(each.end - each.start for each in stretches if each.phase is Phase.RUN)
        run += seconds * hosts * chips.get(pool, 0)
    calls = sum(len(each) for each in timeline.calls.values())
    return Headlines(
        slices=len(slices),
        running=sum(Step.RUNNING in one.steps for one in slices),
        demand_to_create=_spread(slices, Step.UNSCHEDULABLE, Step.ACCEPTED, 1.0),
        create_to_running=_spread(slices, Step.ACCEPTED, Step.RUNNING, outcome.speed),
        paid=paid * outcome.speed / _MINUTE,
        run=run * outcome.speed / _MINUTE,
        calls_per_slice=calls / len(slices) if slices else 0.0,
    )


def _spread(slices: list[SliceTimeline], first: Step, last: Step, speed: float) -> Spread | None:
    found = [
        max(0.0, one.steps[last] - one.steps[first]) * speed
        for one in slices
        if first in one.steps and last in one.steps and one.steps[last] > one.steps[first] - _LATE_SECONDS
    ]
    return Spread(median(found), max(found)) if found else None
