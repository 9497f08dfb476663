"""`make demo-deploy CLUSTER=real`: accounts have their rights from the rendered manifests.

Functions call with tokens of the Google accounts that Terraform has made; the exporter runs as the
pods of its Deployment. A right that is missing is named. The scripts of the builds install and
remove the same with real gcloud and kubectl, by the cluster's DNS endpoint.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from demo.deploy.closed_loop import ClosedLoop
from demo.deploy.workload_run import run_workload
from demo.loop.demo_manifests import load
from demo.stack.clusters import ClusterKind
from demo.stack.layout import CLUSTER, CLUSTER_PATH, LOCATION, PROJECT
from demo.stack.readiness import read_ports
from infra.build.third_party.versions import NONE, PRODUCTS, choose_version
from standins.controlplane.api_client import open_api
from standins.controlplane.tests.controlplane_worlds import wait_for
from standins.googlecloud.mock_program import VARIABLE, MockCloud, find_program
from standins.processes.free_ports import draw_ports
from standins.processes.stand_ins import running
from tests.clusters import SPEED
from tests.infra.answering_apis import AnsweringApis
from tests.infra.build_scripts import ROOT
from tests.infra.mock_google_cloud import describe_programs
from tests.infra.terraform_cli import TERRAFORM
from tests.program_runs import run_program

pytestmark = [pytest.mark.deploy, pytest.mark.cluster, pytest.mark.by_hand, pytest.mark.timeout(900)]

BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/tpu-provisioner-provision"
BINDINGS = BINDING.rpartition("/")[0]
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
EXPORTER = "/api/v1/namespaces/tpu-provisioner"
IMAGE = f"exporter@sha256:{'0' * 64}"
"""The one that the kubelets run: demo/deploy/exporter_image.py."""
BUILDER = f"builder@{PROJECT}.iam.gserviceaccount.com"
SCOPES = ("https://www.googleapis.com/auth/userinfo.email",)
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

    assert [each for each in problems if f'User "{ACCOUNT}" cannot ' in each], problems
    assert problems == [each for each in problems if each.startswith("the cluster: ") and ACCOUNT in each]


def may_read_pods(api: httpx.Client) -> bool:
    spec = {"user": ACCOUNT, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    found = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=body).json()
    return bool(found["status"]["allowed"])


@pytest.fixture(scope="module")
def builder(
    loop: ClosedLoop, api: httpx.Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The environment of a build whose gcloud knows the cluster, and whose account may do all.

    GKE's answer is given here: its endpoint is the control plane's own address, because the mock
    forwards no watches.
    """
    folder = tmp_path_factory.mktemp("builder")
    (port,) = draw_ports(1)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": BUILDER}
    binding = {"metadata": {"name": "builder"}, "roleRef": role, "subjects": [subject]}
    api.post(BINDINGS, json=binding).raise_for_status()
    host = read_ports(loop.layout.ports_file("cluster"))["url"].removeprefix("https://")
    endpoints = {"dnsEndpointConfig": {"endpoint": host, "allowExternalTraffic": True}}
    with AnsweringApis() as gke:
        gke.answers[f"/v1/{CLUSTER_PATH}"] = {"name": CLUSTER, "controlPlaneEndpointsConfig": endpoints}
        forwards = {"container.googleapis.com": gke.url}
        mock = MockCloud(folder=folder, port=port, project=PROJECT, forwards=forwards)
        with running(mock.command(find_program() or ""), folder, mock.is_ready):
            yield describe_builder(loop, folder, mock)


def describe_builder(loop: ClosedLoop, folder: Path, mock: MockCloud) -> dict[str, str]:
    """Return a build's environment, with its account's token and what its earlier steps wrote."""
    trusted = folder / "trusted.pem"
    trusted.write_bytes(mock.authority.read_bytes() + loop.layout.authority.read_bytes())
    environ = describe_programs(folder, mock) | {"SSL_CERT_FILE": str(trusted)}
    (folder / "gcloud" / "token").write_text(loop.tokens.issue(BUILDER, "1", SCOPES))
    build = folder / "build"
    build.mkdir()
    shutil.copy(loop.layout.home / "outputs.json", build)
    (build / "exporter-image").write_text(IMAGE)
    inputs = {"PROJECT_ID": PROJECT, "REGION": LOCATION, "CREATE_ENVIRONMENT": "false"}
    return environ | inputs | {"CLUSTER_NAME": CLUSTER, "BUILD_FOLDER": str(build)}


def run_script(builder: dict[str, str], name: str, *, code: int = 0, **inputs: str) -> str:
    """Run one script of the builds, which must end with this code; return what it said."""
    done = run_program("bash", ROOT / "infra/build" / name, env=builder | inputs, cwd=ROOT, seconds=400)
    assert done.returncode == code, f"{name}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def test_the_builds_install_the_exporter_and_remove_it(builder: dict[str, str], api: httpx.Client) -> None:
    rolled_out = 'deployment "tpu-provisioner-exporter" successfully rolled out'
    answer = run_script(builder, "provision-09-exporter.sh", code=1, NAME="another")
    assert f"the cluster {CLUSTER} is served by another deployment" in answer
    assert rolled_out in run_script(builder, "provision-09-exporter.sh")

    answer = run_script(builder, "destroy-02-exporter.sh", NAME="another")
    assert f"Kept: the exporter and the node pools in {CLUSTER}" in answer
    api.get(EXPORTER)
    for _ in range(2):  # a second run changes nothing
        run_script(builder, "destroy-02-exporter.sh")
        for path in (EXPORTER, BINDING):
            with pytest.raises(httpx.HTTPStatusError, match="404"):
                api.get(path)

    assert rolled_out in run_script(builder, "provision-09-exporter.sh")
    bound = api.get(BINDING).json()["subjects"]
    assert [each["name"] for each in bound] == [ACCOUNT]


def test_the_builds_install_jobset_and_kueue(builder: dict[str, str], api: httpx.Client) -> None:
    """Of the releases; their webhooks then answer no more: there is no network of Services.

    Those of the local JobSet go first, because a cluster without JobSet has none. Go's module proxy
    is no part of the mock.
    """
    for kind in ("mutating", "validating"):
        api.delete(f"{WEBHOOKS}/{kind}webhookconfigurations/jobset-{kind}-webhook-configuration")
    asked = {"BUILD_FOLDER": builder["BUILD_FOLDER"], "JOBSET_API_VERSION": choose_version("jobset", "")}
    for kueue in (NONE, choose_version("kueue", "")):  # JobSet is installed twice
        asked |= {"CREATE_ENVIRONMENT": "false", "KUEUE_API_VERSION": kueue}
        run_script(os.environ | asked, "provision-06-fetch-queueing.sh")
        answer = run_script(builder | asked, "provision-08-install-queueing.sh")

    for each in PRODUCTS:
        assert f'deployment "{each}-controller-manager" successfully rolled out' in answer
    deployment = "/apis/apps/v1/namespaces/jobset-system/deployments/jobset-controller-manager"
    assert api.get(deployment).json()["metadata"]["generation"] == 1


def test_nothing_is_left(loop: ClosedLoop) -> None:
    assert loop.destroy() == []
