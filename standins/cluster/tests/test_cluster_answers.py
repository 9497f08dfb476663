"""What the cluster answers to writes and reads that are wrong, stale or not played: code and words.

`tests/differential` asks the real API server the like, and compares.
"""

import copy
from typing import Any, NamedTuple

import httpx
import pytest

from standins.cluster.refusals import PLAYED_OF_JOBS, PLAYED_OF_JOBSETS
from standins.cluster.tests.conftest import Json, jobset

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JOB: Json = jobset()["spec"]["replicatedJobs"][0]["template"]
KINDS: dict[str, tuple[str, Json]] = {
    "jobset": ("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets", jobset("asked", suspend=True)),
    "job": ("/apis/batch/v1/namespaces/{}/jobs", {"metadata": {"name": "asked"}} | JOB),
    "pod": (
        "/api/v1/namespaces/{}/pods",
        {"metadata": {"name": "asked"}, "spec": {"containers": [{"name": "main", "image": "main"}]}},
    ),
    "lease": (
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
        {"metadata": {"name": "asked"}, "spec": {"holderIdentity": "a"}},
    ),
}
RESOURCES = "spec.containers.0.resources"


def changed(body: Json, path: str, value: Any) -> Json:
    """Return a copy with one field set."""
    result: Any = copy.deepcopy(body)
    *steps, last = path.split(".")
    target = result
    for step in steps:
        target = target[int(step)] if step.isdigit() else target.setdefault(step, {})
    target[last] = value
    return dict(result)


class Row(NamedTuple):
    """A body that is refused, or not."""

    kind: str
    path: str
    value: Any
    code: int
    words: str


NOT_PLAYED = [
    *(Row("jobset", f"spec.{field}", "x", 422, "CLUSTER=real") for field in PLAYED_OF_JOBSETS),
    *(Row("job", f"spec.{field}", "x", 422, "CLUSTER=real") for field in PLAYED_OF_JOBS),
    *(
        Row("jobset", f"spec.replicatedJobs.0.template.spec.{field}", "x", 422, "CLUSTER=real")
        for field in PLAYED_OF_JOBS
    ),
    Row("jobset", "spec.replicatedJobs.0.dependsOn", [{"name": "x"}], 422, "CLUSTER=real"),
]
WRONG = [
    Row("jobset", "metadata.name", "Wrong", 422, "lowercase RFC 1123"),
    Row("jobset", "metadata.name", "x" * 60, 403, "exceed 63 characters"),
    Row("jobset", "metadata.labels", {"team": "not good"}, 422, "not good"),
    Row("jobset", "metadata.namespace", "elsewhere", 400, "does not match that of the request"),
    Row("jobset", "spec.coordinator", {"replicatedJob": "stranger"}, 403, "stranger does not exist"),
    Row("jobset", "spec.successPolicy", {"targetReplicatedJobs": ["stranger"]}, 403, "'stranger' does not appear"),
    Row("jobset", "spec.ttlSecondsAfterFinished", -1, 422, "greater than or equal to 0"),
    Row("jobset", "spec.replicatedJobs", [*jobset()["spec"]["replicatedJobs"] * 2], 422, "Duplicate value"),
    Row("jobset", "spec.replicatedJobs.0.replicas", "two", 400, "cannot be handled as a JobSet"),
    Row("job", "spec.backoffLimit", -1, 422, "greater than or equal to 0"),
    Row("job", "spec.template.spec.restartPolicy", "Always", 422, '"OnFailure", "Never"'),
    Row("job", "spec.completionMode", "Indexed", 201, ""),
    Row("job", "kind", "Pod", 400, "do not match those expected"),
    Row("pod", "metadata.resourceVersion", "1", 400, "should not be set"),
    Row("pod", "metadata.annotations", {"a": 1}, 422, "object of text to text"),
    Row("pod", "spec.containers", [], 422, "Required value"),
    Row("pod", "spec.nodeSelector", {"slot": "not good"}, 422, "not good"),
    Row("pod", "spec.tolerations", "all", 400, "cannot be handled as a Pod"),
    Row("pod", "spec.priorityClassName", "absent", 403, "no PriorityClass with name absent"),
    Row("pod", RESOURCES, {"requests": {"google.com/tpu": 4}}, 422, "Limit must be set"),
    Row("pod", RESOURCES, {"limits": {"google.com/tpu": 4}, "requests": {"google.com/tpu": 2}}, 422, "equal to"),
    Row("pod", RESOURCES, {"limits": {"google.com/tpu": "500m"}}, 422, "must be an integer"),
    Row("pod", RESOURCES, {"limits": {"google.com/tpu": "many"}}, 400, "not a quantity"),
]


