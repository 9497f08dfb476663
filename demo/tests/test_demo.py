"""The demo as a person starts it, on both clusters: exit code, report, and that nothing is left."""

import json
import re
import signal
from pathlib import Path

import pytest

from demo.settings import ClusterKind
from demo.tests.local_commands import ROOT, TEST_SECONDS_MAX, list_processes, run, start

INPUTS = ROOT / "tests/field/inputs"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(TEST_SECONDS_MAX)]


def test_the_default_demo_is_verified_cheap_and_leaves_nothing(cluster_kind: ClusterKind, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    report = tmp_path / "run.html"
    answer = run(temporary, "run", f"--cluster={cluster_kind}", "--speed=60", f"--report={report}")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "ct6e-standard-4t 4x4, on-demand" in answer.stdout
    assert "default/v6e-two-slices  JobSet is Completed" in answer.stdout
    assert "changes asked of GKE: 2 CreateNodePool, 2 DeleteNodePool" in answer.stdout
    assert "Verified: 2 node pools created and deleted, none is left." in answer.stdout
    assert "make up" in answer.stdout
    page = report.read_text()
    kept = re.search('<script type="application/json" id="reading">(.*)</script>', page)
    assert kept
    pools = json.loads(kept[1])["status"]["pools"]
    assert [(each["state"], each["nodes"]) for each in pools] == [("GONE", 4), ("GONE", 4)]
    assert all("s: is in use; " in each["message"] for each in pools)
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)  # it loads nothing
    assert list(temporary.iterdir()) == []
    assert list_processes(temporary) == []


def test_a_run_that_takes_too_long_ends_with_code_1_and_says_what_is_missing(
    cluster_kind: ClusterKind, tmp_path: Path
) -> None:
    # Time enough to see the slices on a busy machine, and at this speed no pool is ready by then.
    answer = run(tmp_path, "run", f"--cluster={cluster_kind}", "--speed=1", "--timeout=10")
    assert answer.returncode == 1
    assert "not finished within 10 s: default/v6e-two-slices: wait: " in answer.stdout
    assert "[pool_in_progress]" in answer.stdout
    assert "NOT VERIFIED" in answer.stdout
    assert "logs of every process are in" in answer.stdout
    assert list_processes(tmp_path) == []


@pytest.mark.parametrize("moment", ["starting the functions", "is in use"])
def test_nothing_outlives_a_demo_that_is_ended_in_the_middle(
    cluster_kind: ClusterKind, tmp_path: Path, moment: str
) -> None:
    with start(tmp_path, "run", f"--cluster={cluster_kind}", "--speed=60") as demo:
        assert demo.stdout is not None
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if moment in line:
                break
        else:
            pytest.fail(f"the run never began: {lines}")
        assert len(list_processes(tmp_path)) > 2
        demo.send_signal(signal.SIGTERM)
        demo.stdout.read()
        assert demo.wait(60) == 143
    assert list_processes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_list_is_applied_and_a_pod_that_no_node_takes_is_named(
    cluster_kind: ClusterKind, tmp_path: Path
) -> None:
    files = [str(INPUTS / "jobset-list.yaml"), str(INPUTS / "cpu-pod-without-node.yaml")]
    answer = run(tmp_path, "run", *files, f"--cluster={cluster_kind}", "--speed=60")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "does not go on: Pod head-and-slice-head-0-0-" in answer.stdout
    assert "FailedScheduling: 0/" in answer.stdout
    assert "Verified: 3 node pools created and deleted, none is left; 1 workload refused" in answer.stdout


@pytest.mark.cluster
def test_a_controller_that_makes_no_pods_is_quoted(tmp_path: Path) -> None:
    answer = run(tmp_path, "run", str(INPUTS / "no-service-account.yaml"), "--cluster=real", "--speed=60")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "FailedCreate: " in answer.stdout
    assert 'serviceaccount "kinetic" not found' in answer.stdout
    assert "Verified: 0 node pools" in answer.stdout
