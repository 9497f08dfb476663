"""A plugin of pytest that tells coverage.py, also in the processes of a test, which test runs."""

import functools
import gc
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


_CACHES = pytest.StashKey["list[functools._lru_cache_wrapper[object]]"]()
"""What functions of the product remember."""
_ROOMS = ("shared.", "exporter.", "cli.", "infra.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The fixture `bench` starts a shell for each of many steps.
    quick = [each for each in items if "bench" not in getattr(each, "fixturenames", ())]
    items[:] = [each for each in quick if _TIERS.isdisjoint(marker.name for marker in each.iter_markers())]


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.unfreeze()  # our processes freeze what they have imported
    found = (each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper))
    session.stash[_CACHES] = [each for each in found if each.__module__.startswith(_ROOMS)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    measured = coverage.Coverage.current()
    for each in item.session.stash[_CACHES]:  # what another test has asked for is run again
        each.cache_clear()
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
