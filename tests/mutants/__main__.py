"""``python -m tests.mutants``: breaks the product in small ways, and counts what is noticed."""

import argparse
import json
import pickle
import queue
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from random import Random

from tests.mutants.judging import Verdict, judge, judge_rows
from tests.mutants.mutant import Mutant, draw_operators, read_by_hand
from tests.mutants.scores import CAUGHT, compare, write_table
from tests.mutants.tests_by_line import Coverage, measure_tests
from tests.mutants.trees import Tree, copy_tree, name_commit

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "build/mutants.json"


def main() -> int:
    """Judge the mutants, print the scores, and write what came of each."""
    parser = argparse.ArgumentParser(prog="tests.mutants", description=__doc__)
    parser.add_argument("--tree", type=Path, default=ROOT, help="the repository to measure; default: this one")
    parser.add_argument("--random", type=int, default=300, help="operator mutants; default: 300")
    parser.add_argument("--seed", type=int, default=44, help="of their draw; default: 44")
    parser.add_argument("--only", action="append", help="rows, random, or a group by hand; repeatable")
    parser.add_argument("--sample", type=int, default=0, help="so many by hand, by the tests that they name")
    parser.add_argument("--workers", type=int, default=2, help="copies of the tree; default: 2")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="what came of each; a run goes on there")
    parser.add_argument("--compare", type=Path, help="the output of an earlier run")
    options = parser.parse_args()
    if options.sample:
        return judge_sample(options.tree.resolve(), options.sample, options.workers)
    run = Run(options.tree.resolve(), options.output, options.seed)
    run.judge_all(options.random, options.only, options.workers)
    _say(*write_table(run.verdicts))
    if options.compare:
        _say(*compare(read_verdicts(options.compare), run.verdicts))
    return 0


def judge_sample(root: Path, count: int, workers: int) -> int:
    """Judge mutants by the tests that they name; return 1 if one passes. A commit draws them."""
    named = [each for each in read_by_hand(root) if each.tests]
    sample = Random(name_commit(root)).sample(named, min(count, len(named)))
    with open_trees(root, workers) as trees:
        verdicts = list(judge_side_by_side(sample, trees, Coverage({}, {})))
    missed = [each.identity for each in verdicts if each.outcome != CAUGHT]
    _say(f"{len(sample) - len(missed)} of {len(sample)} mutants are noticed by the tests that they name")
    _say(*(f"MISSED: {each}" for each in missed))
    return int(bool(missed) or not sample)


@contextmanager
def open_trees(root: Path, workers: int) -> Iterator[list[Tree]]:
    """Make copies of a tree, and take them away with what runs in them."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [copy_tree(root, Path(folder) / str(number)) for number in range(workers)]
        yield trees
        for tree in trees:
            tree.close()


def judge_side_by_side(mutants: list[Mutant], trees: list[Tree], coverage: Coverage) -> Iterator[Verdict]:
    """Judge mutants, one at a time in each tree."""
    free: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    for tree in trees:
        tree.expect_sound()
        free.put(tree)

    def work(mutant: Mutant) -> Verdict:
        tree = free.get()
        try:
            return judge(mutant, tree, coverage)
        finally:
            free.put(tree)

    with ThreadPoolExecutor(len(trees)) as pool:
        yield from pool.map(work, mutants)


class Run:
    """What came of the mutants of a tree so far; it is kept in a file, and a run goes on there."""

    def __init__(self, tree: Path, output: Path, seed: int) -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        self._tree, self._output, self._seed = tree, output, seed
        self._commit = name_commit(tree)
        self.verdicts: list[Verdict] = []
        if output.exists() and json.loads(output.read_text())["commit"] == self._commit:
            self.verdicts = read_verdicts(output)

    def judge_all(self, count: int, only: list[str] | None, workers: int) -> None:
        """Judge what was not judged yet."""
        with open_trees(self._tree, workers) as trees:
            coverage = self._measure(trees)
            done = any(each.group.startswith("rows") for each in self.verdicts)
            if not done and (only is None or "rows" in only):
                self._note(judge_rows(trees[0]))
            every = read_by_hand(self._tree) + draw_operators(self._tree, count, self._seed)
            known = {each.identity for each in self.verdicts}
            wanted = [each for each in every if each.identity not in known and (not only or each.group in only)]
            for verdict in judge_side_by_side(wanted, trees, coverage):
                self._note([verdict])
                told = f"{verdict.identity}: {verdict.outcome} {verdict.by} {verdict.test}".rstrip()
                _say(f"{len(self.verdicts)} (of {len(wanted)} and before) {told}")

    def _measure(self, trees: list[Tree]) -> Coverage:
        """Return which tests cover what; it is kept beside the output for a run that goes on."""
        kept = self._output.with_suffix(".coverage")
        if kept.exists():
            commit, coverage = pickle.loads(kept.read_bytes())
            if commit == self._commit and isinstance(coverage, Coverage):
                return coverage
        _say("which tests cover which line: some minutes")
        coverage = measure_tests(trees)
        kept.write_bytes(pickle.dumps((self._commit, coverage)))
        return coverage

    def _note(self, verdicts: list[Verdict]) -> None:
        """Keep what came of some mutants."""
        self.verdicts += verdicts
        mutants = [asdict(each) for each in self.verdicts]
        data = {"commit": self._commit, "seed": self._seed, "mutants": mutants}
        self._output.write_text(json.dumps(data, indent=1))


def read_verdicts(path: Path) -> list[Verdict]:
    """Return what an earlier run found."""
    return [Verdict(**each) for each in json.loads(path.read_text())["mutants"]]


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
