"""Many leaders unschedulable at once, under a limit of GKE's operations: how soon all are answered.

The shortest possible is known: GKE accepts as many creates as the limit at once, and one more when
one of them ends. No node comes up, so the cluster's scheduler has nothing to do, and no leader
takes the pool of another one.
"""

from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, compare
from benchmarks.recording import CREATE, NEVER_SECONDS, Call, Recorder, build_jobset, find_accepted, write_faults
from demo.settings import StackSettings
from demo.stack import Stack

SECTION = "fan-out: leaders of one host at once, virtual time; the baseline is the shortest possible"
OPERATION_SECONDS, PENDING_SECONDS = 60.0, 1.0
ROUNDS, QUICK_ROUNDS = 8, 5
"""Leaders for each operation that may run. More take so long that the first pools are replaced."""
SPEEDS = {100: 3.0, 20: 8.0, 5: 8.0}
"""The limits, each with virtual seconds per real second: at the best 3 to 5 creates are accepted in
a second, which two cores can do."""
QUICK_LIMIT = 5
_JOBS_MAX = 100  # slices of one JobSet
_SECONDS_MAX = 3_600.0


def measure(folder: Path, say: Callable[[str], None], *, quick: bool) -> list[Figure]:
    """Return the figures of each limit."""
    rounds, limits = (QUICK_ROUNDS, (QUICK_LIMIT,)) if quick else (ROUNDS, tuple(SPEEDS))
    budget = "" if quick else "fan_out"
    return [figure for limit in limits for figure in _measure(limit, rounds, folder / str(limit), say, budget)]


def find_shortest(leaders: int, limit: int) -> float:
    """Return the shortest time until the last of so many creates can be accepted."""
    rounds = -(-leaders // limit) - 1
    return rounds * (OPERATION_SECONDS + PENDING_SECONDS)


def _measure(limit: int, rounds: int, folder: Path, say: Callable[[str], None], budget: str) -> list[Figure]:
    faults = write_faults(
        folder / "faults.json",
        operation_seconds=OPERATION_SECONDS,
        faults=[
            *({"switch": switch, "value": limit} for switch in ("max_running_ops", "max_inflight_ops")),
            {"switch": "late_nodes", "nodes": 1, "seconds": NEVER_SECONDS},
        ],
        timings={"pending": [PENDING_SECONDS, PENDING_SECONDS]},
        release_channel="UNSPECIFIED",
    )
    speed, leaders = SPEEDS[limit], rounds * limit

    def look(calls: list[Call]) -> bool:
        accepted = len(find_accepted(calls, CREATE))
        say(f"fan-out, limit {limit}: {accepted} of {leaders} creates accepted")
        return accepted >= leaders

    with Stack(folder / "stack", StackSettings(speed=speed, faults=faults)) as stack, Recorder(stack) as recorder:
        firsts = range(0, leaders, _JOBS_MAX)
        sizes = {first: min(_JOBS_MAX, leaders - first) for first in firsts}
        recorder.apply([build_jobset(f"crowd-{each}", sizes[each], hosts=1, topology="2x2") for each in firsts])
        calls = recorder.follow(_SECONDS_MAX, look)
        began = min(recorder.unschedulable_at.values())
    last = (max(find_accepted(calls, CREATE).values()) - began) * speed
    refused = sum(each.method == CREATE and each.code == "RESOURCE_EXHAUSTED" for each in calls)
    what, shortest = f"{leaders} leaders, {limit} operations", [find_shortest(leaders, limit)]
    return [
        compare(SECTION, f"last create, {what}", "s", float, [last], floor=shortest, budget=budget),
        compare(SECTION, f"refused creates, {what}", "", float, [refused]),
    ]
