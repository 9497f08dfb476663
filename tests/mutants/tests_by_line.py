"""Which tests cover a line of the product, the fastest and most particular ones first."""

import ast
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from coverage import CoverageData

from tests.mutants.covering import CONTEXT, SETTINGS
from tests.mutants.trees import PYTEST, Tree, spread

PRODUCT = ("shared", "exporter", "functions", "cli", "infra/build")
SUITES = ("rules", "engine", "contract", "exporter", "cli", "infra", "field")
"""The folders of tests that run mostly in one process."""
ON_IMPORT = "tests/rules/test_values.py"
"""It reads the classes of all modules, which no coverage tells: their lines run on import."""
PROGRAMS = {
    "infra/build/": (
        *("tests/tidy/test_documents.py", "tests/infra/test_terraform_facts.py"),
        *("tests/infra/test_mistakes.py", "tests/infra/test_builds.py"),
    ),
    "exporter/process.py": ("tests/exporter/test_exporter_process.py",),
}
"""They run the programs of a room as a build or a pod does: no coverage is measured of these."""
PLUGIN = "tests.mutants.covering"
_TEST_SECONDS_MAX = 5
_LEFT_OUT = re.compile(r"^(?:(?:FAILED|ERROR) |[0-9.]+s call +)(\S.*?)(?: - .*)?$", re.MULTILINE)
"""What pytest says of a test that fails, or that takes longer."""
_SUITE_SECONDS_MAX = 3000.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """The tests by file and line of the product."""

    lines: dict[str, dict[int, list[str]]]

    def list_tests(self, root: Path, file: str, line: int) -> list[str]:
        """Return the tests of a line; of what reads the name that it sets, if it runs on import."""
        programs = next((tests for room, tests in PROGRAMS.items() if file.startswith(room)), ())
        return self._list_covering(root, file, line) + list(programs)

    def _list_covering(self, root: Path, file: str, line: int) -> list[str]:
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
        return [ON_IMPORT, *(_take_in_turn(found * bool(names)) or _take_in_turn(list(known.values())))]


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
    """Run some suites once, in several trees, and return which quick tests cover each line."""
    lines: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for part in spread(trees, _measure_suite, suites):
        for file, tests in part.items():
            for line, names in tests.items():
                lines[file][line] += names
    size = Counter(chain.from_iterable(chain.from_iterable(tests.values() for tests in lines.values())))
    return Coverage(
        {file: {line: _rank(names, size) for line, names in tests.items()} for file, tests in lines.items()}
    )


def _measure_suite(suite: str, tree: Tree) -> dict[str, dict[int, list[str]]]:
    """Run the tests of a suite, and return which of them reach each line."""
    paths = sorted((tree.root / "tests" / suite).glob("test_*.py"))
    files = [str(each.relative_to(tree.root)) for each in paths]
    with tempfile.TemporaryDirectory() as folder:
        rooms = "".join(f"\n    {tree.root / room}" for room in PRODUCT)
        settings = Path(folder, "settings")
        settings.write_text(
            f"[run]\nsource ={rooms}\ncontext = ${{{CONTEXT}-}}\nparallel = true\ndata_file = {folder}/data\n"
        )
        option, slow = f"--rcfile={settings}", ("--durations=0", f"--durations-min={_TEST_SECONDS_MAX}", "-rfE")
        words = ["-m", "coverage", "run", option, "-m", "pytest", *PYTEST, *slow, "-p", PLUGIN, *files]
        _, written = tree.run(*words, seconds=_SUITE_SECONDS_MAX, environ={SETTINGS: str(settings)})
        tree.run("-m", "coverage", "combine", option, seconds=_SUITE_SECONDS_MAX)
        data = CoverageData(f"{folder}/data")
        data.read()
        left_out = {"", *_LEFT_OUT.findall(written)}
        lines = {
            str(Path(path).relative_to(tree.root)): {
                line: [test for test in tests if test not in left_out]
                for line, tests in data.contexts_by_lineno(path).items()
            }
            for path in sorted(data.measured_files())
        }
    if not any(chain.from_iterable(tests.values() for tests in lines.values())):
        raise RuntimeError(f"no test of {suite} passes:\n{written}")
    return lines


def _rank(tests: list[str], size: dict[str, int]) -> list[str]:
    """Return tests of all files in turn, and of each file first what covers least besides."""
    by_file: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests, key=lambda each: (size[each], each)):
        by_file[test.partition("::")[0]].append(test)
    return _take_in_turn(list(by_file.values()))


def _take_in_turn(lists: list[list[str]]) -> list[str]:
    taken = chain.from_iterable(zip_longest(*lists))
    return list(dict.fromkeys(test for test in taken if test))
