"""`make demo-deploy CLUSTER=real`: accounts have their rights from the rendered manifests.

Functions call with tokens of the Google accounts that Terraform has made; the exporter runs as the
pods of its Deployment. A right that is missing is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from demo.deploy.closed_loop import ClosedLoop
from demo.deploy.workload_run import run_workload
from demo.loop.demo_manifests import load
from demo.stack.clusters import ClusterKind
from demo.stack.layout import PROJECT
from standins.controlplane.api_client import open_api
from standins.controlplane.tests.controlplane_worlds import wait_for
from standins.googlecloud.mock_program import VARIABLE, find_program
from tests.clusters import SPEED
from tests.infra.build_scripts import ROOT
from tests.infra.terraform_cli import TERRAFORM

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

pytestmark = [pytest.mark.deploy, pytest.mark.cluster, pytest.mark.by_hand, pytest.mark.timeout(900)]

BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/tpu-provisioner-provision"
ACCOUNT = f"tpu-provisioner-provision@{PROJECT}.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClosedLoop]:
    program = find_program()
    assert program, f"{VARIABLE} names no program"
    home = tmp_path_factory.mktemp("loop")
    with ClosedLoop(
        home, program=program, roots=TERRAFORM, say=print, speed=SPEED, cluster=ClusterKind.REAL
    ) as loop:
        loop.open_project()
        loop.deploy()
        loop.start()
        yield loop


@pytest.fixture(scope="module")
def api(loop: ClosedLoop) -> Iterator[httpx.Client]:
    with open_api(loop.layout.kubeconfig) as api:
        yield api


def test_a_jobset_runs_with_the_rights_that_were_deployed_and_no_others(
    loop: ClosedLoop, api: httpx.Client
) -> None:
    assert run_workload(loop, load([str(ROOT / "examples" / "v6e-two-slices.yaml")]), print) == []

    pods = api.get("/api/v1/namespaces/tpu-provisioner/pods").json()["items"]
    assert [each["spec"]["serviceAccountName"] for each in pods] == ["tpu-provisioner-exporter"] * 2
    bound = api.get(BINDING).json()["subjects"]
    assert [each["name"] for each in bound] == [ACCOUNT]


def test_a_binding_that_is_missing_is_named(loop: ClosedLoop, api: httpx.Client) -> None:
    api.delete(BINDING)
    wait_for("the end of the right", lambda: not may_read_pods(api))

    problems = run_workload(loop, load([str(ROOT / "examples" / "v5e-single-host.yaml")]), print)

    named = [each for each in problems if f'User "{ACCOUNT}" cannot get resource "pods"' in each]
    assert named
    assert problems == [each for each in problems if each.startswith("the cluster: ") and ACCOUNT in each]


def may_read_pods(api: httpx.Client) -> bool:
    spec = {"user": ACCOUNT, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    found = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=body).json()
    return bool(found["status"]["allowed"])


def test_nothing_is_left(loop: ClosedLoop) -> None:
    assert loop.destroy() == []
