"""Reads the log records of a time as `usage` does; prints CPU seconds and peak memory."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from google.auth.credentials import AnonymousCredentials

from cli.access.cli_settings import OperatorSettings
from cli.access.log_search import open_logs
from cli.usage.folding import UsageFold
from cli.usage.record_stream import Span, read_records
from cli.usage.usage_command import choose_group

CLUSTER = "projects/p/locations/us-east5/clusters/c"


def main(endpoint: str, span: Span) -> dict[str, float]:
    """Return what reading and adding up the records took, with the chip-hours as the proof."""
    logs = partial(open_logs, endpoint, AnonymousCredentials())  # type: ignore[no-untyped-call]
    deployment: Any = SimpleNamespace(
        own=OperatorSettings(), ports=SimpleNamespace(clusters=[CLUSTER]), open_logs=logs
    )
    began = time.process_time()
    fold = UsageFold(span.begin, choose_group("namespace"))
    for at, record in read_records(deployment, span):
        fold.see(at, record)
    chips = fold.total(span.end).sum_all().chip_hours
    seconds = time.process_time() - began
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {"seconds": seconds, "peak_mebibytes": float(peak.split()[1]) / 1024, **chips}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Span(begin=float(sys.argv[2]), end=float(sys.argv[3])))))
