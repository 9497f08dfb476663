"""Says at the end of a run how many recorded exchanges judged it."""

import pytest

from tests.recordings.recorded_traffic import JUDGES, count_judges


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if JUDGES:
        terminalreporter.section("recorded exchanges that judged this run")
        for line in count_judges():
            terminalreporter.write_line(line)
