"""``python -m tests.simulation SEEDS``: runs scenarios, prints figures, and tells a failing one.

``0:1000`` runs a thousand scenarios. ``17`` tells the scenario of one seed, line by line.
"""

import argparse
import re
import sys
import time
from contextlib import nullcontext

from tests.numbers_given import parse_count
from tests.simulation.campaigns import NOTHING, Figures, run_campaign, tell_scenario
from tests.simulation.safeties import SAFETIES

PROGRESS_SECONDS = 20.0


def main() -> int:
    """Run the simulator; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="tests.simulation", description=__doc__)
    parser.add_argument("seeds", type=_parse_seeds, help="one seed, or FIRST:END")
    parser.add_argument("--processes", type=parse_count, default=None, help="default: one for each core")
    parser.add_argument("--whole", action="store_true", help="do not make the scenario of one seed short")
    parser.add_argument("--without", choices=SAFETIES, help="break the product first: a safety of safeties.yaml")
    options = parser.parse_args()
    with SAFETIES[options.without].missing() if options.without else nullcontext():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    if isinstance(options.seeds, int):
        lines = tell_scenario(options.seeds, short=not options.whole)
        _say("\n".join(lines))
        return int(lines[-1].strip() != NOTHING)
    seeds, began = options.seeds, time.monotonic()
    figures = run_campaign(seeds, _Progress(len(seeds)).note, options.processes)
    return _report(figures, seeds, time.monotonic() - began)


def _parse_seeds(text: str) -> int | range:
    """Return one seed, or a range of seeds that is not empty."""
    found = re.fullmatch(r"(\d{1,9})|(\d{0,9}):(\d{1,9})", text)
    if found and found[1]:
        return int(found[1])
    if found and int(found[2] or 0) < int(found[3]):
        return range(int(found[2] or 0), int(found[3]))
    raise argparse.ArgumentTypeError(
        f"no scenario has such a seed (got {text!r}); valid: one seed, or FIRST:END with FIRST below END"
    )


class _Progress:
    """Says now and then how far a campaign is."""

    def __init__(self, scenarios: int) -> None:
        self._scenarios, self._began, self._said_at = scenarios, time.monotonic(), time.monotonic()
        self._told: set[str] = set()

    def note(self, figures: Figures) -> None:
        for text in figures.violated.keys() - self._told:
            self._told.add(text)
            _say(f"VIOLATED in scenario {figures.violated[text][0]}: {text}")
        now = time.monotonic()
        if now - self._said_at >= PROGRESS_SECONDS:
            self._said_at = now
            rate = figures.scenarios / (now - self._began)
            count = sum(map(len, figures.violated.values()))
            _say(f"{figures.scenarios:,} of {self._scenarios:,} scenarios, {rate:.0f}/s, {count} violations")


def _report(figures: Figures, seeds: range, seconds: float) -> int:
    _say(f"{figures.scenarios:,} scenarios, seeds {seeds.start} to {seeds.stop - 1}, in {seconds:.0f} s")
    _say(f"  {figures.scenarios / max(figures.seconds, 0.001):.0f} scenarios per second of one processor")
    for name, count in sorted(figures.counts.items()):
        _say(f"  {count:,} {name}")
    for text, found in sorted(figures.violated.items(), key=lambda each: -len(each[1])):
        _say(f"VIOLATED in {len(found):,} scenarios, first in {found[0]}: {text}")
    return 1 if figures.violated else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
