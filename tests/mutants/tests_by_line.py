"""Which tests cover a line of the product, the fastest and most particular ones first."""

import ast
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from coverage import CoverageData

from tests.mutants.covering import CONTEXT, OUTCOMES, SETTINGS
from tests.mutants.trees import PYTEST, Tree

PRODUCT = ("shared", "exporter", "functions", "cli", "infra/build")
SUITES = ("rules", "engine", "contract", "exporter", "cli", "infra")
"""The folders of tests that run mostly in one process."""
PLUGIN = "tests.mutants.covering"
_WAITS = re.compile(r"serve_mock|fake_process|running_stacks|build_cloud")
"""What stands in a file of tests that start clouds."""
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


def measure_tests(tree: Tree, folder: Path, suites: tuple[str, ...] = SUITES) -> Coverage:
    """Run the tests of some suites once, and return what each covers."""
    rooms = "".join(f"\n    {tree.root / room}" for room in PRODUCT)
    (folder / "settings").write_text(
        f"[run]\nsource ={rooms}\ncontext = ${{{CONTEXT}-}}\nparallel = true\ndata_file = {folder}/data\n"
    )
    settings, outcomes, passed = f"--rcfile={folder}/settings", folder / "outcomes.json", dict[str, float]()
    environ = {OUTCOMES: str(outcomes), SETTINGS: f"{folder}/settings"}
    for suite in suites:
        paths = sorted((tree.root / "tests" / suite).glob("test_*.py"))
        files = [str(each.relative_to(tree.root)) for each in paths if not _WAITS.search(each.read_text())]
        if files:
            words = [*PYTEST, "-p", PLUGIN, *files]
            run = tree.run("-m", "coverage", "run", settings, *words, seconds=_SUITE_SECONDS_MAX, environ=environ)
            found = json.loads(outcomes.read_text())["passed"]
            if not found:
                raise RuntimeError(f"no test of {suite} passes:\n{run[1]}")
            passed |= found
    tree.run("-m", "coverage", "combine", settings, seconds=_SUITE_SECONDS_MAX)
    return Coverage(_read_lines(folder / "data", tree.root, passed), passed)


def _read_lines(data_file: Path, root: Path, passed: dict[str, float]) -> dict[str, dict[int, list[str]]]:
    data = CoverageData(str(data_file))
    data.read()
    by_file = {
        str(Path(path).relative_to(root)): data.contexts_by_lineno(path) for path in sorted(data.measured_files())
    }
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
