"""What clients see of a cluster that forgets its history or breaks off its watches."""

import itertools

import httpx
import pytest

from standins.cluster.tests.cluster_processes import BreakableCluster
from standins.cluster.tests.cluster_watching import create, make_namespace, pods_path, shown, version_now, watch
from standins.processes.kubeconfig import open_client

_numbers = itertools.count()


def new_place(breakable: BreakableCluster) -> str:
    """Make a namespace of the cluster that may be broken."""
    name = f"broken-{next(_numbers)}"
    with open_client(breakable.kubeconfig) as http:
        make_namespace(http, name)
    return name


@pytest.fixture(scope="module")
def forgotten(breakable: BreakableCluster) -> tuple[str, str]:
    """A namespace, and a version from before all that its cluster remembers."""
    place = new_place(breakable)
    with open_client(breakable.kubeconfig) as http:
        create(http, place, "a")
        start = version_now(http, place)
        create(http, place, "b")
    breakable.forget_history()
    return place, start


def test_after_its_history_is_forgotten_an_old_version_is_an_error_event_with_410(
    breakable: BreakableCluster, forgotten: tuple[str, str]
) -> None:
    place, start = forgotten
    with open_client(breakable.kubeconfig) as http:
        (event,) = watch(http, place, count=1, resourceVersion=start)
        nothing = watch(http, place, count=1, resourceVersion=version_now(http, place), timeoutSeconds="1")

    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert nothing == []


def test_a_client_that_lists_again_after_a_watch_broke_off_misses_nothing(breakable: BreakableCluster) -> None:
    place = new_place(breakable)
    with open_client(breakable.kubeconfig, timeout_seconds=120) as http:
        query = {"watch": "true", "timeoutSeconds": "120", "resourceVersion": version_now(http, place)}
        create(http, place, "seen")
        with pytest.raises(httpx.TransportError):
            read_until_broken(http, place, query, breakable)

    with open_client(breakable.kubeconfig) as http:
        found = http.get(pods_path(place)).json()
        create(http, place, "while-away")
        events = watch(http, place, count=1, resourceVersion=found["metadata"]["resourceVersion"])
    assert [item["metadata"]["name"] for item in found["items"]] == ["seen"]
    assert shown(events) == [("ADDED", "while-away")]


def read_until_broken(http: httpx.Client, place: str, query: dict[str, str], breakable: BreakableCluster) -> None:
    """Read a watch, and have it broken off after its first event."""
    with http.stream("GET", pods_path(place), params=query) as answer:
        for number, _line in enumerate(answer.iter_lines()):
            assert number == 0
            breakable.break_off_watches()
