"""The same work as the Go TPU Provisioner had, and its rows beside ours.

One JobSet of v6e slices of 4x4 chips, in real time: GKE's creates and deletes take 60 s, a call of
create 1.4 s, and 20 operations run at once, as when the rows of `field.yaml` were taken. Those are
of the Go program's own build, unchanged, with its own defaults.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path

import yaml

from benchmarks.figures import Figure, compare
from benchmarks.processes import Failed
from benchmarks.recording import CREATE, DELETE, HOSTS, Call, Recorder, build_jobset, find_accepted, write_faults
from demo.settings import BadSettings, ClusterKind, StackSettings, check_settings
from demo.stack import Stack

SIZES, QUICK_SIZES = (12, 64), (2,)
OPERATION_SECONDS = 60.0
RUN_SECONDS = 30.0  # how long all slices run side by side, before all of their pods succeed
QUICK_SPEED = 30.0
_SECONDS_MAX = 1_800.0
_LINES = (
    ("first create", "s", "first_create", ""),
    ("last create", "s", "last_create", "field_last_create"),
    ("calls of GKE for each slice", "", "calls", "field_calls"),
    ("completed to first delete", "s", "first_delete", "field_first_delete"),
    ("completed to last delete", "s", "last_delete", "field_last_delete"),
)
"""What, its unit, its name in `Row`, and the budget that holds for the largest size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run: from the first unschedulable leader, or from the JobSet's completion, in seconds."""

    first_create: float
    last_create: float
    calls: float
    first_delete: float
    last_delete: float


def measure(folder: Path, say: Callable[[str], None], *, quick: bool) -> list[Figure]:
    """Return the figures of each size, beside the Go program's where there are some.

    On a real control plane, as the rows were taken; a quick run is on the embedded one, and its GKE
    is faster.

    Raises Failed: the control plane is not built, or a run did not come to its end.
    """
    kept = yaml.safe_load(Path(__file__).with_name("field.yaml").read_text(encoding="utf-8"))["go"]
    # The Go program turns upgrades off, and GKE allows that only without a channel.
    faults = write_faults(
        folder / "faults.json", operation_seconds=OPERATION_SECONDS, release_channel="UNSPECIFIED"
    )
    settings = StackSettings(speed=1.0, cluster=ClusterKind.REAL, lease_seconds=0, faults=faults)
    if quick:
        settings = StackSettings(speed=QUICK_SPEED, faults=faults)
    try:
        check_settings(settings)
    except BadSettings as error:
        raise Failed(str(error)) from error
    figures = []
    for slices in QUICK_SIZES if quick else SIZES:
        section = f"field: {slices} slices, {settings.cluster} cluster; the baseline is the Go program's row"
        row = run(slices, folder / str(slices), settings, partial(_tell, say, slices))
        go = [Row(**kept[slices])] if slices in kept else []
        for what, unit, name, budget_key in _LINES:
            key = budget_key if slices == SIZES[-1] else ""
            figures.append(compare(section, what, unit, attrgetter(name), [row], floor=go, budget=key))
    return figures


def run(slices: int, folder: Path, settings: StackSettings, tell: Callable[[list[Call]], None]) -> Row:
    """Return what one JobSet took, from its creation until the last of its pools is gone.

    Raises Failed: it did not come to its end.
    """
    with Stack(folder, settings) as stack, Recorder(stack) as recorder:
        applied_at, end_at = time.time(), math.inf

        def look(calls: list[Call]) -> bool:
            nonlocal end_at
            tell(calls)
            if recorder.count_started() >= slices * HOSTS and math.isinf(end_at):
                end_at = time.time() + RUN_SECONDS / settings.speed
            if time.time() >= end_at and not recorder.over_at:
                recorder.end_pods()
            return len(find_accepted(calls, DELETE)) >= slices and recorder.count_pools() == 0

        recorder.apply([build_jobset(f"field-{slices}", slices)])
        calls = [each for each in recorder.follow(_SECONDS_MAX, look) if each.at >= applied_at]
        creates, deletes = (sorted(find_accepted(calls, each).values()) for each in (CREATE, DELETE))
        begin = min(recorder.unschedulable_at.values())
        reads = sum(each.method.startswith("compute.") for each in calls)
    return Row(
        first_create=creates[0] - begin,
        last_create=creates[-1] - begin,
        # Compute Engine's API has a quota of its own.
        calls=(len(calls) - reads) / slices,
        first_delete=deletes[0] - recorder.over_at,
        last_delete=deletes[-1] - recorder.over_at,
    )


def _tell(say: Callable[[str], None], slices: int, calls: list[Call]) -> None:
    creates, deletes = (len(find_accepted(calls, each)) for each in (CREATE, DELETE))
    say(f"field: {creates} of {slices} creates, {deletes} deletes accepted")
