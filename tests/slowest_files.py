"""A pytest plugin about the slowest files: they begin first, are named at the end, and may fail.

The measure is the CPU time of the tests and of the programs that they started and waited for,
because on a busy machine the time that passes says nothing of a file.
"""

import os
from collections import Counter
from collections.abc import Generator

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
NAMED_SECONDS = 10.0
_SECONDS: Counter[str] = Counter()
_BEGAN = [0.0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--file-seconds-max", type=float, default=float("inf"), help="fail if a file takes more")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of these files first; all others keep their order."""
    places = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


def pytest_runtest_logstart() -> None:
    """Begin to count a test's time; what its process did before is nobody's."""
    _BEGAN[0] = sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write the CPU time of a set-up, call or tear-down into its report, for the first process."""
    report = yield
    now = sum(os.times()[:4])
    vars(report)["cpu_seconds"] = now - _BEGAN[0]
    _BEGAN[0] = now
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add one set-up, call or tear-down to its file."""
    _SECONDS[report.nodeid.partition("::")[0]] += report.cpu_seconds


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail for a file above the most seconds, if there is a most."""
    if max(_SECONDS.values(), default=0.0) > session.config.getoption("--file-seconds-max"):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the slow files."""
    most = terminalreporter.config.getoption("--file-seconds-max")
    slow = [each for each in _SECONDS.most_common() if each[1] >= NAMED_SECONDS]
    terminalreporter.section(f"{len(slow)} files take {NAMED_SECONDS:g} s of CPU or more; {most:g} s is an error")
    for file, seconds in slow:
        terminalreporter.write_line(f"{seconds:7.1f}s {file}")
