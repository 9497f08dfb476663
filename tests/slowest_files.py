"""A pytest plugin that prints the slowest files of a run, over all its processes."""

from collections import Counter

import pytest

_SHOWN = 10
_MILLISECONDS: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add one set-up, call or tear-down to its file."""
    _MILLISECONDS[report.nodeid.partition("::")[0]] += round(report.duration * 1000)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the slowest files. Files run side by side, so their sum exceeds the run's time."""
    terminalreporter.section(f"slowest {_SHOWN} files of {len(_MILLISECONDS)}")
    for file, milliseconds in _MILLISECONDS.most_common(_SHOWN):
        terminalreporter.write_line(f"{milliseconds / 1000:7.1f}s {file}")
