"""The demo as a person starts it, on both clusters: exit code, report, and that nothing is left."""

import json
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from demo.loop.steps import STEPS
from demo.stack.clusters import ClusterKind
from demo.tests.gke_calls import assert_few_calls
from demo.tests.local_commands import TEST_SECONDS_MAX, list_processes, run, start

LATE_SECONDS = 3.0
"""A step is told when it was seen or logged, and on a busy machine a watch sees late."""
both_clusters = pytest.mark.timeout(TEST_SECONDS_MAX)


@pytest.mark.slow
@both_clusters
def test_the_default_demo_is_verified_cheap_and_leaves_nothing(cluster_kind: ClusterKind, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    report_path, pictures = tmp_path / "out.json", [tmp_path / "out.svg", tmp_path / "out.html"]
    reports = [f"--report={path}" for path in (report_path, *pictures)]
    answer = run("demo.loop", temporary, f"--cluster={cluster_kind}", "--speed=60", *reports)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    report = json.loads(report_path.read_text())
    assert report["verified"] is True
    assert report["pools_left"] == 0
    assert report["refusals"] == []
    assert [one["slice"] for one in report["slices"]] == ["v6e-two-slices-slice-0", "v6e-two-slices-slice-1"]
    for one in report["slices"]:
        assert_few_calls(one)
        assert list(one["seconds"]) == [str(step) for step in STEPS]
        # Nodes come one after the other, and the leader takes the first; and a slice that has ended
        # gives its pool back before its workload is over: that is no order to insist on.
        loose = ("nodes_ready", "completed")
        in_order = [moment for step, moment in one["seconds"].items() if step not in loose]
        assert all(earlier <= later + LATE_SECONDS for earlier, later in pairwise(in_order))
        assert (one["machine_type"], one["node_count"], one["topology"], one["tier"], one["reason"]) == (
            "ct6e-standard-4t",
            4,
            "4x4",
            "on-demand",
            "pool_absent",
        )
    assert len({one["pool"] for one in report["slices"]}) == 2
    assert "Verified" in answer.stdout
    assert "make up" in answer.stdout
    assert all(path.exists() for path in pictures)
    assert list(temporary.iterdir()) == []
    assert list_processes(temporary) == []


@pytest.mark.slow
@both_clusters
def test_a_run_that_takes_too_long_ends_with_code_1_and_says_what_is_missing(
    cluster_kind: ClusterKind, tmp_path: Path
) -> None:
    # Time enough to see the slices on a busy machine, and at this speed no pool is ready by then.
    answer = run("demo.loop", tmp_path, f"--cluster={cluster_kind}", "--speed=1", "--timeout=10")
    assert answer.returncode == 1
    assert "not finished within 10 s: v6e-two-slices-slice-0: not reached: " in answer.stdout
    assert "NOT VERIFIED" in answer.stdout
    assert "logs of every process are in" in answer.stdout
    assert list_processes(tmp_path) == []


@pytest.mark.slow
@both_clusters
def test_nothing_outlives_a_demo_that_is_ended_in_the_middle(cluster_kind: ClusterKind, tmp_path: Path) -> None:
    with start("demo.loop", tmp_path, f"--cluster={cluster_kind}") as demo:
        assert demo.stdout is not None
        lines = []
        for line in demo.stdout:
            lines.append(line)
            if "unschedulable" in line:
                break
        else:
            pytest.fail(f"the run never began: {lines}")
        assert len(list_processes(tmp_path)) > 8
        demo.send_signal(signal.SIGTERM)
        demo.stdout.read()
        assert demo.wait(60) == 143
    assert list_processes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
