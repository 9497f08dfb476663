"""Writes over plain HTTP, on each of the two clusters."""

import json
from typing import Any

import httpx

from standins.cluster.tests.cluster_objects import jobset, node, pod
from standins.processes.stand_ins import wait_until

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def patch(http: httpx.Client, path: str, body: Any, content_type: str, **query: str) -> httpx.Response:
    return http.patch(path, content=json.dumps(body), headers={"Content-Type": content_type}, params=query)


def config_map(name: str, **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def refused(answer: httpx.Response, code: int, reason: str) -> str:
    body = answer.json()
    assert (answer.status_code, body["code"], body["reason"], body["kind"]) == (code, code, reason, "Status")
    return str(body["message"])


def test_refusals_are_statuses_that_name_the_cause(http: httpx.Client, namespace: str) -> None:
    http.post(maps(namespace), json=config_map("a"))
    path = maps(namespace)

    assert refused(http.post(path, json=config_map("a")), 409, "AlreadyExists") == 'configmaps "a" already exists'
    assert refused(http.get(f"{path}/b"), 404, "NotFound") == 'configmaps "b" not found'
    assert "RFC 1123" in refused(http.post(path, json=config_map("A_b")), 422, "Invalid")
    nowhere = refused(http.post(maps("nowhere"), json=config_map("a")), 404, "NotFound")
    assert 'namespaces "nowhere" not found' in nowhere
    refused(http.get("/api/v1/unknown"), 404, "NotFound")
    refused(http.post(path, content=b"{broken"), 400, "BadRequest")
    labelled = {"metadata": {"name": "x", "labels": {"a": "not a label!"}}}
    assert "a valid label must be" in refused(http.post(path, json=labelled), 422, "Invalid")


def test_a_write_based_on_an_old_version_conflicts(http: httpx.Client, namespace: str) -> None:
    first = http.post(maps(namespace), json=config_map("a", x="1")).json()
    path = f"{maps(namespace)}/a"
    second = http.put(path, json=first | {"data": {"x": "2"}}).json()
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])

    message = refused(http.put(path, json=first | {"data": {"x": "3"}}), 409, "Conflict")

    assert "the object has been modified" in message
    stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"x": "4"}}
    refused(patch(http, path, stale, MERGE), 409, "Conflict")


def test_a_write_that_changes_nothing_makes_no_version(http: httpx.Client, namespace: str) -> None:
    first = http.post(maps(namespace), json=config_map("a", x="1")).json()

    same = http.put(f"{maps(namespace)}/a", json=first).json()

    assert same == first


def test_the_main_resource_ignores_status_and_the_status_resource_ignores_the_spec(
    http: httpx.Client, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    http.post(path, json=pod("a", schedulerName="nobody")).raise_for_status()

    both = {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Running"}}
    through_main = patch(http, f"{path}/a", both, MERGE).json()
    through_status = patch(
        http, f"{path}/a/status", {"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}, MERGE
    ).json()

    assert (through_main["status"]["phase"], through_main["metadata"]["labels"]) == ("Pending", {"x": "y"})
    assert through_status["status"]["phase"] == "Failed"
    assert "nodeName" not in through_status["spec"]


def test_a_strategic_patch_merges_conditions_by_type(http: httpx.Client, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    http.post(path, json=pod("a", schedulingGates=[{"name": "g"}])).raise_for_status()
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    merged = patch(http, f"{path}/a/status", ready, STRATEGIC).json()

    types = [condition["type"] for condition in merged["status"]["conditions"]]
    assert types == ["Ready", "PodScheduled"], "new items come first"


def test_a_json_patch_tests_adds_and_removes(http: httpx.Client, namespace: str) -> None:
    body = {"metadata": {"name": "a", "annotations": {"x": "1"}}}
    http.post(maps(namespace), json=body).raise_for_status()
    path = f"{maps(namespace)}/a"
    operations = [
        {"op": "test", "path": "/metadata/annotations/x", "value": "1"},
        {"op": "add", "path": "/metadata/annotations/example.com~1y", "value": "2"},
        {"op": "remove", "path": "/metadata/annotations/x"},
    ]

    changed = patch(http, path, operations, JSON_PATCH).json()

    assert changed["metadata"]["annotations"] == {"example.com/y": "2"}
    refused(patch(http, path, operations, JSON_PATCH), 422, "Invalid")


def test_a_delete_can_insist_on_the_uid(http: httpx.Client, namespace: str) -> None:
    created = http.post(maps(namespace), json=config_map("a")).json()
    path = f"{maps(namespace)}/a"

    wrong = http.request("DELETE", path, json={"preconditions": {"uid": "other"}})
    assert "does not match the UID" in refused(wrong, 409, "Conflict")
    right = http.request("DELETE", path, json={"preconditions": {"uid": created["metadata"]["uid"]}})
    assert right.json()["status"] == "Success"


def test_a_bound_pod_has_a_grace_and_an_unbound_one_has_none(http: httpx.Client, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    http.post("/api/v1/nodes", json=node(f"{namespace}-n", 0)).raise_for_status()
    http.post(path, json=pod("bound", nodeName=f"{namespace}-n-0")).raise_for_status()
    http.post(path, json=pod("unbound", schedulerName="nobody")).raise_for_status()

    going = http.delete(f"{path}/bound").json()
    http.delete(f"{path}/unbound").raise_for_status()

    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert http.get(f"{path}/unbound").status_code == 404
    http.delete(f"{path}/bound", params={"gracePeriodSeconds": "0"}).raise_for_status()
    assert http.get(f"{path}/bound").status_code == 404


def test_deleting_a_namespace_empties_it_first(namespace: str, http: httpx.Client) -> None:
    body = jobset("a")
    pod_spec = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod_spec["nodeSelector"] = {"nowhere": "true"}
    http.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets", json=body).raise_for_status()

    http.delete(f"/api/v1/namespaces/{namespace}").raise_for_status()

    assert http.post(maps(namespace), json=config_map("late")).status_code in {403, 404}
    wait_until(lambda: http.get(f"/api/v1/namespaces/{namespace}").status_code == 404)
    assert http.get(f"/api/v1/namespaces/{namespace}/pods").json()["items"] == []
