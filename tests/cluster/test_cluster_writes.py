"""Writes as the official Python client and a plain HTTP client make them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
from bounded_polling import wait_until
from cluster_objects import jobset, node, pod

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

MORE_OF_THE_REAL_ONE = {"managedFields"}
"""Metadata that the embedded cluster does not have: it keeps no field ownership."""


def patch(http: httpx.Client, path: str, body: Any, content_type: str, **query: str) -> httpx.Response:
    return http.patch(path, content=json.dumps(body), headers={"Content-Type": content_type}, params=query)


def config_map(name: str, **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def binding(pod: str, node: str) -> Json:
    return {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def refused(answer: httpx.Response, code: int, reason: str) -> str:
    body = answer.json()
    assert (answer.status_code, body["code"], body["reason"], body["kind"]) == (code, code, reason, "Status")
    return body["message"]


def test_a_new_object_gets_what_the_server_gives(http: httpx.Client, namespace: str):
    created = http.post(maps(namespace), json=config_map("a", x="1"))

    assert created.status_code == 201
    metadata = created.json()["metadata"]
    assert metadata.keys() - MORE_OF_THE_REAL_ONE == {
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "resourceVersion",
    }
    assert datetime.fromisoformat(metadata["creationTimestamp"]) <= datetime.now(UTC)


def test_generate_name_appends_five_characters(http: httpx.Client, namespace: str):
    body = {"metadata": {"generateName": "run-"}}
    names = {http.post(maps(namespace), json=body).json()["metadata"]["name"] for _ in range(3)}

    assert len(names) == 3
    assert all(name.startswith("run-") and len(name) == 9 for name in names)
    refusal = refused(http.post(maps(namespace), json={"metadata": {"generateName": "run."}}), 422, "Invalid")
    assert "metadata.generateName: Invalid value" in refusal


def test_refusals_are_statuses_that_name_the_cause(http: httpx.Client, namespace: str):
    http.post(maps(namespace), json=config_map("a"))
    path = maps(namespace)

    assert refused(http.post(path, json=config_map("a")), 409, "AlreadyExists") == 'configmaps "a" already exists'
    assert refused(http.get(f"{path}/b"), 404, "NotFound") == 'configmaps "b" not found'
    assert "RFC 1123" in refused(http.post(path, json=config_map("A_b")), 422, "Invalid")
    assert 'namespaces "nowhere" not found' in refused(
        http.post(maps("nowhere"), json=config_map("a")), 404, "NotFound"
    )
    refused(http.get("/api/v1/unknown"), 404, "NotFound")
    refused(http.post(path, content=b"{broken"), 400, "BadRequest")
    refused(http.post(path, json={"kind": "Secret", "metadata": {"name": "x"}}), 400, "BadRequest")
    labelled = {"metadata": {"name": "x", "labels": {"a": "not a label!"}}}
    assert "a valid label must be" in refused(http.post(path, json=labelled), 422, "Invalid")


def test_a_write_based_on_an_old_version_conflicts(http: httpx.Client, namespace: str):
    first = http.post(maps(namespace), json=config_map("a", x="1")).json()
    path = f"{maps(namespace)}/a"
    second = http.put(path, json=first | {"data": {"x": "2"}}).json()
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])

    message = refused(http.put(path, json=first | {"data": {"x": "3"}}), 409, "Conflict")

    assert "the object has been modified" in message
    stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"x": "4"}}
    refused(patch(http, path, stale, MERGE), 409, "Conflict")


def test_a_write_that_changes_nothing_makes_no_version(http: httpx.Client, namespace: str):
    first = http.post(maps(namespace), json=config_map("a", x="1")).json()

    same = http.put(f"{maps(namespace)}/a", json=first).json()

    assert same == first


def test_a_dry_run_stores_nothing(http: httpx.Client, namespace: str):
    answer = http.post(maps(namespace), json=config_map("a"), params={"dryRun": "All"})

    assert answer.status_code == 201
    assert http.get(f"{maps(namespace)}/a").status_code == 404


def test_generation_counts_changes_of_the_spec_only(http: httpx.Client, namespace: str):
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
    body = jobset() | {"metadata": {"name": "a"}}
    body["spec"]["suspend"] = True
    assert http.post(path, json=body).json()["metadata"]["generation"] == 1

    labelled = patch(http, f"{path}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE).json()
    changed = patch(http, f"{path}/a", {"spec": {"ttlSecondsAfterFinished": 5}}, MERGE).json()

    assert (labelled["metadata"]["generation"], changed["metadata"]["generation"]) == (1, 2)


def test_the_main_resource_ignores_status_and_the_status_resource_ignores_the_spec(
    http: httpx.Client, namespace: str
):
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


def test_a_strategic_patch_merges_conditions_by_type(http: httpx.Client, namespace: str):
    path = f"/api/v1/namespaces/{namespace}/pods"
    http.post(path, json=pod("a", schedulingGates=[{"name": "g"}])).raise_for_status()
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}

    merged = patch(http, f"{path}/a/status", ready, STRATEGIC).json()

    assert [c["type"] for c in merged["status"]["conditions"]] == ["Ready", "PodScheduled"], (
        "what is new comes first"
    )


def test_a_strategic_patch_is_refused_for_a_custom_resource(http: httpx.Client, namespace: str):
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
    http.post(path, json=jobset("a")).raise_for_status()

    refused(patch(http, f"{path}/a", {"spec": {"suspend": True}}, STRATEGIC), 415, "UnsupportedMediaType")


def test_a_json_patch_tests_adds_and_removes(http: httpx.Client, namespace: str):
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


def test_server_side_apply_creates_and_then_merges(http: httpx.Client, namespace: str):
    path = f"{maps(namespace)}/a"
    body = {"apiVersion": "v1", "kind": "ConfigMap"} | config_map("a", x="1")
    assert "fieldManager: Required value" in refused(patch(http, path, body, APPLY), 422, "Invalid")

    first = patch(http, path, body, APPLY, fieldManager="me")
    second = patch(http, path, body | {"data": {"y": "2"}}, APPLY, fieldManager="you")

    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json()["data"] == {"x": "1", "y": "2"}


def test_a_delete_can_insist_on_the_uid(http: httpx.Client, namespace: str):
    created = http.post(maps(namespace), json=config_map("a")).json()
    path = f"{maps(namespace)}/a"

    wrong = http.request("DELETE", path, json={"preconditions": {"uid": "other"}})
    assert "does not match the UID" in refused(wrong, 409, "Conflict")
    right = http.request("DELETE", path, json={"preconditions": {"uid": created["metadata"]["uid"]}})
    assert right.json()["status"] == "Success"


def test_a_finalizer_holds_an_object_until_it_is_removed(http: httpx.Client, namespace: str):
    body = config_map("a") | {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    http.post(maps(namespace), json=body).raise_for_status()
    path = f"{maps(namespace)}/a"

    assert "deletionTimestamp" in http.delete(path).json()["metadata"]
    assert http.get(path).status_code == 200
    patch(http, path, {"metadata": {"finalizers": None}}, MERGE).raise_for_status()
    assert http.get(path).status_code == 404


def test_a_bound_pod_has_a_grace_and_an_unbound_one_has_none(http: httpx.Client, namespace: str):
    path = f"/api/v1/namespaces/{namespace}/pods"
    http.post("/api/v1/nodes", json=node(f"{namespace}-n", 0)).raise_for_status()
    for name in ("bound", "unbound"):
        http.post(path, json=pod(name, schedulerName="nobody")).raise_for_status()
    http.post(f"{path}/bound/binding", json=binding("bound", f"{namespace}-n-0")).raise_for_status()
    refused(http.post(f"{path}/bound/binding", json=binding("bound", "other")), 409, "Conflict")

    going = http.delete(f"{path}/bound").json()
    http.delete(f"{path}/unbound").raise_for_status()

    assert going["metadata"]["deletionGracePeriodSeconds"] == 30
    assert http.get(f"{path}/unbound").status_code == 404
    http.delete(f"{path}/bound", params={"gracePeriodSeconds": "0"}).raise_for_status()
    assert http.get(f"{path}/bound").status_code == 404


def test_an_eviction_deletes_the_pod(core: kubernetes.client.CoreV1Api, namespace: str):
    core.create_namespaced_pod(namespace, pod("a", schedulerName="nobody"))
    eviction = kubernetes.client.V1Eviction(metadata=kubernetes.client.V1ObjectMeta(name="a", namespace=namespace))

    core.create_namespaced_pod_eviction("a", namespace, eviction)

    assert core.list_namespaced_pod(namespace).items == []


def test_delete_collection_deletes_what_is_selected(core: kubernetes.client.CoreV1Api, namespace: str):
    for name, team in (("a", "x"), ("b", "x"), ("c", "y")):
        body = {"metadata": {"name": name, "labels": {"team": team}}}
        core.create_namespaced_config_map(namespace, body)

    core.delete_collection_namespaced_config_map(namespace, label_selector="team=x")

    names = {found.metadata.name for found in core.list_namespaced_config_map(namespace).items}
    assert names == {"c", "kube-root-ca.crt"}


def test_deleting_a_namespace_empties_it_first(
    core: kubernetes.client.CoreV1Api, namespace: str, http: httpx.Client
):
    body = jobset("a")
    pod_spec = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod_spec["nodeSelector"] = {"nowhere": "true"}
    http.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets", json=body).raise_for_status()

    core.delete_namespace(namespace)

    assert http.post(maps(namespace), json=config_map("late")).status_code in {403, 404}
    wait_until(lambda: http.get(f"/api/v1/namespaces/{namespace}").status_code == 404, seconds=60)
    assert core.list_namespaced_pod(namespace).items == []


def test_leases_work_for_an_election(api: kubernetes.client.ApiClient, namespace: str):
    leases = kubernetes.client.CoordinationV1Api(api)
    now = datetime.now(UTC)
    spec = kubernetes.client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15, renew_time=now)
    metadata = kubernetes.client.V1ObjectMeta(name="exporter", namespace=namespace)
    created = leases.create_namespaced_lease(namespace, kubernetes.client.V1Lease(metadata=metadata, spec=spec))
    created.spec.holder_identity = "you"
    taken = leases.replace_namespaced_lease("exporter", namespace, created)

    assert taken.spec.renew_time == now
    with pytest.raises(kubernetes.client.ApiException) as conflict:
        leases.replace_namespaced_lease("exporter", namespace, created)
    assert conflict.value.status == 409


def test_events_of_both_groups_are_one_store(api: kubernetes.client.ApiClient, namespace: str):
    new_events = kubernetes.client.EventsV1Api(api)
    core = kubernetes.client.CoreV1Api(api)
    about = kubernetes.client.V1ObjectReference(kind="Pod", name="a", namespace=namespace, uid="u1")
    event = kubernetes.client.EventsV1Event(
        metadata=kubernetes.client.V1ObjectMeta(generate_name="a-"),
        regarding=about,
        reason="PoolCreating",
        note="a pool is being created",
        type="Normal",
        action="Create",
        reporting_controller="tpu-provisioner",
        reporting_instance="x",
        event_time=datetime.now(UTC),
    )
    new_events.create_namespaced_event(namespace, event)

    (old,) = core.list_namespaced_event(
        namespace, field_selector="involvedObject.name=a,involvedObject.kind=Pod"
    ).items
    (new,) = new_events.list_namespaced_event(namespace).items

    assert (old.message, old.involved_object.uid) == ("a pool is being created", "u1")
    assert (new.note, new.regarding.name) == ("a pool is being created", "a")


def test_custom_objects_go_through_the_official_client(api: kubernetes.client.ApiClient, namespace: str):
    custom = kubernetes.client.CustomObjectsApi(api)
    where = ("jobset.x-k8s.io", "v1alpha2", namespace, "jobsets")
    custom.create_namespaced_custom_object(*where, jobset("a"))

    (found,) = custom.list_namespaced_custom_object(*where)["items"]
    patched = custom.patch_namespaced_custom_object(*where, "a", {"spec": {"suspend": True}})
    deleted = custom.delete_namespaced_custom_object(*where, "a")

    assert found["kind"] == "JobSet"
    assert found["spec"]["network"]["enableDNSHostnames"] is True
    assert patched["spec"]["suspend"] is True
    assert deleted["status"] == "Success"


def test_the_official_client_reads_every_kind_that_the_controllers_write(
    api: kubernetes.client.ApiClient,
    namespace: str,
    http: httpx.Client,
):
    http.post(
        f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets", json=jobset("a")
    ).raise_for_status()
    http.post("/api/v1/nodes", json=node(f"{namespace}-n", 0)).raise_for_status()
    core, batch = kubernetes.client.CoreV1Api(api), kubernetes.client.BatchV1Api(api)

    for written in (batch.list_namespaced_job, core.list_namespaced_service, core.list_namespaced_event):
        wait_until(lambda written=written: written(namespace).items, seconds=60)

    assert batch.list_namespaced_job(namespace).items[0].spec.completion_mode == "Indexed"
    assert core.list_namespaced_service(namespace).items[0].spec.cluster_ip == "None"
    assert core.read_node(f"{namespace}-n-0").status.allocatable["google.com/tpu"] == "4"
    assert core.list_namespaced_event(namespace).items[0].involved_object.namespace == namespace


def test_quantities_of_pods_come_back_as_text(
    core: kubernetes.client.CoreV1Api, namespace: str, http: httpx.Client
):
    container = {"name": "c", "image": "c", "resources": {"limits": {"google.com/tpu": 4, "cpu": 0.5}}}
    body = pod("a", schedulerName="nobody", containers=[container])
    http.post(f"/api/v1/namespaces/{namespace}/pods", json=body).raise_for_status()

    (found,) = core.list_namespaced_pod(namespace).items

    limits = found.spec.containers[0].resources.limits
    assert (limits["google.com/tpu"], limits["cpu"]) == ("4", "500m")
    assert found.spec.containers[0].resources.requests == limits


def test_everything_is_allowed_and_can_be_asked(api: kubernetes.client.ApiClient):
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}

    answer = kubernetes.client.AuthorizationV1Api(api).create_self_subject_access_review(review)

    assert answer.status.allowed is True


def test_the_version_and_the_groups_are_discovered(api: kubernetes.client.ApiClient):
    assert kubernetes.client.VersionApi(api).get_code().major == "1"
    groups = {group.name for group in kubernetes.client.ApisApi(api).get_api_versions().groups}
    assert {"batch", "jobset.x-k8s.io", "coordination.k8s.io", "events.k8s.io"} <= groups
