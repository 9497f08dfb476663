"""The model's own account of a scenario: what became of each pool's chips, by the truth.

It looks at every change of the truth and adds up the time since the last one. The log records of
the same scenario are kept beside it, so that what they tell can be compared.
"""

import logging
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from cli.usage.folding import UsageFold
from cli.usage.hours import Hours
from shared.model.pools import PoolStatus
from tests.simulation.sim_process import forget, prepared
from tests.simulation.sim_run import MINUTE_SECONDS, live
from tests.simulation.sim_scenario import START, Scenario
from tests.simulation.sim_scenarios import make_scenario
from tests.simulation.sim_world import World

REST_MINUTES = 40
ALL, ALONE = "all scenarios", "scenarios that are left alone"
SIZELESS, ENDLESS, NAMELESS = "sizeless", "endless", "nameless"
"""Hours of pools that the records do not tell, as the answer says."""
_STANDARD = frozenset(vars(logging.makeLogRecord({})))
_ENDED = (PoolStatus.STOPPING, PoolStatus.ERROR)


Sums = defaultdict[str, float]


@dataclass(slots=True)
class Truth:
    """The account of one scenario, and its log records."""

    chip_hours: Sums = field(default_factory=lambda: defaultdict(float))
    records: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    now: float = START
    _states: dict[str, tuple[Hours, int]] = field(default_factory=dict)
    _born: dict[str, float] = field(default_factory=dict)
    """Chip-hours of the pools on which no pod has run yet."""
    _used: set[str] = field(default_factory=set)

    def look(self, world: World) -> None:
        """Add up what was true since the last look."""
        hours, self.now = (world.time.now - self.now) / 3600, world.time.now
        for key, (what, chips) in self._states.items():
            if key in self._used:
                self.chip_hours[what] += hours * chips
            else:
                self._born[key] = self._born.get(key, 0.0) + hours * chips
        before, self._states = self._states, dict(self._list_states(world))
        for key, (what, _) in self._states.items():
            if what == Hours.USED and key not in self._used:
                self._used.add(key)
                self.chip_hours[Hours.STARTING] += self._born.pop(key, 0.0)
        for key in before.keys() - self._states.keys() - self._used:
            self.chip_hours[Hours.WASTED] += self._born.pop(key, 0.0)
        self._used &= self._states.keys()

    def _list_states(self, world: World) -> Iterator[tuple[str, tuple[Hours, int]]]:
        for cluster, pools in world.gke.pools.items():
            truth = world.clusters[cluster]
            for pool in pools.values():
                own = truth.list_nodes(pool)
                busy = any(not pod.view.finished for pod in truth.list_users(pool))
                gone = pool.status in _ENDED and not (busy and pool.status == PoolStatus.ERROR)
                if not pool.claim_hash or gone:
                    continue
                what = Hours.USED if busy else Hours.IDLE if len(own) >= pool.size else Hours.STARTING
                yield f"{cluster} {pool.name} {pool.made_at}", (what, pool.size * pool.units)

    def conclude(self) -> None:
        """Count what never ran and is still there as starting, because it may run yet."""
        self.chip_hours[Hours.STARTING] += sum(self._born.values())


class _Records(logging.Handler):
    """Keeps every record of the functions with the scenario's time."""

    def __init__(self, truth: Truth, world: World) -> None:
        super().__init__()
        self._truth, self._world = truth, world

    def emit(self, record: logging.LogRecord) -> None:
        fields = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        self._truth.records.append((self._world.time.now, fields | {"message": record.getMessage()}))


@contextmanager
def _recorded(truth: Truth, world: World) -> Iterator[None]:
    """Keep the records of the functions, and look at each change of the truth."""
    note = world.note_change

    def watch() -> None:
        note()
        truth.look(world)

    handler, before = _Records(truth, world), logging.root.manager.disable
    loggers = [logging.getLogger(), logging.getLogger("functions")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(logging.INFO)
    logging.disable(logging.NOTSET)
    try:
        with patch.object(world, "note_change", watch):
            yield
    finally:
        logging.disable(before)
        for each, level in zip(loggers, levels, strict=True):
            each.removeHandler(handler)
            each.setLevel(level)


def observe(seed: int) -> Truth:
    """Return the account of a scenario with a sweep each minute. `prepared` must be on."""
    scenario, truth = make_scenario(seed), Truth()
    world = World(replace(scenario, sweeps=tuple(float(at) for at in range(60, int(scenario.length) + 1, 60))))
    with _recorded(truth, world):
        live(world)
        world.faults.disarm()
        for _ in range(REST_MINUTES):
            world.sweep()
            world.time.run_until(world.time.now + MINUTE_SECONDS)
        truth.look(world)
    world.time.close()
    forget()
    truth.conclude()
    return truth


def read_records(truth: Truth) -> Sums:
    """Return the chip-hours that a scenario's records tell, and the pool-hours that they lack."""
    found = UsageFold(START, lambda _claim, _size: "")
    for at, text in truth.records:
        found.see(at, text)
    account = found.total(truth.now)
    untold = {SIZELESS: account.sizeless_hours, ENDLESS: account.endless_hours, NAMELESS: account.nameless_hours}
    return defaultdict(float, {**account.sum_all().chip_hours, **untold})


def is_left_alone(scenario: Scenario) -> bool:
    """Return whether only the provisioner and GKE change pools, and GKE keeps what it accepts.

    Else a person renames or takes pools, endpoints are swapped, or a pool vanishes. No record of
    the functions says so.
    """
    hands = {act.verb for act in scenario.acts} & {"relabel", "take-name"}
    return (
        not hands and scenario.versions == 1 and not {each.kind for each in scenario.faults} & {"vanish", "swap"}
    )


def compare(seeds: Iterable[int]) -> dict[str, tuple[Sums, Sums]]:
    """Return the chip-hours of all scenarios, and of those that are left alone.

    First by the model, then by the records. `prepared` must be on.
    """
    found: dict[str, tuple[Sums, Sums]] = {name: (Sums(float), Sums(float)) for name in (ALL, ALONE)}
    for seed in seeds:
        truth = observe(seed)
        told = read_records(truth)
        for name in (ALL, ALONE) if is_left_alone(make_scenario(seed)) else (ALL,):
            for into, more in zip(found[name], (truth.chip_hours, told), strict=True):
                for key, value in more.items():
                    into[key] += value
    return found


def main() -> None:
    """Print the sums of the scenarios of ``FIRST:END``."""
    first, _, end = sys.argv[1].partition(":")
    with prepared():
        for name, (model, told) in compare(range(int(first), int(end))).items():
            print(f"{name}: {sum(model.values()):.1f} chip-hours")  # noqa: T201 -- what it is for
            for part in (*Hours, SIZELESS, ENDLESS, NAMELESS):
                print(f"  {part:12} model {model[part]:10.2f}   records {told[part]:10.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
