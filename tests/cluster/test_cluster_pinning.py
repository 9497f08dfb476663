"""The optional policy that keeps a slice on its pool, on real API server, scheduler and JobSet.

The programs are Kubernetes 1.34, where policies that change objects are beta: the manifests say v1,
which 1.36 serves with the same fields, and are applied as v1beta1 here.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from cli.access.kubeconfig import connection_from_kubeconfig
from shared.edges.cluster import KubernetesCluster
from shared.edges.kubernetes import KubernetesApi
from shared.engine.budget import Key
from shared.engine.reconcile import Role, reconcile
from shared.kinds.jobset import JOB_KEY
from shared.model.labels import DISABLE_AUTOPROVISIONING, NODE_POOL
from standins.controlplane.chart import read_chart
from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import SELECTOR, World, clearing, jobset, wait_for
from tests.builders import CLUSTER, PINNED_JOB_KEY
from tests.engine import world as engine_world

pytestmark = pytest.mark.cluster

Json = dict[str, Any]

CHART = Path(__file__).resolve().parents[2] / "infra/helm"
OPT_OUT = {DISABLE_AUTOPROVISIONING: "true"}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def pinned_plane() -> Iterator[ControlPlane]:
    """A control plane of its own: here the policy sees every Job."""
    with ControlPlane() as plane:
        objects = read_chart(CHART, {"pinning": True})
        policies = [each for each in objects if each["kind"].startswith("MutatingAdmissionPolicy")]
        for each in policies:
            assert each["apiVersion"] == "admissionregistration.k8s.io/v1"
            each["apiVersion"] = "admissionregistration.k8s.io/v1beta1"
        own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tpu-provisioner"}}
        plane.apply([own, *policies])  # without a namespace of its own the provisioner only reports
        with clearing(World(plane)) as probe:
            wait_for(
                "the policy to be in force",
                lambda: PINNED_JOB_KEY in selector_of(probe, a_job(f"j{next(_numbers)}")),
            )
        yield plane


@pytest.fixture
def world(pinned_plane: ControlPlane) -> Iterator[World]:
    with clearing(World(pinned_plane)) as world:
        yield world


def a_job(name: str) -> Json:
    """What JobSet's controller creates for one slice, as far as the policy looks."""
    container = {"name": "worker", "image": "worker", "resources": {"limits": {"google.com/tpu": 4}}}
    spec = {"restartPolicy": "Never", "nodeSelector": dict(SELECTOR), "containers": [container]}
    template = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {JOB_KEY: "key-of-it"}},
        "spec": {"template": template},
    }


def selector_of(world: World, job: Json) -> Json:
    """Return the node selector with which a Job would be stored."""
    path = f"/apis/batch/v1/namespaces/{world.namespace}/jobs?dryRun=All"
    pod = world.api.post(path, json=job).json()["spec"]["template"]["spec"]
    found: Json = pod.get("nodeSelector", {})
    return found


def test_a_slices_job_is_given_its_key_beside_its_own_selectors(world: World) -> None:
    assert selector_of(world, a_job("slice")) == SELECTOR | {PINNED_JOB_KEY: "key-of-it"}


def test_a_job_without_any_selector_is_given_its_key(world: World) -> None:
    job = a_job("slice")
    del job["spec"]["template"]["spec"]["nodeSelector"]
    assert selector_of(world, job) == {PINNED_JOB_KEY: "key-of-it"}


def test_a_job_whose_pods_say_nothing_of_themselves_is_given_its_key(world: World) -> None:
    job = a_job("slice")
    del job["spec"]["template"]["metadata"]
    assert PINNED_JOB_KEY in selector_of(world, job)


