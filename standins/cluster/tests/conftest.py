"""One cluster as a process for all tests of this folder, and a namespace for each."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from standins.kit.kubernetes import open_client
from standins.kit.processes import running_stand_in

Json = dict[str, Any]

_numbers = itertools.count()


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cluster")
    arguments = ("--kubeconfig-file", str(folder / "kubeconfig"), "--speed", "300")
    with running_stand_in(folder, "standins.cluster", *arguments, environment={"PYTHONWARNINGS": "error"}):
        yield folder / "kubeconfig"


@pytest.fixture(scope="session")
def http(kubeconfig: Path) -> Iterator[httpx.Client]:
    with open_client(kubeconfig) as client:
        yield client


@pytest.fixture
def namespace(http: httpx.Client) -> Iterator[str]:
    name = f"api-{next(_numbers)}"
    http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    yield name
    http.delete(f"/api/v1/namespaces/{name}")


def jobset(name: str = "train", **spec: Any) -> Json:
    """Return a JobSet with one slice of two hosts, exclusive on its pool."""
    container = {"name": "worker", "image": "worker", "resources": {"limits": {"google.com/tpu": 4}}}
    pod = {"restartPolicy": "Never", "nodeSelector": {"slot": "never"}, "containers": [container]}
    job = {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": {"spec": pod}}
    placement = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": placement},
        "spec": {"replicatedJobs": [{"name": "slice", "replicas": 1, "template": {"spec": job}}]} | spec,
    }
