"""The guard of this folder: it stops these tests, and nobody else who shares their process."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest


def use_the_network() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def neighbour() -> Iterator[ThreadPoolExecutor]:
    """A thread that ran before the test, as those of another test's stack."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(int).result()
        yield threads


def connect() -> None:
    with socket.socket() as plain:
        plain.connect(("127.0.0.1", 9))


@pytest.mark.parametrize("reach", [use_the_network, connect, lambda: socket.create_connection(("127.0.0.1", 9))])
def test_a_test_that_reaches_for_the_network_fails(reach: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match=r"must not use the network; .* live in tests/contract"):
        reach()


def test_threads_that_a_test_starts_are_held_to_it_too() -> None:
    with ThreadPoolExecutor(1) as threads, pytest.raises(AssertionError, match="tests/contract"):
        threads.submit(use_the_network).result()


def test_threads_of_others_are_not(neighbour: ThreadPoolExecutor) -> None:
    assert neighbour.submit(use_the_network).result() > 0
