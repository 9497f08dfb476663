"""Passes many spoilt inputs over the borders: ``python -m tests.fuzz --inputs=1000000``."""

import argparse
import sys
import time
import traceback

from tests.fuzz.border import Border, Finding, fuzz
from tests.fuzz.borders import BORDERS
from tests.fuzz.spoiling import Recipe
from tests.numbers_given import parse_count

BATCH = 20_000
"""Hypothesis remembers each input of a run, so a large run is many small ones."""
_SHOWN_CHARACTERS_MAX = 4_000


def main() -> int:
    """Return 1 if an input ended in an undocumented way, else 0."""
    options = _read_options()
    borders = [each for each in BORDERS if options.border in ("", each.name)]
    findings = 0
    began = time.monotonic()
    total = sum(each.share for each in borders)
    for border in borders:
        wanted = round(options.inputs * border.share / total)
        findings += _run(border, wanted, options.seed)
    _say(f"{options.inputs} inputs, {findings} findings, {time.monotonic() - began:.0f} s")
    return 1 if findings else 0


def _run(border: Border, wanted: int, first_seed: int) -> int:
    """Pass inputs over one border; return the number of findings, at most 1."""
    taken, began = 0, time.monotonic()
    while taken < wanted:
        found = fuzz(border, min(BATCH, wanted - taken), first_seed)
        if isinstance(found, Finding):
            _show(found)
            return 1
        taken, first_seed = taken + found, first_seed + 1
        _say(f"{border.name}: {taken} of {wanted} inputs, {time.monotonic() - began:.0f} s")
    return 0


def _show(found: Finding) -> None:
    shown = found.border.show(found.border.build(Recipe(found.recipe)))
    cut = f"… ({len(shown)} characters)" if len(shown) > _SHOWN_CHARACTERS_MAX else ""
    error = "".join(traceback.format_exception(found.error)).partition("Failing test case")[0]
    _say(f"FINDING at the border {found.border.name}:\n{shown[:_SHOWN_CHARACTERS_MAX]}{cut}\n{error.rstrip()}")


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=parse_count, default=20_000, help="how many, over all borders")
    parser.add_argument("--border", default="", choices=["", *(each.name for each in BORDERS)])
    parser.add_argument("--seed", type=parse_count, default=1, help="of the first batch; each batch has the next")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
