"""The rules are pure: whatever opens a connection in these tests is a mistake, and fails at once.

That goes for a test's own thread and those that it starts. A process of the test run may have other
tests' stacks still running, whose threads reconnect whenever they like.
"""

import functools
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest


class ConnectionOfARule(AssertionError):
    """A test of a rule reached for the network."""


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    others = set(threading.enumerate()) - {threading.current_thread()}

    def guard(real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() in others:
                return real(*args, **kwargs)
            raise ConnectionOfARule("tests/rules must not use the network; tests of edges live in tests/contract")

        return guarded

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, guard(getattr(socket.socket, name)))
    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, guard(getattr(socket, name)))
