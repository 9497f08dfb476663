"""Starts the stand-in of Google, and talks to the admin ends of any."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import urllib3

from standins.google.tests.fakegke_worlds import serving_google


@contextmanager
def serve_google(**settings: Any) -> Iterator[dict[str, str]]:
    """Serve it in this process, and give its addresses."""
    with serving_google(**settings) as google:
        yield google.ports


def ask(method: str, url: str, body: Any = None) -> Any:
    """Send JSON, return JSON; anything but a success fails the test with the answer's text."""
    answer = urllib3.request(method, url, json=body) if body is not None else urllib3.request(method, url)
    assert answer.status < 300, f"{method} {url}: {answer.status}: {answer.data.decode()}"
    return answer.json()
