"""Says at the end of a run how many recorded exchanges judged it."""

import pytest

from tests.recordings.recorded_traffic import JUDGES, count_judges, find_clone

SOURCE = "GKE_AUTOSCALER"
"""The variable that names a clone with the source of GKE's own provisioner."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a clone that is not there; the summary names it."""
    left = [] if find_clone(SOURCE) else [each for each in items if each.name.startswith("test_the_source_")]
    config.hook.pytest_deselected(items=left)
    items[:] = [each for each in items if each not in left]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if JUDGES and not find_clone(SOURCE):
        what = f"a git clone of github.com/GoogleCloudPlatform/cluster-autoscaler, whose path {SOURCE} names"
        terminalreporter.write_line(f"NOT RUN: the source of GKE's own provisioner, for want of: {what}")
    if JUDGES:
        terminalreporter.section("recorded exchanges that judged this run")
        for line in count_judges():
            terminalreporter.write_line(line)
