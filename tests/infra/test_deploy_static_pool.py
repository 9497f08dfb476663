"""The destroy build while a job runs on a static pool, with real Terraform, gcloud and kubectl.

The cloud is a mock, and the cluster's API is that of the embedded cluster.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from standins.googlecloud.mock_program import MockCloud
from standins.processes.stand_ins import running_stand_in
from tests.infra.build_project import TERRAFORM_SCRIPT, Project
from tests.infra.build_scripts import DESTROY, list_scripts
from tests.infra.mock_google_cloud import serve_mock

pytestmark = [pytest.mark.deploy, pytest.mark.by_hand, pytest.mark.timeout(1800)]

STATIC = {"NUM_TPU_POOLS": "1", "TPU_TYPE": "v5litepod-16", "IMAGE_REPOSITORY": ""}
CPU_POOL = "cpu-node-pool"
PODS = "/api/v1/namespaces/default/pods"
NAMESPACE = "/api/v1/namespaces/tpu-provisioner"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The embedded cluster, with the exporter's namespace."""
    folder = tmp_path_factory.mktemp("kubernetes")
    with (
        running_stand_in(folder, "standins.cluster") as cluster,
        httpx.Client(base_url=cluster.addresses["url"], trust_env=False, timeout=30) as client,
    ):
        post(client, "/api/v1/namespaces", {"metadata": {"name": "tpu-provisioner"}})
        yield client


@pytest.fixture(scope="module")
def mock(kubernetes: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockCloud]:
    """One in which the clusters' own endpoint is that of the embedded cluster."""
    more = {"*.gke.goog": str(kubernetes.base_url).rstrip("/")}
    with serve_mock(tmp_path_factory.mktemp("cloud"), require_enabled=True, more=more) as made:
        yield made


@pytest.fixture
def project(environ: dict[str, str], tmp_path: Path) -> Project:
    """A project in which an environment with one static pool is provisioned."""
    environ = environ | {"PYTHON": sys.executable, "TPU_PROVISIONER_CREDENTIALS": "anonymous"}
    made = Project.make(tmp_path, environ, **STATIC)
    made.provision()
    return made


def post(kubernetes: httpx.Client, path: str, body: dict[str, Any]) -> None:
    kubernetes.post(path, json=body).raise_for_status()


def start_job(kubernetes: httpx.Client, pool: str) -> None:
    """Put a node of the pool into the cluster, and a job's pod that runs on it."""
    post(
        kubernetes,
        "/api/v1/nodes",
        {"metadata": {"name": "static-1", "labels": {"cloud.google.com/gke-nodepool": pool}}},
    )
    chips = {"google.com/tpu": "4"}
    container = {"name": "train", "image": "train", "resources": {"limits": chips, "requests": chips}}
    spec = {"nodeName": "static-1", "restartPolicy": "Never", "containers": [container]}
    post(kubernetes, PODS, {"metadata": {"name": "train-0", "namespace": "default"}, "spec": spec})
    set_phase(kubernetes, "Running")


def set_phase(kubernetes: httpx.Client, phase: str) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    body = json.dumps({"status": {"phase": phase}})
    kubernetes.patch(f"{PODS}/train-0/status", content=body, headers=headers).raise_for_status()


def find_static_pool(project: Project) -> str:
    where = (f"--cluster={project.environ['CLUSTER_NAME']}", f"--location={project.environ['REGION']}")
    found = project.gcloud("container", "node-pools", "list", *where, "--format=value(name)").split()
    (pool,) = {*found} - {CPU_POOL}
    return pool


def test_a_job_on_a_static_pool_stops_the_destroy_build_until_it_has_finished(
    project: Project, kubernetes: httpx.Client
) -> None:
    pool = find_static_pool(project)
    start_job(kubernetes, pool)
    before = project.list_addresses()
    assert any("tpu_pools" in each for each in before)
    answer = project.run(TERRAFORM_SCRIPT, fails=True, ZONE="us-east5-a")
    for each in (CPU_POOL, pool):
        assert f"  pool/{each} gets fewer or smaller nodes (none in us-east5-b)" in answer
    assert "cluster/" not in answer.partition("may be in use:")[2]
    steps = [name for name, _ in list_scripts(DESTROY) if name.startswith("destroy-")]
    assert (steps[0], steps[3]) == ("destroy-01-workloads.sh", "destroy-04-pools.sh")

    project.run("terraform-init.sh")
    (project.build / "kept-clusters").write_text("")  # of the step between them, which keeps no exporter here
    for step in (steps[0], steps[3]):
        answer = project.run(step, fails=True)
        assert f"/clusters/training: node pool {pool}: 1 pods run on it, such as default/train-0, and" in answer
        assert "error: 1 node pools are in use; end the workloads, or set FORCE=true" in answer
    assert project.list_addresses() == before
    assert find_static_pool(project) == pool
    assert project.is_up_to_date()

    set_phase(kubernetes, "Succeeded")
    project.run("terraform-init.sh")
    assert "No workload uses a node pool of the provisioner" in project.run(steps[0])
    assert kubernetes.get(NAMESPACE).status_code == 200
    # The embedded cluster has no roles, so the step deletes the namespace and then fails.
    assert "The exporter could not be stopped" in project.run(steps[1], FORCE="true")
    assert kubernetes.get(NAMESPACE).status_code == 404
    for step in steps[2:]:
        project.run(step, fails=False, DELETE_ARTIFACTS="true")
    assert project.list_addresses() == []
