"""The board's stream: one reading after the other, to every open page, and to nobody else."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from werkzeug.test import Client

from cli.board.feed import PAGES_MAX, Feed, TooManyPages
from cli.board.listening import listening
from cli.board.site import Site
from tests.builders import a_pool
from tests.cli.cli_world import a_deployment
from tests.engine.world import World

HERE = "http://127.0.0.1:4321"


@pytest.fixture
def site() -> Site:
    world = World()
    world.gke.pools[a_pool().name] = a_pool()
    return Site(a_deployment(world), every=1.0)


def read_events(lines: Iterator[bytes], wanted: int) -> list[dict[str, str]]:
    """Return so many events of a stream, as their fields."""
    found: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    for raw in lines:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            found.append(fields)
            fields = {}
            if len(found) == wanted:
                return found
    raise AssertionError(f"the stream ended after {found}")


def test_an_open_page_gets_one_reading_after_the_other(site: Site) -> None:
    with listening(site), urllib3.PoolManager() as http:
        answer = http.request("GET", site.address.replace("/?", "/events?"), preload_content=False, timeout=30)
        found = read_events(iter(answer), 2)
        answer.close()

    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert [each["event"] for each in found] == ["reading", "reading"]
    assert int(found[1]["id"]) > int(found[0]["id"])
    assert json.loads(found[0]["data"])["lanes"][0]["workload"] == "train"


def test_nothing_is_read_while_no_page_is_open() -> None:
    read = threading.Event()

    def note() -> dict[str, Any]:
        read.set()
        return {}

    feed = Feed(note, every=0.01)
    feed.start()
    assert not read.wait(0.2)

    stream = feed.open_page()
    assert (next(stream), "event: reading" in next(stream)) == ("retry: 2000\n\n", True)
    feed.close_page()
    feed.end()

    assert not feed._thread.is_alive()


def test_a_reading_that_fails_is_told_and_the_next_one_is_tried() -> None:
    answers: Iterator[Any] = iter([ValueError("oh"), {"lanes": []}])

    def read() -> dict[str, Any]:
        found: Any = next(answers, {})
        if isinstance(found, Exception):
            raise found
        return dict(found)

    feed = Feed(read, every=0.01)
    feed.start()
    stream = feed.open_page()
    next(stream)
    failed = next(stream)
    feed.hurry()
    again = next(stream)
    feed.close_page()
    feed.end()

    assert 'event: failure\ndata: {"error": "ValueError: oh"}' in failed
    assert "event: reading" in again


def test_the_number_of_open_pages_is_bounded(site: Site) -> None:
    site.port = 4321
    for _ in range(PAGES_MAX):
        site.feed.open_page()

    with pytest.raises(TooManyPages):
        site.feed.open_page()
    client, path = Client(site), f"/events?token={site.token}"
    assert client.get(path, base_url=HERE).status_code == 503
    site.feed.close_page()
    with client.get(path, base_url=HERE, buffered=False) as answer:
        assert answer.status_code == 200