def change(job: Json, what: str) -> Json:
    template = job["spec"]["template"]
    pod = template["spec"]
    match what:
        case "a plain Job":
            job["metadata"]["labels"] = {"a": "b"}
        case "opted out by the Job":
            job["metadata"]["labels"] |= OPT_OUT
        case "opted out by a label of its pods":
            template["metadata"]["labels"] |= OPT_OUT
        case "opted out by an annotation of its pods":
            template["metadata"]["annotations"] |= OPT_OUT
        case "no TPUs":
            pod["nodeSelector"] = {"pool": "cpu"}
            pod["containers"][0]["resources"] = {}
        case "a pool by its name":
            pod["nodeSelector"][NODE_POOL] = "mine"
        case "a key of its own":
            pod["nodeSelector"][PINNED_JOB_KEY] = "mine"
    return job


@pytest.mark.parametrize(
    "what",
    [
        "a plain Job",
        "opted out by the Job",
        "opted out by a label of its pods",
        "opted out by an annotation of its pods",
        "no TPUs",
        "a pool by its name",
        "a key of its own",
    ],
)
def test_these_jobs_are_left_as_they_are(world: World, what: str) -> None:
    job = change(a_job("other"), what)
    assert selector_of(world, job) == job["spec"]["template"]["spec"]["nodeSelector"]


def test_a_refusal_to_opt_out_is_none(world: World) -> None:
    job = a_job("slice")
    job["spec"]["template"]["metadata"]["labels"] |= {DISABLE_AUTOPROVISIONING: "false"}
    assert PINNED_JOB_KEY in selector_of(world, job)


def list_asked(kubeconfig: Path, world: World) -> dict[str, dict[str, str]]:
    """Return the labels of the pools that a JobSet gets, by the key of their Job."""
    functions = engine_world.World()
    cluster = KubernetesCluster(KubernetesApi(connection_from_kubeconfig(kubeconfig)))
    ports = structs.replace(functions.ports, clusters={CLUSTER: cluster})
    result = reconcile(Key(CLUSTER, "JobSet", world.namespace, "train"), Role.PROVISION, ports)
    assert not result.errors
    return {pool.labels[PINNED_JOB_KEY]: pool.labels for pool in functions.gke.pools.values()}


def bound(world: World) -> dict[str, str]:
    """The nodes that pods are bound to, by Job."""
    return {
        pod["metadata"]["labels"]["job-name"]: pod["spec"]["nodeName"].rsplit("-", 1)[0]
        for pod in world.pods()
        if pod["spec"].get("nodeName")
    }


def test_each_slice_of_a_jobset_runs_on_its_own_pool_whichever_comes_first(
    pinned_plane: ControlPlane, world: World
) -> None:
    world.submit(jobset("train", slices=2))
    leaders = wait_for("both leaders", lambda: found if len(found := world.unschedulable()) == 2 else [])
    by_key = list_asked(pinned_plane.kubeconfig, world)
    metadata = [pod["metadata"]["labels"] for pod in leaders]
    asked = {each["job-name"]: by_key[each[JOB_KEY]] for each in metadata}

    world.add_pool("of-nobody")
    world.add_pool("of-1", labels=asked["train-slice-1"])
    wait_for("all pods of the second slice", lambda: len(running(world, "train-slice-1")) == 4)
    assert bound(world) == {"train-slice-1": f"{world.namespace}-of-1"}

    world.add_pool("of-0", labels=asked["train-slice-0"])
    wait_for("all pods of the first slice", lambda: len(running(world, "train-slice-0")) == 4)
    assert bound(world)["train-slice-0"] == f"{world.namespace}-of-0"


def test_a_jobset_whose_jobs_opt_out_runs_on_whatever_fits(world: World) -> None:
    body = jobset("train", slices=1)
    body["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"labels": OPT_OUT}
    world.submit(body)
    world.add_pool("of-nobody")

    wait_for("all pods", lambda: len(running(world, "train-slice-0")) == 4)
    assert bound(world) == {"train-slice-0": f"{world.namespace}-of-nobody"}


def running(world: World, job: str) -> list[Json]:
    return [
        pod for pod in world.pods() if pod["metadata"]["labels"]["job-name"] == job and pod["spec"].get("nodeName")
    ]
