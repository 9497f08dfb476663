"""The command: reads the settings, starts the parts, waits for a signal, ends in order.

Exit codes: 0 a clean end, 1 the lease was lost or a part failed (start again), 2 the settings are wrong.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.settings import explain_settings, parse_settings
from shared.core.errors import Misconfigured
from shared.edges.logs import start_logging

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

EXIT_CLEAN, EXIT_FAILED, EXIT_MISCONFIGURED = 0, 1, 2
_logger = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the exporter until SIGTERM or SIGINT and return the exit code."""
    options = _parser().parse_args(arguments)
    start_logging("exporter")
    try:
        settings = parse_settings(os.environ)
        if options.check:
            _logger.info("settings are valid", extra={"cluster": settings.cluster, "topic": settings.topic})
            return EXIT_CLEAN
        stop = _stop_on_signal()
        # Imported only now: --help and --check should not have to load gRPC.
        from exporter.process import run_exporter  # noqa: PLC0415 -- see above

        return EXIT_CLEAN if run_exporter(settings, stop, options.ports_file) else EXIT_FAILED
    except Misconfigured as error:
        for problem in error.problems:
            _logger.critical(problem)
        sys.stderr.write(f"{error}\n")
        return EXIT_MISCONFIGURED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m exporter",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=(
            "Watch one GKE cluster and publish a hint to Pub/Sub for every TPU slice without nodes, and for\n"
            "every workload that is over. Decides nothing. Configured by the environment; logs JSON to stdout."
        ),
        epilog=(
            f"environment:\n{explain_settings()}\n"
            "exit codes: 0 clean end, 1 lease lost or a part failed (start again), 2 wrong settings.\n"
            "See docs/exporter.md."
        ),
    )
    parser.add_argument("--check", action="store_true", help="only validate the settings, then exit")
    parser.add_argument(
        "--ports-file",
        type=Path,
        metavar="PATH",
        help='write {"http": "http://HOST:PORT"} there once the health server listens',
    )
    return parser


def _stop_on_signal() -> threading.Event:
    stop = threading.Event()

    def note(number: int, _frame: FrameType | None) -> None:
        _logger.info("ending", extra={"signal": signal.Signals(number).name})
        stop.set()

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGINT, note)
    return stop
