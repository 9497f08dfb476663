"""``python -m exporter``: it reads the settings, starts the parts, waits for a signal, and ends.

Exit codes: 0 a clean end, 1 the lease was lost or a part failed (start again), 2 wrong settings.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from exporter.exporter_settings import ExporterSettings, read_exporter_settings
from shared.edges.process import start_logging
from shared.model.errors import Misconfigured
from shared.settings import name_variable

EXIT_CLEAN, EXIT_FAILED, EXIT_MISCONFIGURED = 0, 1, 2
_logger = logging.getLogger("exporter")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the exporter until SIGTERM or SIGINT and return the exit code."""
    options = _parser().parse_args(arguments)
    start_logging("exporter")
    try:
        settings = read_exporter_settings(os.environ)
        if options.check:
            _logger.info("the settings are valid", extra={"cluster": settings.cluster, "topic": settings.topic})
            return EXIT_CLEAN
        stop = _stop_on_signal()
        # Imported here, because --help and --check need neither the HTTP client nor the metrics.
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
            "Watch one GKE cluster. Publish an event to Pub/Sub for each accelerator pod without a node, and for\n"
            "each workload that is finished. The functions decide what happens then. Settings are environment\n"
            "variables. Logs are JSON lines on stdout."
        ),
        epilog=(
            f"environment variables: {', '.join(map(name_variable, ExporterSettings.__struct_fields__))}.\n"
            "exit codes: 0 clean end; 1 the lease was lost or a part failed: start again; 2 wrong settings.\n"
            "See docs/messages.md and docs/reference/settings.md."
        ),
    )
    parser.add_argument("--check", action="store_true", help="check the settings and exit")
    parser.add_argument(
        "--ports-file",
        type=Path,
        metavar="PATH",
        help='write {"http": "http://HOST:PORT"} to this file when the health server listens',
    )
    return parser


def _stop_on_signal() -> threading.Event:
    stop = threading.Event()

    def note(number: int, _frame: FrameType | None) -> None:
        _logger.info("the exporter ends because of a signal", extra={"signal": signal.Signals(number).name})
        stop.set()

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGINT, note)
    return stop


if __name__ == "__main__":
    sys.exit(main())
