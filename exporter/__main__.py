"""``python -m exporter``: it reads the settings, starts the parts, waits for a signal, and ends.

Exit codes: 0 a clean end, 1 the lease was lost or a part failed (start again), 2 wrong settings.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType

from exporter.exporter_settings import read_exporter_settings
from exporter.process import run_exporter
from shared.edges.process import start_logging
from shared.model.errors import Misconfigured

EXIT_CLEAN, EXIT_FAILED, EXIT_MISCONFIGURED = 0, 1, 2
_logger = logging.getLogger("exporter")


def main() -> int:
    """Run the exporter until SIGTERM or SIGINT and return the exit code."""
    start_logging("exporter")
    try:
        settings = read_exporter_settings(os.environ)
        return EXIT_CLEAN if run_exporter(settings, _stop_on_signal()) else EXIT_FAILED
    except Misconfigured as error:
        for problem in error.problems:
            _logger.critical(problem)
        return EXIT_MISCONFIGURED


def _stop_on_signal() -> threading.Event:
    stop = threading.Event()

    def note(number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        _logger.info("the exporter ends because of a signal", extra={"signal": name})
        stop.set()

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGINT, note)
    return stop


if __name__ == "__main__":
    sys.exit(main())