@pytest.mark.parametrize("row", NOT_PLAYED + WRONG, ids=lambda row: f"{row.kind} {row.path} {str(row.value)[:20]}")
def test_a_wrong_body_is_refused_with_what_would_be_valid(http: httpx.Client, namespace: str, row: Row) -> None:
    path, body = KINDS[row.kind]
    answer = http.post(path.format(namespace), json=changed(body, row.path, row.value))
    assert answer.status_code == row.code, answer.text
    if row.words:
        assert (answer.json()["kind"], answer.json()["code"]) == ("Status", row.code)
        assert row.words in answer.json()["message"]


_POD_OF_JOBSET = "/spec/replicatedJobs/0/template/spec/template/spec"
PATCHES: list[tuple[str, str, Any, int]] = [
    ("pod", MERGE, {"spec": {"nodeSelector": {"wanted": "now"}}}, 422),
    ("pod", MERGE, {"spec": {"schedulingGates": [{"name": "late"}]}}, 422),
    ("pod", MERGE, {"metadata": {"resourceVersion": "1"}}, 409),
    ("pod", MERGE, {"metadata": {"uid": "another"}}, 409),
    ("pod", STRATEGIC, {"spec": {"containers": [{"name": "main", "image": "new"}]}}, 200),
    ("pod", JSON_PATCH, [{"op": "test", "path": "/spec/hostname", "value": "z"}], 422),
    ("pod", "text/plain", {}, 415),
    ("pod", JSON_PATCH, {}, 400),
    ("jobset", STRATEGIC, {"spec": {"suspend": True}}, 415),
    ("jobset", JSON_PATCH, [{"op": "replace", "path": "/spec/replicatedJobs/0/replicas", "value": 3}], 403),
    ("jobset", JSON_PATCH, [{"op": "add", "path": "/spec/managedBy", "value": "example.com/other"}], 403),
    ("jobset", JSON_PATCH, [{"op": "add", "path": f"{_POD_OF_JOBSET}/nodeSelector/slot", "value": "new"}], 200),
    ("jobset", JSON_PATCH, [{"op": "replace", "path": f"{_POD_OF_JOBSET}/containers/0/image", "value": "x"}], 403),
    ("jobset", MERGE, {"spec": {"network": {"subdomain": "other"}}}, 422),
    ("job", MERGE, {"spec": {"activeDeadlineSeconds": 5}}, 422),
    ("lease", MERGE, {"spec": {"holderIdentity": "b"}}, 200),
]


@pytest.mark.parametrize(("kind", "media_type", "patch", "code"), PATCHES)
def test_a_patch_is_taken_or_refused(
    http: httpx.Client, namespace: str, kind: str, media_type: str, patch: Any, code: int
) -> None:
    path, body = KINDS[kind]
    http.post(path.format(namespace), json=body).raise_for_status()
    headers = {"Content-Type": media_type}
    answer = http.patch(f"{path.format(namespace)}/asked", json=patch, headers=headers)
    assert answer.status_code == code, answer.text


REQUESTS: list[tuple[str, str, int]] = [
    ("GET", "pods/absent", 404),
    ("GET", "colours", 404),
    ("GET", "pods/asked/log", 404),
    ("GET", "pods?labelSelector=a%20in", 400),
    ("GET", "pods?fieldSelector=spec.colour%3Dblue", 400),
    ("GET", "pods?limit=many", 400),
    ("GET", "pods?limit=1&continue=nonsense", 400),
    ("GET", "pods?watch=1&sendInitialEvents=true", 400),
    ("PATCH", "pods/asked?dryRun=All", 400),
    ("POST", "pods/asked", 405),
    ("PUT", "pods", 405),
    ("DELETE", "pods/absent", 404),
    ("DELETE", "pods/asked?propagationPolicy=Orphan", 400),
]


@pytest.mark.parametrize(("method", "path", "code"), REQUESTS)
def test_a_request_is_refused(http: httpx.Client, namespace: str, method: str, path: str, code: int) -> None:
    answer = http.request(method, f"/api/v1/namespaces/{namespace}/{path}")
    assert answer.status_code == code, answer.text
    assert answer.json()["code"] == code


def test_an_election_loses_against_another_version_and_another_object(http: httpx.Client, namespace: str) -> None:
    leases, lease = KINDS["lease"][0].format(namespace), KINDS["lease"][1]
    version = http.post(leases, json=lease).json()["metadata"]["resourceVersion"]
    held = changed(lease, "metadata.resourceVersion", version)
    answers = [
        http.post(leases, json=lease),
        http.put(f"{leases}/asked", json=lease),
        http.put(f"{leases}/asked", json=held),
        http.put(f"{leases}/asked", json=changed(held, "spec.holderIdentity", "b")),
        http.put(f"{leases}/asked", json=changed(held, "spec.holderIdentity", "c")),
        http.request("DELETE", f"{leases}/asked", json={"preconditions": {"uid": "another"}}),
        http.delete(f"{leases}/asked"),
    ]
    assert [answer.status_code for answer in answers] == [409, 422, 200, 200, 409, 409, 200]
    assert answers[2].json()["metadata"]["resourceVersion"] == version, "nothing has changed"
