"""Violations that are known and not mended yet. A row goes when its seed no longer shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.sim_judge import Violation


@dataclass(frozen=True, slots=True)
class Known:
    """One finding."""

    name: str
    """Short, for the report."""
    pattern: str
    """What ``invariant: text`` has in it, as a regular expression."""
    sentence: str
    """What is wrong, and why it stays for now."""
    seed: int
    """A story that shows it."""

    def covers(self, violation: Violation) -> bool:
        """Return whether a violation is this finding."""
        return re.search(self.pattern, f"{violation.invariant}: {violation.text}") is not None


KNOWN: tuple[Known, ...] = (
    Known(
        name="part of an elastic pool",
        pattern=r"served when there is capacity: \[pool_degraded\].*ERROR, \d+ of \d+ nodes used by own",
        sentence=(
            "GKE made a part of the nodes and gave up. The pods that wait get no pool of the next way, because "
            "only pools without errors share the nodes of an elastic pool."
        ),
        seed=202,
    ),
    Known(
        name="gang in a way that is too small",
        pattern=r"served when there is capacity: .*\[gang_incomplete\]'? is the last word for .*there is room",
        sentence=(
            "A way has machines for a part of a gang. The part that is given back lets the creation of the slice "
            "that starves come good late, so no creation fails, and the next way is never tried."
        ),
        seed=736,
    ),
    Known(
        name="gang that came late",
        pattern=r"gangs: .* is given back, and all slices have their pools",
        sentence=(
            "The last slice gets its machines after its round was ended. All pools are given back then, although "
            "no slice lacks one by that time."
        ),
        seed=1387,
    ),
    Known(
        name="gang whose rounds end before the second way",
        pattern=r"served when there is capacity: .*\[pool_in_use\]'? is the last word for .*there is room",
        sentence=(
            "Others use a pool of a gang, so it counts as held from the begin of each round. With rare sweeps the "
            "round ends before the second way is tried, and the next round begins with the first way again."
        ),
        seed=4876,
    ),
    Known(
        name="empty pool beside one that others use",
        pattern=r"served when there is capacity: \[stockout\] is the last word for .*RUNNING used by other",
        sentence=(
            "Another slice uses the pool of a slice, which gets one more pool of the same way. If that one stays "
            "empty it is deleted, and the next way is not tried, because the first pool lives."
        ),
        seed=3154,
    ),
    Known(
        name="two pools after a duplicate",
        pattern=r"one way: .* of one slice have nodes for a minute",
        sentence=(
            "Two messages at once made pools of two ways, the autoscaler fills both, and only the first one is "
            "looked at while a pod of the slice waits."
        ),
        seed=4306,
    ),
    Known(
        name="machine that comes within the last seconds",
        pattern=r"machines kept: .* is deleted as its nodes come: they were read [0-3] s ago",
        sentence=(
            "Between the second look at the machines and the delete are the reads of owner, pods, proof and stop. "
            "A machine that comes in these seconds is deleted with its pool; no pod ran on it."
        ),
        seed=4823,
    ),
    Known(
        name="empty pool beside one that is short",
        pattern=(
            r"every demand answered: \[pool_absent\] is the last word for .*"
            r"another pool of the workload short"
        ),
        sentence=(
            "A slice gets one more pool because others use its own. As long as that one is empty, the Event "
            "names the creation, and not what keeps it empty."
        ),
        seed=4996,
    ),
    Known(
        name="pool from before a round",
        pattern=r"gangs: .* of part is held for \d+ s, and only \d+ of its slices have pools",
        sentence=(
            "A pool that ran before the round began counts as held only 35 minutes after its creation, because "
            "it is taken for one that came late."
        ),
        seed=1001111,
    ),
)


def find_known(violation: Violation) -> Known | None:
    """Return the finding that a violation is; None for a new one."""
    return next((known for known in KNOWN if known.covers(violation)), None)
