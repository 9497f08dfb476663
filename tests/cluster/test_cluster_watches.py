"""Lists and watches as the official Python client and a plain HTTP client see them."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import httpx
import kubernetes
import pytest
from bounded_polling import wait_until
from cluster_objects import node, pod
from cluster_processes import RunningCluster, api_client

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

GATED = [{"name": "hold"}]


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def create(http: httpx.Client, namespace: str, name: str, **labels: str) -> Json:
    body = pod(name, schedulingGates=GATED)
    body["metadata"]["labels"] = labels
    answer = http.post(pods_path(namespace), json=body)
    answer.raise_for_status()
    return answer.json()


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


def version_now(http: httpx.Client, namespace: str) -> str:
    return http.get(pods_path(namespace)).json()["metadata"]["resourceVersion"]


def watch(
    http: httpx.Client, namespace: str, *, count: int, accept: str = "application/json", **query: str
) -> list[Json]:
    """Return the first events of a watch; the server ends it after two seconds at most."""
    events: list[Json] = []
    query = {"watch": "true", "timeoutSeconds": "2"} | query
    with http.stream("GET", pods_path(namespace), params=query, headers={"Accept": accept}) as answer:
        answer.raise_for_status()
        lines: Iterator[str] = answer.iter_lines()
        for line in lines:
            events.append(json.loads(line))
            if len(events) == count:
                break
    return events


def shown(events: list[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


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
        timeout_seconds=1,
    )

    assert [(event["type"], event["object"].metadata.name) for event in stream] == [
        ("ADDED", "after"),
        ("MODIFIED", "after"),
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
    target = {"target": {"kind": "Node", "name": f"{namespace}-n-0"}}
    http.post(f"{pods_path(namespace)}/a/binding", json=target).raise_for_status()

    (event,) = watch(http, namespace, count=1, fieldSelector="spec.nodeName=", resourceVersion=start)

    assert event["type"] == "DELETED"
    assert "nodeName" not in event["object"]["spec"], "the body is the old one, so it looks unbound"
    live = http.get(f"{pods_path(namespace)}/a").json()
    assert live["spec"]["nodeName"] == f"{namespace}-n-0"
    assert int(event["object"]["metadata"]["resourceVersion"]) <= int(live["metadata"]["resourceVersion"])
    (condition,) = [c for c in live["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert condition["status"] == "True"


def test_a_real_deletion_carries_the_last_body_and_the_version_of_the_deletion(http: httpx.Client, namespace: str):
    created = create(http, namespace, "a", team="x")
    start = version_now(http, namespace)
    remove(http, namespace, "a")

    (event,) = watch(http, namespace, count=1, resourceVersion=start)

    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["uid"] == created["metadata"]["uid"]
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


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
        ("fieldSelector", "status.phase", "invalid field selector"),
        ("limit", "many", 'invalid value for limit: "many"'),
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


def test_a_bookmark_comes_before_the_watch_times_out(http: httpx.Client, namespace: str):
    start = version_now(http, namespace)

    events = watch(http, namespace, count=1, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds="1")

    assert shown(events) == [("BOOKMARK", "")]
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) >= int(start)


def test_after_compaction_an_old_version_is_an_error_event_with_410(own_cluster: RunningCluster):
    with httpx.Client(base_url=own_cluster.url, trust_env=False) as http:
        create(http, "default", "a")
        start = version_now(http, "default")
        create(http, "default", "b")
        http.post("/admin/compact").raise_for_status()

        (event,) = watch(http, "default", count=1, resourceVersion=start)
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")

        assert (
            watch(http, "default", count=1, resourceVersion=version_now(http, "default"), timeoutSeconds="1") == []
        )


def test_after_compaction_a_status_410_can_be_asked_for(own_cluster: RunningCluster):
    with api_client(own_cluster) as client:
        core = kubernetes.client.CoreV1Api(client)
        httpx.post(
            f"{own_cluster.url}/admin/compact", params={"answer": "status"}, trust_env=False
        ).raise_for_status()

        with pytest.raises(kubernetes.client.ApiException) as gone:
            core.list_namespaced_pod("default", resource_version="1", watch=True, timeout_seconds=1)
        assert gone.value.status == 410
        with pytest.raises(kubernetes.client.ApiException) as gone:
            core.list_namespaced_pod("default", resource_version="1", resource_version_match="Exact", limit=1)
        assert gone.value.status == 410


def test_the_official_watch_raises_410_so_that_its_user_lists_again(own_cluster: RunningCluster):
    with api_client(own_cluster) as client:
        core = kubernetes.client.CoreV1Api(client)
        core.create_namespaced_pod("default", pod("a", schedulingGates=GATED))
        httpx.post(f"{own_cluster.url}/admin/compact", trust_env=False).raise_for_status()
        stream = kubernetes.watch.Watch().stream(
            core.list_namespaced_pod,
            "default",
            resource_version="1",
            timeout_seconds=1,
        )

        with pytest.raises(kubernetes.client.ApiException) as gone:
            list(stream)
        assert gone.value.status == 410


@pytest.mark.parametrize("clean", ["false", "true"])
def test_disconnect_drops_every_watch_and_loses_nothing(own_cluster: RunningCluster, clean: str):
    with httpx.Client(base_url=own_cluster.url, trust_env=False) as http:
        start = version_now(http, "default")
        ended: list[str] = []

        def follow() -> None:
            try:
                with httpx.Client(base_url=own_cluster.url, trust_env=False) as other:
                    watch(other, "default", count=9, resourceVersion=start, timeoutSeconds="60")
                ended.append("clean")
            except httpx.RemoteProtocolError:
                ended.append("broken off")

        follower = threading.Thread(target=follow)
        follower.start()
        wait_until(lambda: http.get("/admin/state").json()["watches"] == 1)
        assert http.post("/admin/disconnect", params={"clean": clean}).json() == {"dropped": 1}
        follower.join(timeout=5)

        assert ended == ["clean" if clean == "true" else "broken off"]
        create(http, "default", "while-away")
        assert shown(watch(http, "default", count=1, resourceVersion=start)) == [("ADDED", "while-away")]
