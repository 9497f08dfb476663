"""The demo with one's own manifests: lists as a cluster prints them, and pods without a node."""

from pathlib import Path

import pytest

from demo.stack.clusters import ClusterKind
from demo.tests.local_commands import ROOT, TEST_SECONDS_MAX, run

INPUTS = ROOT / "tests/field/inputs"


@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_a_list_is_applied_and_a_pod_that_no_node_takes_is_named(
    cluster_kind: ClusterKind, tmp_path: Path
) -> None:
    files = [str(INPUTS / "jobset-list.yaml"), str(INPUTS / "cpu-pod-without-node.yaml")]
    answer = run("demo.loop", tmp_path, *files, f"--cluster={cluster_kind}", "--speed=60")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "no node with cloud.google.com/machine-family=n2 takes this pod" in answer.stdout
    assert "pod_unplaced" in answer.stdout
    assert "Verified: 3 node pools were created and deleted, none is left; 1 refused" in answer.stdout


@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_a_workload_of_another_kind_runs_and_leaves_nothing(cluster_kind: ClusterKind, tmp_path: Path) -> None:
    manifest = str(ROOT / "examples/kinds/job-v6e-multihost.yaml")
    answer = run("demo.loop", tmp_path, manifest, f"--cluster={cluster_kind}", "--speed=60")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "pods: 4 Running" in answer.stdout
    assert "Verified: 1 node pools were created and deleted, none is left." in answer.stdout


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_a_controller_that_makes_no_pods_is_quoted(tmp_path: Path) -> None:
    answer = run("demo.loop", tmp_path, str(INPUTS / "no-service-account.yaml"), "--cluster=real", "--speed=60")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "no pods: FailedCreate: " in answer.stdout
    assert 'serviceaccount "kinetic" not found' in answer.stdout
    assert "Verified: 0 node pools" in answer.stdout


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_a_pod_with_an_existing_disk_is_placed_by_the_label_of_its_driver(tmp_path: Path) -> None:
    answer = run("demo.loop", tmp_path, str(INPUTS / "disk-of-the-driver.yaml"), "--cluster=real", "--speed=60")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "pods: 1 Running" in answer.stdout
    assert "Verified: 1 node pools" in answer.stdout
