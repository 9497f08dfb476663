"""The chart as it is applied to GKE, taken by a real API server.

What no API server shows stays unproved here: that a data plane honours the NetworkPolicy, and that
the managed collection scrapes.
"""

import copy
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from standins.controlplane.chart import read_chart
from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import wait_for
from tests.cluster.kubernetes_manifests import CHART, EXPORTER, NAMESPACE, VALUES, read_pod
from tests.cluster.pod_monitoring import DEFINITION
from tests.cluster.pod_monitoring import NAME as MONITORING

pytestmark = [pytest.mark.cluster, pytest.mark.tool]

Json = dict[str, Any]

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{EXPORTER}"


def run_kubectl(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    found = shutil.which("kubectl")
    if found is None:
        pytest.fail("this test needs kubectl: https://kubernetes.io/docs/tasks/tools/")
    return subprocess.run([found, *arguments], input=text, capture_output=True, text=True, timeout=90, check=False)


@pytest.fixture(scope="module")
def rendered() -> str:
    return yaml.safe_dump_all(read_chart(CHART, VALUES))


@pytest.fixture
def apply(plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """`kubectl apply` as the build does it; the pods that come of it end with the test."""

    def run(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        place = ("--kubeconfig", str(plane.kubeconfig), "--cache-dir", str(tmp_path / "cache"))
        how = ("--server-side", "--force-conflicts", "--field-manager=tpu-provisioner-build")
        return run_kubectl(*place, "apply", *how, *options, "-f", "-", text=text)

    yield run
    if DEPLOYMENT.rsplit("/", 1)[1] in names(plane, DEPLOYMENT.rsplit("/", 1)[0]):
        plane.api.delete(DEPLOYMENT, params={"propagationPolicy": "Foreground"})
    wait_for("the end of the pods", lambda: not names(plane, PODS))


def names(plane: ControlPlane, folder: str) -> list[str]:
    return [each["metadata"]["name"] for each in plane.api.get(folder).json()["items"]]


def test_a_real_api_server_takes_all_of_it_twice_and_makes_two_pods(
    plane: ControlPlane, apply: Callable[..., subprocess.CompletedProcess[str]], rendered: str
) -> None:
    count = len(list(yaml.safe_load_all(rendered)))
    # Where metrics are not collected, that is said, and the rest is in place.
    without = apply(rendered)
    assert without.returncode != 0
    assert 'no matches for kind "PodMonitoring"' in without.stderr
    assert without.stdout.count("serverside-applied") == count - 1
    try:
        assert apply(json.dumps(DEFINITION)).returncode == 0
        wait_for("PodMonitoring to be known", lambda: apply(rendered).returncode == 0)
        dry, again = apply(rendered, "--dry-run=server"), apply(rendered)
        assert dry.stdout.count("serverside-applied (server dry run)") == count
        assert again.stdout.count("serverside-applied") == count
        assert "Warning" not in dry.stderr + again.stderr
    finally:
        plane.api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{MONITORING}")

    pods = wait_for("both pods", lambda: two_pods(plane))
    assert plane.api.get(DEPLOYMENT).json()["metadata"]["generation"] == 1
    for pod in pods:
        # Only this pod asked for the account's token.
        assert [each["name"].startswith("kube-api-access-") for each in pod["spec"]["volumes"]] == [True]


def two_pods(plane: ControlPlane) -> list[Json]:
    found: list[Json] = plane.api.get(PODS).json()["items"]
    return found if len(found) == 2 else []


LOOSE: dict[str, Callable[[Json, Json], object]] = {
    "as root": lambda pod, container: pod["securityContext"].pop("runAsNonRoot"),
    "any system call": lambda pod, container: pod["securityContext"].pop("seccompProfile"),
    "becoming more": lambda pod, container: container["securityContext"].pop("allowPrivilegeEscalation"),
    "all capabilities": lambda pod, container: container["securityContext"].pop("capabilities"),
    "the host's network": lambda pod, container: pod.update(hostNetwork=True),
    "the host's files": lambda pod, container: pod.update(volumes=[{"name": "h", "hostPath": {"path": "/"}}]),
}


@pytest.mark.parametrize("loosen", LOOSE.values(), ids=LOOSE)
def test_a_pod_with_more_freedom_is_refused(
    plane: ControlPlane,
    apply: Callable[..., subprocess.CompletedProcess[str]],
    rendered: str,
    loosen: Callable[[Json, Json], object],
) -> None:
    objects = [each for each in yaml.safe_load_all(rendered) if each["kind"] in ("Namespace", "ServiceAccount")]
    done = apply(yaml.safe_dump_all(objects))
    assert done.returncode == 0, done.stderr
    pod = {"metadata": {"name": "pod"}, "spec": copy.deepcopy(read_pod()["spec"])}
    plane.api.post(f"{PODS}?dryRun=All", json=pod)
    loosen(pod["spec"], pod["spec"]["containers"][0])

    with pytest.raises(httpx.HTTPStatusError, match=r"403: .*violates PodSecurity .{1,2}restricted"):
        plane.api.post(f"{PODS}?dryRun=All", json=pod)
