"""A pytest plugin that prints what became of each life of the catalogue, over all processes."""

import pytest

_LINES: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the line of a life; it comes from whichever process has played it."""
    if report.when == "call":
        _LINES.extend(str(value) for name, value in report.user_properties if name == "life")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table: the lives of both clusters keep to the same rows."""
    if _LINES:
        terminalreporter.section("cluster, life, kind, pools and reasons of each life")
        for line in sorted(_LINES):
            terminalreporter.write_line(line)
