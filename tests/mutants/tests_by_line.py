"""Which tests cover a line of the product, the fastest and most particular ones first."""

import ast
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from coverage import CoverageData

from tests.mutants.covering import CONTEXT, OUTCOMES, SETTINGS
from tests.mutants.trees import PYTEST, Tree, spread

PRODUCT = ("shared", "exporter", "functions", "cli", "infra/build")
SUITES = ("rules", "engine", "contract", "exporter", "cli", "infra")
"""The folders of tests that run mostly in one process."""
PLUGIN = "tests.mutants.covering"
_TEST_SECONDS_MAX = 5.0
_SUITE_SECONDS_MAX = 3000.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """The tests by file and line of the product."""

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def list_tests(self, root: Path, file: str, line: int) -> list[str]:
        """Return the tests of a line; of what reads the name that it sets, if it runs on import."""
        known = self.lines.get(file, {})
        if not known:
            return []
        first, last, names = _find_statement((root / file).read_text(), line)
        if first < last:
            numbers = (*range(line, first, -1), *range(line, last + 1))
            return next((known[each] for each in numbers if known.get(each)), [])
        word = re.compile(rf"\b(?:{'|'.join(names)})\b")
        found = [
            tests.get(number, [])
            for other, tests in self.lines.items()
            for number, text in enumerate((root / other).read_text().splitlines(), start=1)
            if word.search(text)
        ]
        return _take_in_turn(found * bool(names)) or _take_in_turn(list(known.values()))


def _find_statement(text: str, line: int) -> tuple[int, int, list[str]]:
    """Return the lines of the function around a line, or the names that are set there on import."""
    first, last, names = line, line, list[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first, last = node.lineno, node.end_lineno or line
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [each.id for each in targets if isinstance(each, ast.Name)]
    return first, last, names


def measure_tests(trees: Sequence[Tree], suites: tuple[str, ...] = SUITES) -> Coverage:
    """Run the tests of some suites once, in several trees, and return what each covers."""
    parts = list(spread(trees, _measure_suite, suites))
    lines: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for part in parts:
        for file, tests in part.lines.items():
            for line, names in tests.items():
                lines[file][line] += names
    seconds = {name: each for part in parts for name, each in part.seconds.items()}
    return Coverage(_rank_lines(lines, seconds), seconds)


def _measure_suite(suite: str, tree: Tree) -> Coverage:
    """Run the tests of a suite, and return which of them reach each line."""
    paths = sorted((tree.root / "tests" / suite).glob("test_*.py"))
    files = [str(each.relative_to(tree.root)) for each in paths]
    with tempfile.TemporaryDirectory() as folder:
        rooms = "".join(f"\n    {tree.root / room}" for room in PRODUCT)
        settings, outcomes = Path(folder, "settings"), Path(folder, "outcomes.json")
        settings.write_text(
            f"[run]\nsource ={rooms}\ncontext = ${{{CONTEXT}-}}\nparallel = true\ndata_file = {folder}/data\n"
        )
        option, environ = f"--rcfile={settings}", {OUTCOMES: str(outcomes), SETTINGS: str(settings)}
        words = ["-m", "coverage", "run", option, "-m", "pytest", *PYTEST, "-p", PLUGIN, *files]
        _, written = tree.run(*words, seconds=_SUITE_SECONDS_MAX, environ=environ)
        passed = json.loads(outcomes.read_text())["passed"] if outcomes.exists() else {}
        if not passed:
            raise RuntimeError(f"no test of {suite} passes:\n{written}")
        tree.run("-m", "coverage", "combine", option, seconds=_SUITE_SECONDS_MAX)
        data = CoverageData(f"{folder}/data")
        data.read()
        lines = {
            str(Path(path).relative_to(tree.root)): data.contexts_by_lineno(path)
            for path in sorted(data.measured_files())
        }
    return Coverage(lines, passed)


def _rank_lines(
    by_file: Mapping[str, Mapping[int, list[str]]], passed: Mapping[str, float]
) -> dict[str, dict[int, list[str]]]:
    size: dict[str, int] = defaultdict(int)
    for tests in chain.from_iterable(lines.values() for lines in by_file.values()):
        for test in tests:
            size[test] += 1
    fast = {test for test, seconds in passed.items() if seconds <= _TEST_SECONDS_MAX}
    return {
        file: {line: _rank([test for test in tests if test in fast], size) for line, tests in lines.items()}
        for file, lines in by_file.items()
    }


def _rank(tests: list[str], size: dict[str, int]) -> list[str]:
    """Return tests of all files in turn, and of each file first what covers least besides."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests, key=lambda each: (size[each], each)):
        by_file[test.partition("::")[0]].append(test)
    return _take_in_turn(list(by_file.values()))


def _take_in_turn(lists: list[list[str]]) -> list[str]:
    taken = chain.from_iterable(zip_longest(*lists))
    return list(dict.fromkeys(test for test in taken if test))
