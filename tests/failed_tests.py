"""A pytest plugin that writes the names of all failed tests into a file, one a line."""

import os
from pathlib import Path

import pytest

VARIABLE = "TESTS_FAILED_FILE"  # the environment variable that names the file


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the file. Only the process that prints the summary calls this: it has all reports."""
    reports = [*terminalreporter.stats.get("failed", ()), *terminalreporter.stats.get("error", ())]
    names = sorted({str(report.nodeid) for report in reports})
    Path(os.environ[VARIABLE]).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
