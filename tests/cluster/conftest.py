"""Fixtures of the cluster's tests: each of the two clusters, clients of it, a cluster on a manual clock."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import kubernetes
import pytest
from bounded_polling import wait_until
from cluster_processes import (
    REQUEST_SECONDS,
    BreakableCluster,
    BreakableEmbedded,
    BreakableReal,
    RunningCluster,
    running_cluster,
)
from embedded_world import EmbeddedWorld
from real_world import RealWorld

from local.controlplane.commands import Choices
from local.controlplane.plane import ControlPlane
from local.stack.access import open_kubernetes
from local.stack.clusters import ClusterKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx
    from cluster_world import World

_numbers = itertools.count()


@pytest.fixture(scope="session")
def kubeconfig(
    cluster_kind: ClusterKind, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """How to reach each of the two clusters in turn; whoever uses it breaks nothing."""
    if cluster_kind is ClusterKind.REAL:
        yield request.getfixturevalue("plane").kubeconfig
        return
    with running_cluster(tmp_path_factory.mktemp("cluster"), "--speed", "300") as cluster:
        yield cluster.kubeconfig


@pytest.fixture(scope="module")
def breakable(
    cluster_kind: ClusterKind, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BreakableCluster]:
    """Each of the two clusters in turn, for tests that make them forget and break off.

    For one module: a history that is forgotten every second keeps a core busy to no end.
    """
    if cluster_kind is ClusterKind.REAL:
        with ControlPlane(request.getfixturevalue("build"), Choices(compaction_seconds=1)) as plane:
            yield BreakableReal(plane)
        return
    with running_cluster(tmp_path_factory.mktemp("breakable"), "--speed", "300") as cluster:
        yield BreakableEmbedded(cluster)


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    """An embedded cluster of the test's own."""
    with running_cluster(tmp_path, "--speed", "300") as cluster:
        yield cluster


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[kubernetes.client.ApiClient]:
    with kubernetes.config.new_client_from_config(config_file=str(kubeconfig)) as client:
        yield client


@pytest.fixture
def core(api: kubernetes.client.ApiClient) -> kubernetes.client.CoreV1Api:
    return kubernetes.client.CoreV1Api(api)


@pytest.fixture
def http(kubeconfig: Path) -> Iterator[httpx.Client]:
    with open_kubernetes(kubeconfig, timeout_seconds=REQUEST_SECONDS) as client:
        yield client


@pytest.fixture
def namespace(http: httpx.Client) -> Iterator[str]:
    """A namespace of the test's own; what it leaves behind, nodes too, is gone after the test."""
    name = f"api-{next(_numbers)}"
    nodes = node_names(http)
    http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    # No pod is admitted before its account is there: https://kubernetes.io/docs/concepts/security/service-accounts/.
    wait_until(lambda: http.get(f"/api/v1/namespaces/{name}/serviceaccounts/default").is_success)
    yield name
    for node in node_names(http) - nodes:
        answer = http.delete(f"/api/v1/nodes/{node}")
        assert answer.is_success or answer.status_code == 404, answer.text
    http.delete(f"/api/v1/namespaces/{name}")
    wait_until(lambda: _has_no_pods(http, name))


def node_names(http: httpx.Client) -> set[str]:
    return {node["metadata"]["name"] for node in http.get("/api/v1/nodes").json()["items"]}


def _has_no_pods(http: httpx.Client, namespace: str) -> bool:
    """Ask for the end of every pod again and again: nobody ends pods on nodes without a kubelet.

    The namespace itself goes some seconds later, and nobody has to wait for it.
    """
    path = f"/api/v1/namespaces/{namespace}/pods"
    http.delete(path, params={"gracePeriodSeconds": "0"})
    return not http.get(path).json().get("items")


@pytest.fixture
def world(cluster_kind: ClusterKind, request: pytest.FixtureRequest) -> Iterator[World]:
    """What the controllers' tests are written in, on each of the two clusters."""
    if cluster_kind is ClusterKind.EMBEDDED:
        yield EmbeddedWorld()
        return
    with RealWorld(request.getfixturevalue("plane").kubeconfig) as world:
        yield world


@pytest.fixture
def embedded_world() -> EmbeddedWorld:
    """For tests that only make sense in virtual time; `embedded_only` says why, one by one."""
    return EmbeddedWorld()
