"""``python -m tests.mutants``: breaks the product in small ways, and counts what is noticed."""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from random import Random

from tests.mutants.judging import CAUGHT, Verdict, judge, write_table
from tests.mutants.mutant import Mutant, draw_operators, read_by_hand
from tests.mutants.tests_by_line import Coverage, measure_tests
from tests.mutants.trees import Tree, copy_tree, name_commit, spread

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "build/mutants.json"


def main() -> int:
    """Judge the mutants, print the scores, and write what came of each."""
    parser = argparse.ArgumentParser(prog="tests.mutants", description=__doc__)
    parser.add_argument("--random", type=int, default=300, help="operator mutants; default: 300")
    parser.add_argument("--seed", type=int, default=44, help="of their draw; default: 44")
    parser.add_argument("--sample", type=int, default=0, help="so many by hand, by the tests that they name")
    parser.add_argument("--workers", type=int, default=2, help="copies of the tree; default: 2")
    options = parser.parse_args()
    if options.sample:
        return judge_sample(options.sample, options.workers)
    mutants = read_by_hand(ROOT) + draw_operators(ROOT, options.random, options.seed)
    verdicts = judge_all(mutants, options.workers)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps([asdict(each) for each in verdicts], indent=1))
    _say(*write_table(verdicts))
    return 0


def judge_sample(count: int, workers: int) -> int:
    """Judge mutants by the tests that they name; return 1 if one passes. A commit draws them."""
    named = [each for each in read_by_hand(ROOT) if each.tests]
    sample = Random(name_commit(ROOT)).sample(named, min(count, len(named)))
    with open_trees(workers) as trees:
        verdicts = list(judge_side_by_side(sample, trees, Coverage({})))
    missed = [each.identity for each in verdicts if each.outcome != CAUGHT]
    _say(f"{len(sample) - len(missed)} of {len(sample)} mutants are noticed by the tests that they name")
    _say(*(f"MISSED: {each}" for each in missed))
    return int(bool(missed) or not sample)


def judge_all(mutants: list[Mutant], workers: int) -> list[Verdict]:
    """Judge mutants by all tests that cover their lines, and say what came of each."""
    verdicts: list[Verdict] = []
    with open_trees(workers) as trees:
        _say("which tests cover which line: some minutes")
        for verdict in judge_side_by_side(mutants, trees, measure_tests(trees)):
            verdicts.append(verdict)
            told = f"{verdict.identity}: {verdict.outcome} {verdict.by} {verdict.test}".rstrip()
            _say(f"{len(verdicts)} (of {len(mutants)}) {told}")
    return verdicts


@contextmanager
def open_trees(workers: int) -> Iterator[list[Tree]]:
    """Make copies of a tree, and take them away."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        yield [copy_tree(ROOT, Path(folder) / str(number)) for number in range(workers)]


def judge_side_by_side(mutants: list[Mutant], trees: list[Tree], coverage: Coverage) -> Iterator[Verdict]:
    """Judge mutants, one at a time in each tree."""
    for tree in trees:
        tree.expect_sound()
    yield from spread(trees, lambda mutant, tree: judge(mutant, tree, coverage), mutants)


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
