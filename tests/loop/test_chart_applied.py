"""The chart and its optional policy on a real API server, scheduler and JobSet.

What no API server shows stays unproved here: that a data plane honours the NetworkPolicy, and that
the managed collection scrapes. The programs are Kubernetes 1.34, where policies that change objects
are beta: the chart says v1, which 1.36 serves with the same fields.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml

from shared.kinds.jobset import JOB_KEY
from shared.model.labels import DISABLE_AUTOPROVISIONING, NODE_POOL
from standins.controlplane.chart import read_chart
from standins.controlplane.plane import ControlPlane
from tests.builders import PINNED_JOB_KEY
from tests.infra.chart import CHART, EXPORTER, NAMESPACE, POD, VALUES
from tests.loop.bodies import build_workload, set_fields
from tests.loop.cloud import wait_for
from tests.loop.plane_worlds import SELECTOR, World, jobset
from tests.loop.workload import is_unschedulable
from tests.program_runs import run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.loop.bodies import Json

pytestmark = [pytest.mark.cluster, pytest.mark.tool]
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{EXPORTER}"


def test_an_api_server_takes_it_twice_makes_two_pods_and_refuses_looser_ones(
    plane: ControlPlane, tmp_path: Path
) -> None:
    text = yaml.safe_dump_all(read_chart(CHART, VALUES | {"monitoring": False}))
    place = ("--kubeconfig", plane.kubeconfig, "--cache-dir", tmp_path)
    for _ in range(2):
        words = (*place, "apply", "--server-side", "--force-conflicts", "-f", "-")
        answer = run_program("kubectl", *words, input=text)
        assert (answer.returncode, "Warning" in answer.stderr) == (0, False), answer.stderr
    wait_for("both pods", lambda: len(plane.api.get(PODS).json()["items"]) == 2)
    assert plane.api.get(DEPLOYMENT).json()["metadata"]["generation"] == 1
    for loosen in LOOSE:
        pod = {"metadata": {"name": "pod"}, "spec": copy.deepcopy(POD["spec"])}
        plane.api.post(f"{PODS}?dryRun=All", json=pod)
        loosen(pod["spec"], pod["spec"]["containers"][0])
        with pytest.raises(httpx.HTTPStatusError, match=r"403: .*violates PodSecurity .{1,2}restricted"):
            plane.api.post(f"{PODS}?dryRun=All", json=pod)
    plane.api.delete(DEPLOYMENT, params={"propagationPolicy": "Foreground"})
    wait_for("the end of the pods", lambda: not plane.api.get(PODS).json()["items"])


LOOSE: tuple[Callable[[Json, Json], object], ...] = (
    lambda pod, _container: pod["securityContext"].pop("runAsNonRoot"),
    lambda pod, _container: pod["securityContext"].pop("seccompProfile"),
    lambda _pod, container: container["securityContext"].pop("allowPrivilegeEscalation"),
    lambda _pod, container: container["securityContext"].pop("capabilities"),
    lambda pod, _container: pod.update(hostNetwork=True),
    lambda pod, _container: pod.update(volumes=[{"name": "h", "hostPath": {"path": "/"}}]),
)


# --- the policy that keeps a slice on its pool


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A namespace of a control plane of its own: here the policy sees every Job."""
    with ControlPlane() as plane:
        objects = [each for each in read_chart(CHART, {"pinning": True}) if each["kind"].startswith("MutatingAdm")]
        plane.apply([each | {"apiVersion": "admissionregistration.k8s.io/v1beta1"} for each in objects])
        with World(plane) as world:
            wait_for("the policy", lambda: PINNED_JOB_KEY in find_selector(world, a_job()))
            yield world


def a_job(name: str = "slice", **changes: object) -> Json:
    """What JobSet's controller creates for one slice, as far as the policy looks."""
    place = {"pod": {"nodeSelector": SELECTOR}, "metadata": {"labels": {JOB_KEY: "key-of-it"}}}
    return set_fields(build_workload({"kind": "Job", "tpu": "4x4", "queued": True} | place, name), changes)


def find_selector(world: World, job: Json) -> Json:
    """Return the node selector with which a Job would be stored."""
    path = f"/apis/batch/v1/namespaces/{world.namespace}/jobs?dryRun=All"
    selector: Json = world.api.post(path, json=job).json()["spec"]["template"]["spec"].get("nodeSelector", {})
    return selector


OF_POD = "spec/template/spec"
OPT_OUT = {DISABLE_AUTOPROVISIONING: "true"}
PINNED: dict[str, Json] = {
    "as it is made": {},
    "without a selector": {f"{OF_POD}/nodeSelector": {}},
    "whose pods say nothing": {"spec/template/metadata": {}},
    "that does not opt out": {"spec/template/metadata/labels": {DISABLE_AUTOPROVISIONING: "false"}},
}
LEFT: dict[str, Json] = {
    "of no JobSet": {"metadata/labels": {"a": "b"}},
    "opted out": {"metadata/labels": {JOB_KEY: "key-of-it"} | OPT_OUT},
    "opted out by its pods": {"spec/template/metadata/labels": OPT_OUT},
    "opted out by a note": {"spec/template/metadata/annotations": OPT_OUT},
    "without TPUs": {f"{OF_POD}/nodeSelector": {"pool": "cpu"}, f"{OF_POD}/containers/0/resources": {}},
    "of a pool by name": {f"{OF_POD}/nodeSelector": SELECTOR | {NODE_POOL: "mine"}},
    "with a key of its own": {f"{OF_POD}/nodeSelector": SELECTOR | {PINNED_JOB_KEY: "mine"}},
}


@pytest.mark.parametrize("what", [*PINNED, *LEFT])
def test_the_policy_pins_a_job(world: World, what: str) -> None:
    job = a_job(**(PINNED | LEFT)[what])
    own = job["spec"]["template"]["spec"]["nodeSelector"]

    assert find_selector(world, job) == own | ({PINNED_JOB_KEY: "key-of-it"} if what in PINNED else {})


def test_each_slice_runs_on_its_own_pool_whichever_comes_first(world: World) -> None:
    world.submit(jobset("train", slices=2))
    wait_for("both leaders", lambda: sum(map(is_unschedulable, world.pods())) == 2)
    keys = {pod["metadata"]["labels"]["job-name"]: pod["metadata"]["labels"][JOB_KEY] for pod in world.pods()}

    world.add_pool("of-nobody")
    for job in ("train-slice-1", "train-slice-0"):
        world.add_pool(f"of-{job}", labels={PINNED_JOB_KEY: keys[job]})
        wait_for(f"all pods of {job}", lambda job=job: len(list_hosts(world, job)) == 4)  # type: ignore[misc]
        assert all(f"-of-{job}-" in host for host in list_hosts(world, job))
        assert not any("of-nobody" in pod["spec"].get("nodeName", "") for pod in world.pods())


def list_hosts(world: World, job: str) -> list[str]:
    """Return the nodes of the pods of a Job."""
    pods = [pod for pod in world.pods() if pod["metadata"]["labels"]["job-name"] == job]
    return [pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]]
