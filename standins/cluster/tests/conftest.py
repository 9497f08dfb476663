"""Fixtures of the cluster's tests: each of the two clusters, and clients of them."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from standins.cluster.tests.cluster_processes import (
    REQUEST_SECONDS,
    BreakableCluster,
    BreakableEmbedded,
    BreakableReal,
    RunningCluster,
    running_cluster,
)
from standins.cluster.tests.cluster_watching import make_namespace
from standins.controlplane.commands import Choices
from standins.controlplane.plane import ControlPlane
from standins.processes.kubeconfig import open_client
from standins.processes.stand_ins import wait_until

REAL = "real"
"""The value of the fixture `cluster_kind` (tests/clusters.py) for the real control plane."""
_numbers = itertools.count()


@pytest.fixture(scope="session")
def kubeconfig(
    cluster_kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """How to reach each of the two clusters in turn, for tests that do not break it."""
    if cluster_kind == REAL:
        yield request.getfixturevalue("plane").kubeconfig
        return
    with running_cluster(tmp_path_factory.mktemp("cluster"), "--speed", "300") as cluster:
        yield cluster.kubeconfig


@pytest.fixture(scope="module")
def breakable(
    cluster_kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BreakableCluster]:
    """Each of the two clusters in turn, for tests that make them forget and break off.

    For one module only: forgetting the history every second keeps one core busy.
    """
    if cluster_kind == REAL:
        with ControlPlane(request.getfixturevalue("build"), Choices(compaction_seconds=1)) as plane:
            yield BreakableReal(plane)
        return
    with running_cluster(tmp_path_factory.mktemp("breakable"), "--speed", "300") as cluster:
        yield BreakableEmbedded(cluster)


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    """An embedded cluster of the test's own, for tests that run on this one only."""
    with running_cluster(tmp_path, "--speed", "300") as cluster:
        yield cluster


@pytest.fixture
def own_http(own_cluster: RunningCluster) -> Iterator[httpx.Client]:
    with open_client(own_cluster.kubeconfig) as client:
        yield client


@pytest.fixture
def http(kubeconfig: Path) -> Iterator[httpx.Client]:
    with open_client(kubeconfig, timeout_seconds=REQUEST_SECONDS) as client:
        yield client


@pytest.fixture
def namespace(http: httpx.Client) -> Iterator[str]:
    """A namespace of the test's own; its objects and nodes are removed after the test."""
    name = f"api-{next(_numbers)}"
    nodes = node_names(http)
    make_namespace(http, name)
    yield name
    for node in node_names(http) - nodes:
        answer = http.delete(f"/api/v1/nodes/{node}")
        assert answer.is_success or answer.status_code == 404, answer.text
    http.delete(f"/api/v1/namespaces/{name}")
    wait_until(lambda: _has_no_pods(http, name))


def node_names(http: httpx.Client) -> set[str]:
    return {node["metadata"]["name"] for node in http.get("/api/v1/nodes").json()["items"]}


def _has_no_pods(http: httpx.Client, namespace: str) -> bool:
    """Delete all pods at once: without a kubelet no pod on a node ends by itself.

    The namespace is gone some seconds later. No test waits for that.
    """
    path = f"/api/v1/namespaces/{namespace}/pods"
    http.delete(path, params={"gracePeriodSeconds": "0"})
    return not http.get(path).json().get("items")
