"""A plugin of pytest that tells coverage.py, also in the processes of a test, which test runs."""

import os
from collections.abc import Iterator

import coverage
import pytest

CONTEXT = "MUTANTS_TEST"
"""The variable with the id of the test that runs, for the programs that it starts."""
SETTINGS = "MUTANTS_SETTINGS"
"""The variable with coverage.py's settings, for the programs that a test starts."""
_TIERS = {"tool", "helm", "terraform", "image", "browser", "corpus", "recordings", "slow", "cluster", "real"}
"""The markers of tests that need more than one process and PyPI."""


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
