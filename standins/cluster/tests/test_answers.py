"""The embedded cluster answers as the real one does, as far as the product or the demo asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml

from standins.kit.kubernetes import open_client
from standins.kit.processes import running_stand_in
from tests.loop.bodies import Json, build_workload, set_fields
from tests.loop.cloud import read_body, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE = "answers"
ROWS = yaml.safe_load(Path(__file__).with_name("answers.yaml").read_text())
LEASE_API = "coordination.k8s.io/v1"
FOLDERS = {
    "pods": "/api/v1",
    "jobs": "/apis/batch/v1",
    "jobsets": "/apis/jobset.x-k8s.io/v1alpha2",
    "leases": f"/apis/{LEASE_API}",
}
PATCHES = {"merge": "merge-patch", "patch": "json-patch", "strategic": "strategic-merge-patch"}
BASES: dict[str, Json] = {
    "jobset": build_workload({"kind": "JobSet", "spec": {"suspend": True}}, "asked"),
    "pod": build_workload({"kind": "Pod", "tpu": "", "pod": {"nodeSelector": {"wanted": "never"}}}, "asked"),
    "lease": {
        "apiVersion": LEASE_API,
        "kind": "Lease",
        "metadata": {"name": "lead"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
    },
}


@pytest.fixture(scope="module")
def api(
    cluster_kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    if cluster_kind == "real":
        with open_client(request.getfixturevalue("plane").kubeconfig) as client:
            yield client
        return
    folder = tmp_path_factory.mktemp("cluster")
    options = ("--kubeconfig-file", str(folder / "kubeconfig"))
    with running_stand_in(folder, "standins.cluster", *options), open_client(folder / "kubeconfig") as client:
        yield client


def ask(api: httpx.Client, row: Json, version: str) -> httpx.Response:
    """Send one question; VERSION in it stands for that of the lease when it was new."""
    (verb,) = row.keys() & {"get", "post", "put", "delete", *PATCHES}
    text = yaml.safe_dump(row.get("body"))
    body = yaml.safe_load(text.replace("VERSION", f"'{version}'"))
    (base,) = (body if isinstance(body, dict) else {}).keys() & BASES.keys() or [""]
    if base:
        body = set_fields(yaml.safe_load(yaml.safe_dump(BASES[base])), body[base])
    plural = row[verb].split("?")[0].split("/")[0]
    path = f"{FOLDERS[plural]}/namespaces/{NAMESPACE}/{row[verb]}" if plural else row[verb]
    kind = f"application/{PATCHES[verb]}+json" if verb in PATCHES else "application/json"
    method = "PATCH" if verb in PATCHES else verb.upper()
    return api.request(method, path, json=body, headers={"Content-Type": kind})


def test_each_answer_has_the_code_and_the_reason_of_kubernetes(api: httpx.Client) -> None:
    read_body(api.post("/api/v1/namespaces", json={"metadata": {"name": NAMESPACE}}))
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    wait_for(
        "the account", lambda: api.post(account, json={"metadata": {"name": "default"}}).status_code in (201, 409)
    )
    answers, version = {}, ""
    for row in ROWS:
        answer = ask(api, row, version)
        body = answer.json()
        if row["ask"] == "lease":
            version = body["metadata"]["resourceVersion"]
        reason = "" if answer.is_success else body.get("reason", "")
        answers[row["ask"]] = f"{answer.status_code} {reason}".strip()

    assert answers == {row["ask"]: row["answer"] for row in ROWS}
    read_body(api.delete(f"/api/v1/namespaces/{NAMESPACE}"))
