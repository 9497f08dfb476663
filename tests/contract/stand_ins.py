"""Starts the stand-ins as processes and talks to their admin ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from standins.kit.processes import running_stand_in


@contextmanager
def stand_in(folder: Path, *command: str) -> Iterator[dict[str, str]]:
    """Run ``python -m COMMAND --ports-file …``, and give what it writes there once it listens."""
    module, _serve, *arguments = command
    with running_stand_in(folder, module, *arguments) as started:
        yield started.addresses


def ask(method: str, url: str, body: Any = None) -> Any:
    """Send JSON, return JSON; anything but a success fails the test with the answer's text."""
    answer = urllib3.request(method, url, json=body) if body is not None else urllib3.request(method, url)
    assert answer.status < 300, f"{method} {url}: {answer.status}: {answer.data.decode()}"
    return answer.json()
