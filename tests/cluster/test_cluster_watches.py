"""Lists and watches as the official Python client and a plain HTTP client see them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from cluster_objects import node, pod
from cluster_watching import GATED, create, pods_path, shown, version_now, watch

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]


def relabel(http: httpx.Client, namespace: str, name: str, **labels: str | None) -> Json:
    headers = {"Content-Type": "application/merge-patch+json"}
    answer = http.patch(
        f"{pods_path(namespace)}/{name}",
        content=json.dumps({"metadata": {"labels": labels}}),
        headers=headers,
    )
    answer.raise_for_status()
    return answer.json()


def remove(http: httpx.Client, namespace: str, name: str) -> None:
    http.delete(f"{pods_path(namespace)}/{name}").raise_for_status()


def test_the_official_client_lists_what_was_created(core: kubernetes.client.CoreV1Api, namespace: str):
    core.create_namespaced_pod(namespace, pod("a", schedulingGates=GATED))

    (found,) = core.list_namespaced_pod(namespace).items

    assert found.metadata.name == "a"
    assert found.status.conditions[0].reason == "SchedulingGated"


def test_the_official_client_watches_from_a_list(
    core: kubernetes.client.CoreV1Api, namespace: str, http: httpx.Client
):
    create(http, namespace, "before")
    version = core.list_namespaced_pod(namespace).metadata.resource_version
    create(http, namespace, "after")
    relabel(http, namespace, "after", a="b")
    remove(http, namespace, "after")

    stream = kubernetes.watch.Watch().stream(
        core.list_namespaced_pod,
        namespace,
        resource_version=version,
        timeout_seconds=3,
    )

    assert [(event["type"], event["object"].metadata.name) for event in stream] == [
        ("ADDED", "after"),
        ("MODIFIED", "after"),
        ("MODIFIED", "after"),  # Even a pod that may go at once is marked first.
        ("DELETED", "after"),
    ]


def test_a_watch_without_a_version_begins_with_what_is_there(http: httpx.Client, namespace: str):
    create(http, namespace, "a")
    create(http, namespace, "b")

    assert shown(watch(http, namespace, count=2)) == [("ADDED", "a"), ("ADDED", "b")]


def test_leaving_a_label_selector_departs_with_the_old_body_and_the_new_version(
    http: httpx.Client, namespace: str
):
    old = create(http, namespace, "a", team="x")
    start = version_now(http, namespace)
    new = relabel(http, namespace, "a", team="y")

    (event,) = watch(http, namespace, count=1, labelSelector="team=x", resourceVersion=start)

    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["labels"] == {"team": "x"}
    assert event["object"]["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]
    expected = old | {"metadata": old["metadata"] | {"resourceVersion": new["metadata"]["resourceVersion"]}}
    assert event["object"] == expected


def test_entering_a_selector_is_an_addition(http: httpx.Client, namespace: str):
    create(http, namespace, "a", team="x")
    start = version_now(http, namespace)
    relabel(http, namespace, "a", team="y")

    events = watch(http, namespace, count=1, labelSelector="team=y", resourceVersion=start)

    assert shown(events) == [("ADDED", "a")]


def test_binding_looks_like_a_deletion_to_a_watch_of_unbound_pods(http: httpx.Client, namespace: str):
    http.post("/api/v1/nodes", json=node(f"{namespace}-n", 0)).raise_for_status()
    http.post(pods_path(namespace), json=pod("a", schedulerName="nobody")).raise_for_status()
    start = version_now(http, namespace)
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": f"{namespace}-n-0"}}
    http.post(f"{pods_path(namespace)}/a/binding", json=binding).raise_for_status()

    (event,) = watch(http, namespace, count=1, fieldSelector="spec.nodeName=", resourceVersion=start)

    assert event["type"] == "DELETED"
    assert "nodeName" not in event["object"]["spec"], "the body is the old one, so it looks unbound"
    live = http.get(f"{pods_path(namespace)}/a").json()
    assert live["spec"]["nodeName"] == f"{namespace}-n-0"
    assert int(event["object"]["metadata"]["resourceVersion"]) <= int(live["metadata"]["resourceVersion"])
    (condition,) = [c for c in live["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert condition["status"] == "True"


def test_a_real_deletion_is_marked_first_and_then_carries_the_last_body_and_a_version_of_its_own(
    http: httpx.Client, namespace: str
):
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
        ("team==x", ["a"]),
        ("team!=x", ["b", "c"]),
        ("team in (x,y)", ["a", "b"]),
        ("team notin (x,y)", ["c"]),
        ("team", ["a", "b"]),
        ("!team", ["c"]),
        ("team in (x,y),size=big", ["b"]),
        ("jobset.sigs.k8s.io/job-key,team", []),
    ],
)
def test_label_selectors_of_every_form_select(http: httpx.Client, namespace: str, selector: str, names: list[str]):
    create(http, namespace, "a", team="x", size="small")
    create(http, namespace, "b", team="y", size="big")
    create(http, namespace, "c")

    found = http.get(pods_path(namespace), params={"labelSelector": selector}).json()["items"]

    assert [item["metadata"]["name"] for item in found] == names


@pytest.mark.parametrize(
    ("parameter", "value", "complaint"),
    [
        ("labelSelector", "team in x", "unable to parse requirement"),
        ("fieldSelector", "status.conditions=x", "field label not supported"),
        ("fieldSelector", "status.phase", "invalid selector: 'status.phase'; can't understand 'status.phase'"),
        ("limit", "many", 'strconv.ParseInt: parsing "many": invalid syntax'),
        ("continue", "!!!", "continue key is not valid"),
    ],
)
def test_a_wrong_parameter_is_refused(
    http: httpx.Client, namespace: str, parameter: str, value: str, complaint: str
):
    answer = http.get(pods_path(namespace), params={parameter: value})

    assert answer.status_code == 400
    assert answer.json()["kind"] == "Status"
    assert complaint in answer.json()["message"]


def test_pages_are_one_consistent_list_although_objects_come_and_go(http: httpx.Client, namespace: str):
    for name in "abcde":
        create(http, namespace, name)
    first = http.get(pods_path(namespace), params={"limit": 2}).json()
    assert first["metadata"]["remainingItemCount"] == 3
    remove(http, namespace, "d")
    create(http, namespace, "cc")

    names = [item["metadata"]["name"] for item in first["items"]]
    page = first
    while page["metadata"].get("continue"):
        page = http.get(pods_path(namespace), params={"limit": 2, "continue": page["metadata"]["continue"]}).json()
        names += [item["metadata"]["name"] for item in page["items"]]
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    assert names == list("abcde")


def test_the_limit_is_ignored_at_version_zero_as_the_real_cache_does(http: httpx.Client, namespace: str):
    for name in "abc":
        create(http, namespace, name)

    page = http.get(pods_path(namespace), params={"limit": 1, "resourceVersion": "0"}).json()

    assert len(page["items"]) == 3


def test_list_items_of_builtin_kinds_do_not_repeat_their_kind(http: httpx.Client, namespace: str):
    create(http, namespace, "a")

    (item,) = http.get(pods_path(namespace)).json()["items"]

    assert "kind" not in item
    assert http.get(f"{pods_path(namespace)}/a").json()["kind"] == "Pod"


def test_metadata_only_lists_and_watches_carry_no_spec(http: httpx.Client, namespace: str):
    create(http, namespace, "a")
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    found = http.get(pods_path(namespace), headers={"Accept": accept}).json()
    (event,) = watch(http, namespace, count=1, accept=accept.replace("List", ""))

    assert found["kind"] == "PartialObjectMetadataList"
    for item in (found["items"][0], event["object"]):
        assert item["kind"] == "PartialObjectMetadata"
        assert item["metadata"]["name"] == "a"
        assert "spec" not in item


def test_streaming_lists_end_with_a_marked_bookmark(http: httpx.Client, namespace: str):
    create(http, namespace, "a")

    events = watch(
        http,
        namespace,
        count=2,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )

    assert shown(events) == [("ADDED", "a"), ("BOOKMARK", "")]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert events[1]["object"]["kind"] == "Pod"


def test_a_bookmark_comes_two_seconds_before_the_watch_times_out(http: httpx.Client, namespace: str):
    start = version_now(http, namespace)
    query = {"resourceVersion": start, "allowWatchBookmarks": "true"}

    events = watch(http, namespace, count=1, timeoutSeconds="4", **query)
    too_short = watch(http, namespace, count=1, timeoutSeconds="1", **query)

    assert shown(events) == [("BOOKMARK", "")]
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) >= int(start)
    assert too_short == []
