"""Warm events: memory, and CPU per event of a started function, against one that does nothing.

One kept connection, one event after the other: the framework's own cost per event is the same for
all.
"""

from collections import defaultdict
from collections.abc import Callable

from benchmarks.cloud_stand_in import CloudStandIn
from benchmarks.cold_start import check_creates
from benchmarks.figures import Figure
from benchmarks.metering import Consumption
from benchmarks.served_function import HELLO, NOOP, OURS, ServedFunction, Site, Variant, demand_push

SECTION = "function: warm event (CPU)"
MEMORY_SECTION = "function: memory after the warm events"
EVENTS = 300
WARMING_EVENTS = 30
ONE_CALL = Variant(name="one GKE call only", source="one_call.py")
WHOLE = Variant(name="the whole provision event, 6 calls (ours)", source="main.py")
VARIANTS = (ONE_CALL, WHOLE)


def measure(cloud: CloudStandIn, site: Site, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of `runs` alternating runs of a few hundred events each."""
    events: dict[str, list[float]] = defaultdict(list)
    memory: dict[str, list[Consumption]] = defaultdict(list)
    for run in range(runs):
        for variant in (NOOP, *VARIANTS, HELLO):
            say(f"warm events, round {run + 1} of {runs}: {variant.name}")
            milliseconds, used = _run_once(variant, cloud, site)
            events[variant.name].append(milliseconds)
            memory[variant.name].append(used)
    floor = tuple(events[NOOP.name])
    figures = [Figure(section=SECTION, what=NOOP.name, unit="ms", samples=floor)]
    figures += [
        Figure(
            section=SECTION,
            what=variant.name,
            unit="ms",
            samples=tuple(events[variant.name]),
            baseline=floor,
            budget_key="warm_event" if variant is WHOLE else "",
        )
        for variant in VARIANTS
    ]
    return figures + _memory_figures(memory)


def _memory_figures(memory: dict[str, list[Consumption]]) -> list[Figure]:
    used, floor = memory[WHOLE.name], memory[HELLO.name]
    return [
        Figure(
            section=MEMORY_SECTION,
            what=f"{OURS.name}: peak resident size of a process",
            unit="MiB",
            samples=tuple(each.peak_mebibytes for each in used),
            baseline=tuple(each.peak_mebibytes for each in floor),
            budget_key="function_memory",
        ),
        Figure(
            section=MEMORY_SECTION,
            what=f"{OURS.name}: what the instance is charged, gunicorn's master included",
            unit="MiB",
            samples=tuple(each.charged_mebibytes for each in used),
            baseline=tuple(each.charged_mebibytes for each in floor),
        ),
    ]


def _run_once(variant: Variant, cloud: CloudStandIn, site: Site) -> tuple[float, Consumption]:
    """Return CPU milliseconds per event, and what the processes had used in the end."""
    bodies = [demand_push(number) for number in range(WARMING_EVENTS + EVENTS)]
    with ServedFunction(variant, site, cloud.environment()) as function:
        for body in bodies[:WARMING_EVENTS]:
            function.push(body)
        cloud.take_counts()
        before = function.process.consumption()
        for body in bodies[WARMING_EVENTS:]:
            function.push(body)
        after = function.process.consumption()
        check_creates(variant, cloud.take_counts()["create"], events=EVENTS)
    return (after.cpu_seconds - before.cpu_seconds) * 1_000 / EVENTS, after
