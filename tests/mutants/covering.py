"""A plugin of pytest that tells coverage.py, also in the processes of a test, which test runs."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

CONTEXT = "MUTANTS_TEST"
"""The variable with the id of the test that runs, for the programs that it starts."""
OUTCOMES = "MUTANTS_OUTCOMES"  # the variable with the file for the seconds of each test that passed
SETTINGS = "MUTANTS_SETTINGS"
"""The variable with coverage.py's settings, for the programs that a test starts."""
_TIERS = {"tool", "helm", "terraform", "image", "browser", "corpus", "recordings", "slow", "cluster", "real"}
"""The markers of tests that need more than one process and PyPI."""
_SECONDS: dict[str, float] = {}
_FAILED: set[str] = set()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The fixture `bench` starts a shell for each of many steps.
    quick = [each for each in items if "bench" not in getattr(each, "fixturenames", ())]
    items[:] = [each for each in quick if _TIERS.isdisjoint(marker.name for marker in each.iter_markers())]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    measured = coverage.Coverage.current()
    os.environ[CONTEXT] = item.nodeid
    os.environ["COVERAGE_PROCESS_START"] = os.environ.get(SETTINGS, "")
    if measured is not None:
        measured.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        del os.environ[CONTEXT], os.environ["COVERAGE_PROCESS_START"]
        if measured is not None:
            measured.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _SECONDS[report.nodeid] = _SECONDS.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        _FAILED.add(report.nodeid)


def pytest_sessionfinish() -> None:
    passed = {name: seconds for name, seconds in _SECONDS.items() if name not in _FAILED}
    Path(os.environ[OUTCOMES]).write_text(json.dumps({"passed": passed, "failed": sorted(_FAILED)}))
