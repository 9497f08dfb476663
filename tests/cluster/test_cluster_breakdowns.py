"""What clients see of a cluster that forgets its history or breaks off its watches."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import httpx
import kubernetes
import pytest
from bounded_polling import wait_until
from cluster_watching import create, pods_path, shown, version_now, watch

from local.stack.access import open_kubernetes

if TYPE_CHECKING:
    from pathlib import Path

    from cluster_processes import BreakableCluster, RunningCluster

_numbers = itertools.count()


def new_place(breakable: BreakableCluster) -> str:
    """Make a namespace of the cluster that may be broken."""
    name = f"broken-{next(_numbers)}"
    with open_kubernetes(breakable.kubeconfig) as http:
        http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until(lambda: http.get(account).is_success)
    return name


@pytest.fixture(scope="module")
def forgotten(breakable: BreakableCluster) -> tuple[str, str]:
    """A namespace, and a version from before all that its cluster remembers."""
    place = new_place(breakable)
    with open_kubernetes(breakable.kubeconfig) as http:
        create(http, place, "a")
        start = version_now(http, place)
        create(http, place, "b")
    breakable.forget_history()
    return place, start


def test_after_its_history_is_forgotten_an_old_version_is_an_error_event_with_410(
    breakable: BreakableCluster, forgotten: tuple[str, str]
):
    place, start = forgotten
    with open_kubernetes(breakable.kubeconfig) as http:
        (event,) = watch(http, place, count=1, resourceVersion=start)
        nothing = watch(http, place, count=1, resourceVersion=version_now(http, place), timeoutSeconds="1")

    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert nothing == []


def test_the_official_client_meets_410_in_lists_and_watches_so_that_its_user_lists_again(
    breakable: BreakableCluster, forgotten: tuple[str, str]
):
    place, start = forgotten
    with kubernetes.config.new_client_from_config(config_file=str(breakable.kubeconfig)) as client:
        core = kubernetes.client.CoreV1Api(client)
        with pytest.raises(kubernetes.client.ApiException) as gone_from_list:
            core.list_namespaced_pod(place, resource_version=start, resource_version_match="Exact", limit=1)
        stream = kubernetes.watch.Watch().stream(
            core.list_namespaced_pod, place, resource_version=start, timeout_seconds=1
        )
        with pytest.raises(kubernetes.client.ApiException) as gone_from_watch:
            list(stream)

    assert (gone_from_list.value.status, gone_from_watch.value.status) == (410, 410)


def test_an_expired_version_is_a_status_410_on_request(own_cluster: RunningCluster):
    query = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "1"}
    with httpx.Client(base_url=own_cluster.url, trust_env=False) as http:
        http.post("/admin/compact", params={"answer": "status"}).raise_for_status()

        answer = http.get(pods_path("default"), params=query)

    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


def test_who_lists_again_after_a_watch_broke_off_misses_nothing(breakable: BreakableCluster):
    place = new_place(breakable)
    with open_kubernetes(breakable.kubeconfig) as http:
        start = version_now(http, place)
        create(http, place, "seen")
    follower = Follower(breakable.kubeconfig, place, start)
    follower.start()
    assert follower.has_seen.wait(timeout=60)

    breakable.break_off_watches()
    follower.join(timeout=60)

    assert follower.end == "broken off"
    with open_kubernetes(breakable.kubeconfig) as http:
        found = http.get(pods_path(place)).json()
        create(http, place, "while-away")
        events = watch(http, place, count=1, resourceVersion=found["metadata"]["resourceVersion"])
    assert [item["metadata"]["name"] for item in found["items"]] == ["seen"]
    assert shown(events) == [("ADDED", "while-away")]


@pytest.mark.parametrize(("clean", "end"), [("false", "broken off"), ("true", "cleanly")])
def test_watches_can_be_made_to_end_in_both_ways_and_go_on_from_their_version(
    own_cluster: RunningCluster, clean: str, end: str
):
    with open_kubernetes(own_cluster.kubeconfig) as http:
        start = version_now(http, "default")
        create(http, "default", "seen")
        follower = Follower(own_cluster.kubeconfig, "default", start)
        follower.start()
        assert follower.has_seen.wait(timeout=60)

        assert http.post("/admin/disconnect", params={"clean": clean}).json() == {"dropped": 1}
        follower.join(timeout=60)
        create(http, "default", "while-away")

        assert follower.end == end
        # The server may hear of the end a moment after the client.
        wait_until(lambda: http.get("/admin/state").json()["watches"] == 0)
        events = watch(http, "default", count=2, resourceVersion=start)
    assert shown(events) == [("ADDED", "seen"), ("ADDED", "while-away")]


class Follower(threading.Thread):
    """Watches pods until the watch ends, and knows how it ended."""

    def __init__(self, kubeconfig: Path, namespace: str, version: str) -> None:
        super().__init__(daemon=True)
        self._kubeconfig, self._namespace, self._version = kubeconfig, namespace, version
        self.has_seen = threading.Event()
        self.end = ""

    def run(self) -> None:
        query = {"watch": "true", "timeoutSeconds": "120", "resourceVersion": self._version}
        client = open_kubernetes(self._kubeconfig, timeout_seconds=120)
        try:
            with client, client.stream("GET", pods_path(self._namespace), params=query) as answer:
                for _line in answer.iter_lines():
                    self.has_seen.set()
            self.end = "cleanly"
        except httpx.TransportError:
            self.end = "broken off"
