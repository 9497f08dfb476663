"""The rules are pure: whatever opens a connection in these tests is a mistake, and fails at once."""

from __future__ import annotations

import socket
from typing import NoReturn

import pytest


class ConnectionInAUnitTest(AssertionError):
    """A unit test reached for the network."""


def _refuse(*_args: object, **_kwargs: object) -> NoReturn:
    raise ConnectionInAUnitTest("tests/unit must not use the network; tests of edges live in tests/contract")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, _refuse)
    monkeypatch.setattr(socket, "getaddrinfo", _refuse)
    monkeypatch.setattr(socket, "create_connection", _refuse)
