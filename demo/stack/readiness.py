"""Waits, with a time limit, for a starting process: its ports file, or an answer over HTTP."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx

_POLL_SECONDS = 0.05


class NotReady(Exception):
    """A part of the stack did not become ready within its bound."""


def wait_until(
    what: str, ready: Callable[[], bool], *, seconds: float, check: Callable[[], None] = lambda: None
) -> None:
    """Return once `ready` says so, calling `check` in between so that it can raise a better error.

    Raises NotReady: the bound passed; the text says what was waited for.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        check()
        if time.monotonic() > deadline:
            raise NotReady(f"{what} was not ready within {seconds:g} s")
        time.sleep(_POLL_SECONDS)


def read_ports(path: Path) -> dict[str, str]:
    """Return the content of a ports file, or an empty mapping when it is not there yet."""
    if not path.exists():
        return {}
    content = json.loads(path.read_text())
    return {str(key): str(value) for key, value in content.items()}


def answers(url: str) -> bool:
    """Return whether an address answers with success."""
    try:
        return httpx.get(url, timeout=2).is_success
    except httpx.HTTPError:
        return False


def listens(port: int) -> bool:
    """Return whether something accepts connections on a local port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
