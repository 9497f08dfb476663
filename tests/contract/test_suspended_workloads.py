"""Suspended workloads at the edge: the embedded cluster lists them, and changes them in place."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import NotFound, StaleView
from shared.core.kinds.table import KINDS, choose_kinds
from shared.core.workloads import WorkloadView
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.edges.kubernetes_cluster import KubernetesCluster
from shared.edges.kubernetes_objects import Page
from standins.processes.stand_ins import wait_until
from tests.contract.cluster_worlds import JOBSETS, open_edge
from tests.contract.stand_ins import ask, stand_in
from tests.contract.test_cluster_port import PODS, a_jobset_body


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with stand_in(tmp_path, "standins.cluster", "serve", "--speed", "30") as ports:
        yield ports["url"]


def change(
    edge: KubernetesCluster, marks: dict[str, str | None], *, suspended: bool | None = None
) -> WorkloadView:
    """Change the JobSet; its controller writes on it too, so it may take more than one reading."""
    for _ in range(20):
        seen = edge.get_workload("JobSet", "default", "asks")
        assert seen is not None
        with contextlib.suppress(StaleView):
            return edge.change_workload(seen, marks, suspended=suspended)
    raise AssertionError("the JobSet is written by others all the time")


def test_a_suspended_jobset_is_found_changed_in_place_and_resumed(url: str) -> None:
    edge = open_edge(url)
    body = a_jobset_body("asks", chips=4, slices=2)
    body["metadata"]["annotations"] = {labels.CAPACITY_FIRST: "true"}
    body["spec"]["suspend"] = True
    ask("POST", f"{url}{JOBSETS}", body)
    ask("POST", f"{url}{JOBSETS}", a_jobset_body("plain", chips=0, slices=1))

    (seen,) = edge.list_asking_workloads()
    assert (seen.name, seen.suspended, seen.marks) == ("asks", True, {labels.CAPACITY_FIRST: "true"})
    marked = change(edge, {labels.CAPACITY_FIRST_ROUND: "0 from x"})
    assert marked.suspended
    assert marked.marks[labels.CAPACITY_FIRST_ROUND] == "0 from x"
    with pytest.raises(StaleView):
        edge.change_workload(dataclasses.replace(marked, version="1"), {}, suspended=False)
    resumed = change(
        edge, {labels.CAPACITY_FIRST_RESUMED: "t", labels.CAPACITY_FIRST_ROUND: None}, suspended=False
    )
    assert not resumed.suspended
    assert labels.CAPACITY_FIRST_ROUND not in resumed.marks
    assert list(edge.list_asking_workloads()) == []

    def has_pods() -> bool:
        return any(pod["metadata"]["name"].startswith("asks-") for pod in ask("GET", f"{url}{PODS}")["items"])

    wait_until(has_pods, what="the controller's pods")


RAYJOBS = "/apis/ray.io/v1/namespaces/default/rayjobs"


class Keeping(KubernetesApi):
    """Has two RayJobs and keeps the patches; the embedded cluster does not know the kind."""

    def __init__(self, *, installed: bool = True) -> None:
        super().__init__(Connection(url="http://nowhere.invalid"))
        self.installed = installed
        self.patches: list[tuple[str, Any]] = []
        spec: dict[str, Any] = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": {"a": "b"}}
        meta = {"namespace": "default", "uid": "u", "resourceVersion": "7"}
        asks = {"annotations": {labels.CAPACITY_FIRST: "true"}}
        self.bodies: list[Any] = [
            {"metadata": meta | asks | {"name": "asks"}, "spec": spec},
            {"metadata": meta | {"name": "plain"}, "spec": spec},
            {"metadata": meta | asks | {"name": "unreadable"}, "spec": {"suspend": "yes"}},
        ]

    def list_pages(self, path: str, kind: Any, params: Any = None, **_: Any) -> Any:
        """Return the RayJobs of all namespaces."""
        del kind, params
        assert path == "/apis/ray.io/v1/rayjobs"
        if not self.installed:
            raise NotFound("the server could not find the requested resource")
        yield Page(items=self.bodies)

    def patch(self, path: str, body: Any, content_type: str = "", kind: Any = None, params: Any = None) -> Any:
        """Keep a patch."""
        del content_type, kind, params
        self.patches.append((path, body))
        return self.bodies[0]


def test_a_suspended_rayjob_is_found_and_resumed_with_its_raycluster_suspended_in_one_patch() -> None:
    api = Keeping()
    edge = KubernetesCluster(api)
    (seen,) = edge.list_asking_parents()
    assert (seen.kind, seen.name, seen.suspended, seen.unfit) == ("RayJob", "asks", True, None)

    edge.change_workload(seen, {labels.CAPACITY_FIRST_HANDED: "t"}, suspended=False)
    edge.change_workload(seen, {labels.CAPACITY_FIRST_HANDED: "t"})
    metadata = {"uid": "u", "resourceVersion": "7", "annotations": {labels.CAPACITY_FIRST_HANDED: "t"}}
    resumed = {"suspend": False, "rayClusterSpec": {"suspend": True}}
    assert api.patches == [
        (f"{RAYJOBS}/asks", {"metadata": metadata, "spec": resumed}),
        (f"{RAYJOBS}/asks", {"metadata": metadata}),
    ]


def test_without_kuberay_and_without_its_kind_in_the_settings_there_is_no_parent() -> None:
    assert list(KubernetesCluster(Keeping(installed=False)).list_asking_parents()) == []
    jobs = choose_kinds({each.name for each in KINDS} - {"RayCluster"})
    assert list(KubernetesCluster(Keeping(), kinds=jobs).list_asking_parents()) == []
