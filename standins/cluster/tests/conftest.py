"""Fixtures of the cluster's tests: one cluster as a process, and clients of it."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from standins.kit.kubernetes import open_client
from standins.kit.processes import Child, running_stand_in

_numbers = itertools.count()


@dataclass(frozen=True)
class RunningCluster:
    """The embedded cluster as a process."""

    url: str
    kubeconfig: Path
    child: Child


def make_namespace(http: httpx.Client, name: str) -> None:
    """Create a namespace with its account, without which the real cluster admits no pod."""
    http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    path = f"/api/v1/namespaces/{name}/serviceaccounts"
    assert http.post(path, json={"metadata": {"name": "default"}}).status_code in {201, 409}


@contextmanager
def running_cluster(folder: Path) -> Iterator[RunningCluster]:
    kubeconfig = folder / "kubeconfig"
    arguments = ("--kubeconfig-file", str(kubeconfig), "--speed", "300")
    warnings_fail = {"PYTHONWARNINGS": "error"}
    with running_stand_in(folder, "standins.cluster", *arguments, environment=warnings_fail) as stand_in:
        yield RunningCluster(stand_in.addresses["url"], kubeconfig, stand_in.child)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def http(cluster: RunningCluster) -> Iterator[httpx.Client]:
    with open_client(cluster.kubeconfig) as client:
        yield client


@pytest.fixture
def namespace(http: httpx.Client) -> Iterator[str]:
    """A namespace of the test's own, which ends with it."""
    name = f"api-{next(_numbers)}"
    make_namespace(http, name)
    yield name
    http.delete(f"/api/v1/namespaces/{name}")
