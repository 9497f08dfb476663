"""What notices a mutant: the tests that cover its line, and for rules and engine the simulator."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.mutants.mutant import Mutant
from tests.mutants.tests_by_line import SUITES, Coverage
from tests.mutants.trees import Tree

_IN_MEMORY = ("tests/rules/", "tests/engine/")
_FIRST_TESTS = 40  # so many tests are run first: most mutants fail in them
_TESTS_MAX = 400  # or all that run in memory, which are quick: one that is left out may be the one that notices
_TESTS_SECONDS_MAX = 180.0  # how long they may compute. A mutant may let a test go on for ever.
_STORIES_SECONDS_MAX = 120.0
_SIMULATED = tuple(f"shared/{room}/" for room in ("model", "kinds", "shapes", "needs", "plan", "engine"))
_SIMULATE = """
import sys
from tests.simulation.sim_run import run_seeds
sys.exit(any(run_seeds(range(first, first + 25)).violated for first in range(0, 300, 25)))
"""
CAUGHT = "caught"
_NOT_FOUND, _COLLECTION_FAILED, _NO_TEST = 4, (2, 3, 4), 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a mutant."""

    group: str
    name: str
    package: str
    outcome: str  # `caught`, `survived` or `not covered`
    by: str = ""  # the suite that noticed it
    test: str = ""

    @property
    def identity(self) -> str:
        """That of the mutant."""
        return f"{self.group}: {self.name}"


def judge(mutant: Mutant, tree: Tree, coverage: Coverage) -> Verdict:
    """Apply a mutant, and run what may notice it until the first failure."""

    def end(outcome: str, by: str = "", test: str = "") -> Verdict:
        return Verdict(mutant.group, mutant.name, mutant.package, outcome, by, test)

    text = (tree.root / mutant.file).read_text()
    named = [each for each in mutant.tests if (tree.root / each.partition("::")[0]).exists()]
    tests = choose_tests(coverage, tree, mutant.file, mutant.line_in(text))
    with tree.changed(mutant.file, mutant.change(text)):
        for part in (named, tests[:_FIRST_TESTS], tests[_FIRST_TESTS:]):
            if failed := _run_tests(tree, part):
                return end(CAUGHT, failed.split("/")[1] if "/" in failed else failed, failed)
        if mutant.file.startswith(_SIMULATED) and coverage.lines:
            code, _ = tree.run("-c", _SIMULATE, seconds=_STORIES_SECONDS_MAX)
            if code != 0:
                return end(CAUGHT, "simulation")
    return end("survived" if named or tests else "not covered")


def choose_tests(coverage: Coverage, tree: Tree, file: str, line: int) -> list[str]:
    """Return the tests that are run for a line."""
    found = coverage.list_tests(tree.root, file, line)
    most = max(_TESTS_MAX, sum(each.startswith(_IN_MEMORY) for each in found))
    return (found[:_FIRST_TESTS] + sorted(found[_FIRST_TESTS:], key=_rank_suite))[:most]


def _rank_suite(test: str) -> list[bool]:
    """Return the order of the suites, the quick ones first."""
    return [f"tests/{each}/" not in test for each in SUITES]


def _run_tests(tree: Tree, tests: list[str]) -> str:
    """Return the first test that fails, or nothing.

    Where real processes share a machine, a test can fail by chance: it must fail twice.
    """
    if not tests:
        return ""
    # Those of one file together, because they may share what it starts.
    in_order = sorted(tests, key=lambda test: (_rank_suite(test), test.partition("::")[0]))
    (tree.root / "chosen").write_text("\n".join(in_order))
    code, written = tree.test("-x", "@chosen", seconds=_TESTS_SECONDS_MAX)
    if code in (0, _NO_TEST):
        return ""
    files = list(dict.fromkeys(test.partition("::")[0] for test in in_order))
    if code == _NOT_FOUND and files != in_order:  # the names of some rows follow from the product
        return _run_tests(tree, files)
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", written, re.MULTILINE)
    if failed is None or code in _COLLECTION_FAILED:
        return "time" if code is None else "import"
    sure = failed[1].startswith(_IN_MEMORY) or len(tests) == 1 or _run_tests(tree, [failed[1]])
    return failed[1] if sure else ""


def write_table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Return the score of each package, and of each source of mutants."""
    for title, names in (
        ("package", sorted({each.package for each in verdicts if each.package})),
        ("source", sorted({_name_source(each) for each in verdicts})),
    ):
        yield f"{title:24} caught  of   score"
        for name in names:
            yield _write_row(name, [each for each in verdicts if name in (each.package, _name_source(each))])
    yield _write_row("all", verdicts)
    for outcome in ("survived", "not covered"):
        yield from (f"{outcome}: {each.identity}" for each in verdicts if each.outcome == outcome)


def _name_source(verdict: Verdict) -> str:
    """Return by whom the mutant was made."""
    return "random" if verdict.group == "random" else "by hand"


def _write_row(name: str, verdicts: Sequence[Verdict]) -> str:
    caught = sum(each.outcome == CAUGHT for each in verdicts)
    return f"{name:24} {caught:6} {len(verdicts):3} {caught / max(len(verdicts), 1):7.1%}"
