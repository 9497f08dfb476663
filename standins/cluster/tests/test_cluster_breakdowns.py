"""What clients see of a cluster that forgets its history, breaks off its watches, or ends."""

from collections.abc import Iterator

import httpx
import pytest

from standins.cluster.tests.cluster_watching import create, pods_path, shown, version_now, watch
from standins.cluster.tests.conftest import RunningCluster
from standins.processes.kubeconfig import open_client
from standins.processes.stand_ins import PATIENCE_SECONDS


@pytest.fixture
def own_http(own_cluster: RunningCluster) -> Iterator[httpx.Client]:
    with open_client(own_cluster.kubeconfig) as client:
        yield client


def test_after_its_history_is_forgotten_an_old_version_is_an_error_event_with_410(
    own_cluster: RunningCluster, own_http: httpx.Client
) -> None:
    create(own_http, "default", "a")
    start = version_now(own_http, "default")
    create(own_http, "default", "b")
    own_cluster.forget_history()

    (event,) = watch(own_http, "default", count=1, resourceVersion=start)
    now = version_now(own_http, "default")
    nothing = watch(own_http, "default", count=1, resourceVersion=now, timeoutSeconds="1")

    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert nothing == []


def test_a_client_that_lists_again_after_a_watch_broke_off_misses_nothing(
    own_cluster: RunningCluster, own_http: httpx.Client
) -> None:
    query = {"watch": "true", "timeoutSeconds": "120", "resourceVersion": version_now(own_http, "default")}
    create(own_http, "default", "seen")
    with pytest.raises(httpx.TransportError):
        read_until_broken(own_http, query, own_cluster)

    found = own_http.get(pods_path("default")).json()
    create(own_http, "default", "while-away")
    events = watch(own_http, "default", count=1, resourceVersion=found["metadata"]["resourceVersion"])
    assert [item["metadata"]["name"] for item in found["items"]] == ["seen"]
    assert shown(events) == [("ADDED", "while-away")]


def read_until_broken(http: httpx.Client, query: dict[str, str], cluster: RunningCluster) -> None:
    """Read a watch, and have it broken off after its first event."""
    with http.stream("GET", pods_path("default"), params=query) as answer:
        for number, _line in enumerate(answer.iter_lines()):
            assert number == 0
            cluster.break_off_watches()


def test_the_cluster_ends_quickly_although_a_watch_is_open(
    own_cluster: RunningCluster, own_http: httpx.Client
) -> None:
    with own_http.stream("GET", "/api/v1/pods", params={"watch": "true"}) as answer:
        answer.raise_for_status()
        assert own_cluster.child.end(PATIENCE_SECONDS), "the watch would go on for half an hour"
        assert own_cluster.child.exit_code == 0
        assert list(answer.iter_lines()) == []
