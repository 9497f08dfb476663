"""Warm events: memory, and CPU per event of a started function, against one that does nothing.

One kept connection, one event after the other: the framework's own cost per event is the same for
all.
"""

from collections import defaultdict
from collections.abc import Callable

from benchmarks.cloud_stand_in import CloudStandIn
from benchmarks.cold_start import check_creates, compare_variants
from benchmarks.figures import Figure, compare
from benchmarks.metering import Consumption
from benchmarks.served_function import HELLO, NOOP, OURS, ServedFunction, Site, Variant, demand_push

SECTION = "function: warm event (CPU)"
MEMORY_SECTION = "function: memory after the warm events"
EVENTS = 300
WARMING_EVENTS = 30
WHOLE = Variant(name="the whole provision event (ours)", source="main.py")


def measure(site: Site, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of `runs` alternating runs of a few hundred events each."""
    events: dict[str, list[float]] = defaultdict(list)
    memory: dict[str, list[Consumption]] = defaultdict(list)
    with CloudStandIn() as cloud:
        for run in range(runs):
            for variant in (NOOP, WHOLE, HELLO):
                say(f"warm events, round {run + 1} of {runs}: {variant.name}")
                milliseconds, used_once = _run_once(variant, cloud, site)
                events[variant.name].append(milliseconds)
                memory[variant.name].append(used_once)
    used, floor = memory[WHOLE.name], memory[HELLO.name]
    peak = f"{OURS.name}: peak resident size of a process"
    charged = f"{OURS.name}: what the instance is charged, gunicorn's master included"
    return [
        *compare_variants(SECTION, events, NOOP, [(WHOLE, "warm_event")]),
        compare(MEMORY_SECTION, peak, "MiB", lambda each: each.peak_mebibytes, used, floor, "function_memory"),
        compare(MEMORY_SECTION, charged, "MiB", lambda each: each.charged_mebibytes, used, floor),
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
