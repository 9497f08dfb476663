"""A pytest plugin about the slowest files: they begin first, are named at the end, and may fail.

The measure is the CPU time of the tests and of the programs that they started and waited for,
because on a busy machine the time that passes says nothing of a file.
"""

import os
from collections import Counter
from collections.abc import Generator

import pytest

NAMED_SECONDS, MOST_SECONDS = 10.0, 30.0
LONGEST = {
    "tests/loop/test_lives.py": 120.0,
    "demo/tests/test_demo.py": 90.0,
    "standins/autoscaler/tests/test_autoscaler_upstream.py": MOST_SECONDS,  # minutes, on real control planes only
    "demo/tests/test_stack_commands.py": MOST_SECONDS,
    "tests/loop/test_chaos.py": MOST_SECONDS,
    "tests/simulation/test_simulation.py": MOST_SECONDS,
}
"""Those of the first tier with the most seconds of each, the longest first, so that no process
waits at the end. The first two follow whole local clouds, which cannot be cut. A file with one
test gets a second file at once, so the last one here is short. A file that is missing here costs
time and nothing else."""
_SECONDS: Counter[str] = Counter()
_BEGAN = [0.0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow-files-fail", action="store_true", help="fail if a file takes too much CPU time")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of these files first; all others keep their order."""
    places = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


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


def list_too_slow(config: pytest.Config) -> list[str]:
    """Return the files above their most seconds, where the tier fails for that."""
    judged = config.getoption("--slow-files-fail")
    return [file for file, seconds in _SECONDS.items() if judged and seconds > LONGEST.get(file, MOST_SECONDS)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if list_too_slow(session.config):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    too_slow = list_too_slow(terminalreporter.config)
    slow = [each for each in _SECONDS.most_common() if each[1] >= NAMED_SECONDS]
    terminalreporter.section(f"{len(slow)} of {len(_SECONDS)} files take {NAMED_SECONDS:g} s of CPU or more")
    for file, seconds in slow:
        much = "  too slow: make it faster, or cut it" if file in too_slow else ""
        terminalreporter.write_line(f"{seconds:7.1f}s {file}{much}")
