"""``python -m tests.simulation SEEDS``: runs scenarios, prints figures, and tells a failing one.

``0:1000`` runs a thousand scenarios. ``17`` tells the scenario of one seed, line by line.
"""

import argparse
import sys
import time
from contextlib import nullcontext

from tests.simulation.safeties import SAFETIES
from tests.simulation.sim_run import NOTHING, Figures, run_campaign, tell_scenario


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("seeds", type=seeds, help="one seed, or FIRST:END")
    parser.add_argument("--processes", type=int, help="default: one for each core")
    parser.add_argument("--whole", action="store_true", help="do not make the scenario of one seed short")
    parser.add_argument("--without", choices=SAFETIES, help="break the product first: a safety of safeties.yaml")
    options = parser.parse_args()
    with SAFETIES[options.without].missing() if options.without else nullcontext():
        if isinstance(options.seeds, range):
            return _run(options.seeds, options.processes)
        lines = tell_scenario(options.seeds, short=not options.whole)
        _say("\n".join(lines))
        return int(lines[-1].strip() != NOTHING)


def seeds(text: str) -> int | range:
    """Return one seed, or a range of seeds that is not empty."""
    first, colon, end = text.rpartition(":")
    if colon and int(first or 0) >= int(end):
        raise argparse.ArgumentTypeError(f"FIRST is below END (got {text!r})")
    return range(int(first or 0), int(end)) if colon else int(text)


def _run(seeds: range, processes: int | None) -> int:
    """Run many scenarios, and tell each new violation and the rate as they come."""
    began, figures, known = time.monotonic(), Figures(), set[str]()
    for figures in run_campaign(seeds, processes):
        for text in figures.violated.keys() - known:
            known.add(text)
            _say(f"VIOLATED in scenario {figures.violated[text][0]}: {text}")
        rate = figures.scenarios / (time.monotonic() - began)
        _say(f"{figures.scenarios:,} of {len(seeds):,} scenarios, {rate:.0f}/s, {len(known)} kinds of violations")
    rate = figures.scenarios / max(figures.seconds, 0.001)
    _say(f"seeds {seeds.start} to {seeds.stop - 1}, {rate:.0f} scenarios per second of one processor")
    for name, count in sorted(figures.counts.items()):
        _say(f"  {count:,} {name}")
    for text, violating in sorted(figures.violated.items(), key=lambda each: -len(each[1])):
        _say(f"VIOLATED in {len(violating):,} scenarios, first in {violating[0]}: {text}")
    return 1 if figures.violated else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
