"""A pytest plugin about the slowest files: they begin first, and are named at the end."""

from collections import Counter

import pytest

LONGEST = (
    "tests/loop/test_lives.py",
    "demo/tests/test_demo.py",
    "demo/tests/test_stack_commands.py",
    "tests/loop/test_chaos.py",
    "tests/simulation/test_simulation.py",
)
"""Those of the first tier, the longest first, so that no process waits at the end. A file with one
test gets a second file at once, so the last one here is short. A file that is missing here costs
time and nothing else."""
_NAMED_MILLISECONDS = 10_000
_MILLISECONDS: Counter[str] = Counter()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of these files first; all others keep their order."""
    places = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add one set-up, call or tear-down to its file."""
    _MILLISECONDS[report.nodeid.partition("::")[0]] += round(report.duration * 1000)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the slow files. Files run side by side, so their sum exceeds the run's time."""
    slow = [each for each in _MILLISECONDS.most_common() if each[1] >= _NAMED_MILLISECONDS]
    terminalreporter.section(f"{len(slow)} of {len(_MILLISECONDS)} files take 10 s or more")
    for file, milliseconds in slow:
        terminalreporter.write_line(f"{milliseconds / 1000:7.1f}s {file}")
