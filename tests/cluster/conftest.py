"""Fixtures of the cluster's tests: a shared process, one of its own, clients, a cluster on a manual clock."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import httpx
import kubernetes
import pytest
from cluster_objects import World
from cluster_processes import RunningCluster, api_client, running_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_namespaces = itertools.count()


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), "--speed", "300") as cluster:
        yield cluster


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path, "--speed", "300") as cluster:
        yield cluster


@pytest.fixture
def api(shared_cluster: RunningCluster) -> Iterator[kubernetes.client.ApiClient]:
    with api_client(shared_cluster) as client:
        yield client


@pytest.fixture
def core(api: kubernetes.client.ApiClient) -> kubernetes.client.CoreV1Api:
    return kubernetes.client.CoreV1Api(api)


@pytest.fixture
def http(shared_cluster: RunningCluster) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared_cluster.url, trust_env=False, timeout=10) as client:
        yield client


@pytest.fixture
def namespace(http: httpx.Client) -> str:
    name = f"test-{next(_namespaces)}"
    http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    return name


@pytest.fixture
def world() -> World:
    return World()
