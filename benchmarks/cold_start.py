"""Cold start: CPU from exec to the first handled event, ours against hello world.

The variants take turns, so that a busy neighbour hits all of them alike.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from benchmarks.cloud_stand_in import CloudStandIn
from benchmarks.figures import Figure, compare
from benchmarks.metering import Failed
from benchmarks.served_function import HELLO, OURS, ServedFunction, Site, Variant, demand_push

SECTION = "function: cold start to first handled event (CPU)"


def measure(site: Site, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Return the figures of `runs` alternating cold starts of each variant.

    One round before them is not counted.
    """
    samples: dict[str, list[float]] = defaultdict(list)
    with CloudStandIn() as cloud:
        for run in range(runs + 1):
            for variant in (HELLO, OURS):
                say(f"cold start, round {run} of {runs}: {variant.name}")
                milliseconds = _start_once(variant, cloud, site)
                if run:
                    samples[variant.name].append(milliseconds)
    return compare_variants(SECTION, samples, HELLO, [(OURS, "cold_start")])


def compare_variants(
    section: str, samples: Mapping[str, list[float]], floor: Variant, others: Iterable[tuple[Variant, str]]
) -> list[Figure]:
    """Return the milliseconds of a variant, and of others beside it, each with its budget."""
    base = samples[floor.name]
    return [
        compare(section, floor.name, "ms", float, base),
        *(compare(section, each.name, "ms", float, samples[each.name], base, key) for each, key in others),
    ]


def _start_once(variant: Variant, cloud: CloudStandIn, site: Site) -> float:
    """Return the CPU milliseconds of one cold start.

    Raises Failed: the event did not lead to exactly the creates that it should.
    """
    cloud.take_counts()
    with ServedFunction(variant, site, cloud.environment()) as function:
        function.push(demand_push())
        used = function.process.consumption()
    counts = cloud.take_counts()
    check_creates(variant, counts["create"], events=1)
    return used.cpu_seconds * 1_000


def check_creates(variant: Variant, creates: int, *, events: int) -> None:
    """Raise `Failed` unless every event led to the creates that it should."""
    if creates != variant.creates * events:
        raise Failed(f"{variant.name}: {creates} creates for {events} events, not {variant.creates} each")
