"""Calls the functions of the local stack at a fixed interval, as Cloud Scheduler does.

Run as ``python -m demo.stack.ticker --url URL --url URL --every-seconds N``. A call that fails is
logged and not repeated before the next tick, as Cloud Scheduler does without a retry policy. Each
address has a job of its own: a slow one does not hold up the other.
"""

import json
import signal
import sys
import threading
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated

import httpx
import typer

_CALL_SECONDS_MAX = 60.0


def tick(
    url: Annotated[list[str], typer.Option(help="What to call. Can be repeated.")],
    every_seconds: Annotated[float, typer.Option(help="Real seconds between two calls.", min=0.1)],
) -> None:
    """Call each address at once, and then at each interval, until SIGTERM."""
    stopping = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    jobs = [
        threading.Thread(target=_call_until, args=(stopping, each, every_seconds), daemon=True) for each in url
    ]
    for job in jobs:
        job.start()
    stopping.wait()


def _call_until(stopping: threading.Event, url: str, every_seconds: float) -> None:
    with httpx.Client(timeout=_CALL_SECONDS_MAX) as client:
        _call(client, url)  # so that a new stack has a tick that ran
        while not stopping.wait(every_seconds):
            _call(client, url)


def _call(client: httpx.Client, url: str) -> None:
    try:
        answer = client.post(url, headers={"User-Agent": "Google-Cloud-Scheduler"})
    except httpx.HTTPError as error:
        _log("WARNING", f"{url} could not be called: {error!r}")
        return
    if answer.is_error:
        _log("WARNING", f"{url} answered {answer.status_code}: {answer.text[:200]}")


def _log(severity: str, message: str) -> None:
    record = {"severity": severity, "message": message, "time": datetime.now(UTC).isoformat()}
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    typer.run(tick)
