"""Suspended workloads at the edge: the embedded cluster lists them, and changes them in place of what was read."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING

import pytest

from shared.core import labels
from shared.core.errors import StaleView
from tests.contract.cluster_worlds import JOBSETS, open_edge
from tests.contract.stand_ins import ask, stand_in
from tests.contract.test_cluster_port import PODS, a_jobset_body

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.core.workloads import WorkloadView
    from shared.edges.kubernetes_cluster import KubernetesCluster


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
    give_up_at = time.monotonic() + 60
    while not [pod for pod in ask("GET", f"{url}{PODS}")["items"] if pod["metadata"]["name"].startswith("asks-")]:
        assert time.monotonic() < give_up_at, "the controller made no pods"
        time.sleep(0.05)
