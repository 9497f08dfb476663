"""What keeps a destroy from beginning: pools of the deployment, and pods of people."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.build.in_use import list_own, list_pods
from shared.model.labels import DEPLOYMENT, MANAGER
from tests.infra.bench import BUILD
from tests.program_runs import run_python

DEPLOYED = "p_n"


def a_pod(namespace: str, *, node: str = "node", phase: str = "Running", owner: str = "Job") -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": "pod", "ownerReferences": [{"kind": owner}]}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


def a_pool(name: str, manager: str = "tpu-provisioner", deployment: str | None = DEPLOYED) -> dict[str, Any]:
    return {"name": name, "config": {"labels": {MANAGER: manager}, "resourceLabels": {DEPLOYMENT: deployment}}}


@pytest.mark.parametrize("namespace", ["default", "gke-prod", "gmp-apps", "kube-flow", "tpu-training", "kueue"])
def test_a_pod_of_a_person_is_found_whatever_its_namespace_begins_with(namespace: str) -> None:
    assert list(list_pods({"items": [a_pod(namespace)]})) == [f"{namespace}/pod"]


@pytest.mark.parametrize(
    "namespace",
    [
        *("kube-system", "kube-public", "kube-node-lease", "gke-managed-system", "gke-managed-cim", "gmp-system"),
        *("gmp-public", "gke-gmp-system", "tpu-provisioner", "jobset-system", "kueue-system"),
    ],
)
def test_googles_and_our_own_namespaces_do_not_count(namespace: str) -> None:
    assert list(list_pods({"items": [a_pod(namespace)]})) == []


def test_what_is_over_not_bound_or_of_a_daemon_does_not_count() -> None:
    pods = [
        a_pod("a", phase="Succeeded"),
        a_pod("a", phase="Failed"),
        a_pod("a", node=""),
        a_pod("a", owner="DaemonSet"),
    ]

    assert list(list_pods({"items": pods})) == []
    assert list(list_pods({"items": [a_pod("a", phase="Pending")]})) == ["a/pod"]


def test_only_the_deployments_own_pools_count() -> None:
    pools = [a_pool("ours"), a_pool("of-another", deployment="p_other"), a_pool("of-go", deployment=None)]

    assert list_own([*pools, a_pool("of-people", manager=""), {"name": "bare"}], DEPLOYED) == ["ours"]


def test_the_lines_name_both(tmp_path: Path) -> None:
    (tmp_path / "pools.json").write_text(json.dumps([a_pool("ours")]))
    (tmp_path / "pods.json").write_text(json.dumps({"items": [a_pod("gke-prod")]}))
    words = (BUILD / "in_use.py", f"--deployment={DEPLOYED}", tmp_path / "pools.json")

    assert run_python(*words, tmp_path / "pods.json").stdout == "node pool ours\npod gke-prod/pod\n"
    assert run_python(*words, "--pools").stdout == "ours\n"
