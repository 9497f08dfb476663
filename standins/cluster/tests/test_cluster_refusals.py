"""What the embedded cluster does not play is refused with one sentence that names the way out.

The real control plane plays all of this.
"""

import re
from typing import Any

import httpx
import pytest

from standins.cluster.clock import ManualClock
from standins.cluster.embedded import Cluster
from standins.cluster.store.errors import ApiError
from standins.cluster.store.kinds import JOB, JOBSET, Kind
from standins.cluster.tests.cluster_objects import jobset, replicated_job

Json = dict[str, Any]

AFTER = [{"name": "a", "status": "Ready"}]
RULE = {"name": "stop", "action": "FailJobSet"}
POLICIES: dict[str, Json] = {
    "spec.failurePolicy.rules": {"failurePolicy": {"rules": [RULE]}},
    "spec.failurePolicy.restartStrategy": {"failurePolicy": {"restartStrategy": "InPlaceRestart"}},
    "spec.successPolicy.operator": {"successPolicy": {"operator": "Any"}},
    "spec.startupPolicy.startupPolicyOrder": {"startupPolicy": {"startupPolicyOrder": "Backwards"}},
    "spec.volumeClaimPolicies": {"volumeClaimPolicies": [{"templates": []}]},
    "spec.replicatedJobs[1].dependsOn": {
        "replicatedJobs": [replicated_job("a"), replicated_job("b", dependsOn=AFTER)]
    },
}
JOB_POLICIES: Json = {
    "activeDeadlineSeconds": 60,
    "backoffLimitPerIndex": 1,
    "managedBy": "example.com/other",
    "maxFailedIndexes": 1,
    "podFailurePolicy": {"rules": []},
    "podReplacementPolicy": "Failed",
    "successPolicy": {"rules": []},
}


def refuse(kind: Kind, body: Json) -> ApiError:
    """Return how the creation of an object is refused."""
    with pytest.raises(ApiError) as refusal:
        Cluster(ManualClock()).registry.create(kind, body, "default")
    return refusal.value


@pytest.mark.parametrize("field", POLICIES)
def test_a_jobset_with_a_finer_policy_is_refused(field: str) -> None:
    body = jobset()
    body["spec"] |= POLICIES[field]

    refusal = refuse(JOBSET, body)

    assert refusal.code == 422
    assert f"{field}: Invalid value" in refusal.message
    assert "the embedded cluster does not play this" in refusal.message
    assert "CLUSTER=real, docs/control-plane.md" in refusal.message


@pytest.mark.parametrize("field", JOB_POLICIES)
def test_a_job_with_a_finer_policy_is_refused_alone_and_in_a_jobset(field: str) -> None:
    job = replicated_job()
    job["template"]["spec"][field] = JOB_POLICIES[field]

    alone = refuse(JOB, {"metadata": {"name": "a"}, "spec": job["template"]["spec"]}).message
    inside = refuse(JOBSET, jobset("train", job)).message

    assert re.search(f"spec.{field}: .*does not play this", alone)
    assert re.search(rf"spec.replicatedJobs\[0\].template.spec.{field}: .*does not play this", inside)


def test_dry_runs_streamed_lists_and_protobuf_are_refused(http: httpx.Client) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    protobuf = {"Content-Type": "application/vnd.kubernetes.protobuf"}

    answers = [
        http.post(maps, json={"metadata": {"name": "a"}}, params={"dryRun": "All"}),
        http.get(maps, params={"watch": "true", "sendInitialEvents": "true"}),
        http.post(maps, content=b"k8s\x00", headers=protobuf),
    ]

    assert [answer.status_code for answer in answers] == [400, 400, 415]
    assert all("the embedded cluster" in answer.json()["message"] for answer in answers)
    assert http.get(f"{maps}/a").status_code == 404


def test_what_is_only_stored_is_answered_with_a_warning(http: httpx.Client) -> None:
    meta = {"metadata": {"name": "web"}}
    stored = {
        "/apis/apps/v1/namespaces/default/deployments": "Deployment",
        "/apis/apps/v1/namespaces/default/statefulsets": "StatefulSet",
        "/api/v1/namespaces/default/persistentvolumeclaims": "PersistentVolumeClaim",
    }
    for path, kind in stored.items():
        answer = http.post(path, json=meta)

        assert answer.status_code == 201
        assert answer.headers["warning"].startswith(
            f'299 - "the embedded cluster stores a {kind} and does nothing'
        )
    assert "warning" not in http.post("/api/v1/namespaces/default/configmaps", json=meta).headers


def test_kubectl_finds_no_types_and_so_names_a_kind_that_is_absent(http: httpx.Client) -> None:
    """An empty document in protobuf; without one kubectl says nothing of the kind."""
    kind = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

    answer = http.get("/openapi/v2", headers={"Accept": kind})

    assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, kind, b"")
    assert http.get("/openapi/v2", headers={"Accept": "application/json"}).json()["swagger"] == "2.0"
