"""Lists and watches over plain HTTP, on each of the two clusters."""

import json
import threading
from typing import Any

import httpx
import pytest

from standins.cluster.tests.cluster_objects import node, pod
from standins.cluster.tests.cluster_watching import create, pods_path, shown, version_now, watch
from standins.processes.stand_ins import wait_until

Json = dict[str, Any]


def relabel(http: httpx.Client, namespace: str, name: str, **labels: str | None) -> Json:
    answer = http.patch(
        f"{pods_path(namespace)}/{name}",
        content=json.dumps({"metadata": {"labels": labels}}),
        headers={"Content-Type": "application/merge-patch+json"},
    )
    answer.raise_for_status()
    return dict(answer.json())


def remove(http: httpx.Client, namespace: str, name: str) -> None:
    http.delete(f"{pods_path(namespace)}/{name}").raise_for_status()


def test_a_watch_from_a_list_shows_every_change_after_it(http: httpx.Client, namespace: str) -> None:
    create(http, namespace, "before")
    version = version_now(http, namespace)
    create(http, namespace, "after")
    relabel(http, namespace, "after", a="b")
    remove(http, namespace, "after")

    assert shown(watch(http, namespace, count=4, resourceVersion=version)) == [
        ("ADDED", "after"),
        ("MODIFIED", "after"),
        ("MODIFIED", "after"),  # A pod without grace is marked, too, before it is gone.
        ("DELETED", "after"),
    ]


def test_a_watch_without_a_version_begins_with_what_is_there(http: httpx.Client, namespace: str) -> None:
    create(http, namespace, "a")
    create(http, namespace, "b")

    assert shown(watch(http, namespace, count=2)) == [("ADDED", "a"), ("ADDED", "b")]


def test_an_object_that_leaves_a_selector_is_deleted_with_the_old_body_and_the_new_version(
    http: httpx.Client, namespace: str
) -> None:
    old = create(http, namespace, "a", team="x")
    start = version_now(http, namespace)
    new = relabel(http, namespace, "a", team="y")

    (event,) = watch(http, namespace, count=1, labelSelector="team=x", resourceVersion=start)

    assert event["type"] == "DELETED"
    version = new["metadata"]["resourceVersion"]
    assert event["object"] == old | {"metadata": old["metadata"] | {"resourceVersion": version}}


def test_an_object_that_enters_a_selector_is_added(http: httpx.Client, namespace: str) -> None:
    create(http, namespace, "a", team="x")
    start = version_now(http, namespace)
    relabel(http, namespace, "a", team="y")

    events = watch(http, namespace, count=1, labelSelector="team=y", resourceVersion=start)

    assert shown(events) == [("ADDED", "a")]


def test_binding_looks_like_a_deletion_to_a_watch_of_unbound_pods(http: httpx.Client, namespace: str) -> None:
    name = f"{namespace}-n"
    taint = {"key": "only", "value": namespace, "effect": "NoSchedule"}
    http.post("/api/v1/nodes", json=node(name, 0, taints=[taint])).raise_for_status()
    tolerations = [{"operator": "Exists"}]
    selector = {"cloud.google.com/gke-nodepool": name}
    start = version_now(http, namespace)
    http.post(pods_path(namespace), json=pod("a", tolerations=tolerations, nodeSelector=selector))
    wait_until(lambda: http.get(f"{pods_path(namespace)}/a").json()["spec"].get("nodeName") == f"{name}-0")

    events = watch(http, namespace, count=2, fieldSelector="spec.nodeName=", resourceVersion=start)

    assert [event["type"] for event in events][-1] == "DELETED"
    gone = events[-1]["object"]
    assert "nodeName" not in gone["spec"], "the body is the old one, so it looks unbound"
    live = http.get(f"{pods_path(namespace)}/a").json()
    assert int(gone["metadata"]["resourceVersion"]) <= int(live["metadata"]["resourceVersion"])
    (condition,) = [c for c in live["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert condition["status"] == "True"


def test_a_deletion_is_marked_first_and_then_has_the_last_body_and_a_version_of_its_own(
    http: httpx.Client, namespace: str
) -> None:
    created = create(http, namespace, "a", team="x")
    start = version_now(http, namespace)
    remove(http, namespace, "a")

    marked, gone = watch(http, namespace, count=2, resourceVersion=start)

    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    for event in (marked, gone):
        assert event["object"]["metadata"]["uid"] == created["metadata"]["uid"]
        assert event["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
        assert "deletionTimestamp" in event["object"]["metadata"]
    versions = [int(found["metadata"]["resourceVersion"]) for found in (created, marked["object"], gone["object"])]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("team=x", ["a"]),
        ("team!=x", ["b", "c"]),
        ("team in (x,y)", ["a", "b"]),
        ("team notin (x,y)", ["c"]),
        ("team", ["a", "b"]),
        ("!team", ["c"]),
        ("team in (x,y),size=big", ["b"]),
    ],
)
def test_label_selectors_of_every_form_select(
    http: httpx.Client, namespace: str, selector: str, names: list[str]
) -> None:
    create(http, namespace, "a", team="x", size="small")
    create(http, namespace, "b", team="y", size="big")
    create(http, namespace, "c")

    found = http.get(pods_path(namespace), params={"labelSelector": selector}).json()["items"]

    assert [item["metadata"]["name"] for item in found] == names


def test_pages_are_one_consistent_list_although_objects_come_and_go(http: httpx.Client, namespace: str) -> None:
    for name in "abcde":
        create(http, namespace, name)
    page = first = http.get(pods_path(namespace), params={"limit": 2}).json()
    remove(http, namespace, "d")
    create(http, namespace, "cc")

    names = [item["metadata"]["name"] for item in first["items"]]
    while token := page["metadata"].get("continue"):
        page = http.get(pods_path(namespace), params={"limit": 2, "continue": token}).json()
        names += [item["metadata"]["name"] for item in page["items"]]
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    assert names == list("abcde")


def test_a_bookmark_comes_two_seconds_before_the_watch_times_out(http: httpx.Client, namespace: str) -> None:
    start = version_now(http, namespace)
    query = {"resourceVersion": start, "allowWatchBookmarks": "true", "labelSelector": "team=none"}
    # A real API server sends a bookmark only if its cache of pods has moved on since the watch
    # began.
    unseen = threading.Timer(1.0, create, args=(http, namespace, "a"))
    unseen.start()

    events = watch(http, namespace, count=1, timeoutSeconds="4", **query)
    unseen.join()
    too_short = watch(http, namespace, count=1, timeoutSeconds="1", **query)

    assert shown(events) == [("BOOKMARK", "")]
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) >= int(start)
    assert too_short == []
