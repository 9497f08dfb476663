"""The demo as a person starts it, on both clusters: exit code, report, and that nothing is left."""

import json
import re
import signal
from pathlib import Path

import pytest

from demo.following import RunOptions
from demo.settings import ClusterKind, StackSettings
from demo.tests.local_commands import ROOT, TEST_SECONDS_MAX, list_processes, perform, run, start

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
    assert "Verified: 3 node pools created and deleted, none is left; 1 workload given up" in answer.stdout


@pytest.mark.cluster
def test_a_controller_that_makes_no_pods_is_quoted(tmp_path: Path) -> None:
    answer = run(tmp_path, "run", str(INPUTS / "no-service-account.yaml"), "--cluster=real", "--speed=60")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "FailedCreate: " in answer.stdout
    assert 'serviceaccount "kinetic" not found' in answer.stdout
    assert "Verified: 0 node pools" in answer.stdout


def read_option(name: str) -> str:
    """Return what docs/capacity.md gives the demo of scarce capacity for an option."""
    page = (ROOT / "docs/capacity.md").read_text()
    command = re.search(r"^make demo JOBSET=examples/scarce(?:.*\\\n)*.*", page, re.MULTILINE)
    assert command
    value = re.search(rf"\b{name}=([\w/.-]+)", command[0], re.IGNORECASE)
    assert value, name
    return value[1]


def test_each_slice_goes_on_until_there_is_room(cluster_kind: ClusterKind, tmp_path: Path) -> None:
    settings = StackSettings(
        cluster=cluster_kind,
        faults=str(ROOT / read_option("faults")),
        idle_seconds_max=int(read_option("idle-seconds-max")),
    )
    jobsets = str(ROOT / "examples/scarce/three-jobsets.yaml")
    outcome, shown = perform(tmp_path, jobsets, settings, RunOptions(timeout_seconds=400))

    assert (outcome.problems, outcome.refusals) == ([], []), shown[-6000:]
    workloads = ("default/pretrain", "default/tune", "default/evaluate")
    assert outcome.endings == dict.fromkeys(workloads, "Completed")
    pools = {name: [each for each in outcome.stories.values() if each.row.owner == name] for name in workloads}
    # The reservation has room for one slice, which keeps its pool and waits for the other one. That
    # one goes on with its list, and its pool is filled when there are on-demand machines.
    pretrain = [(each.row.tier, each.row.attempt) for each in pools["default/pretrain"] if each.nodes == 4]
    assert ("reservation", 0) in pretrain
    assert sorted(tier for tier, _ in pretrain) == ["on-demand", "reservation"]
    # Its words are seen for as long as the failed pool is listed, which may be less than a look.
    assert all(attempt > 0 for tier, attempt in pretrain if tier == "on-demand"), "the reservation is tried first"
    # GKE's autoscaler finds no spot machines, at first in one zone and later in the other.
    tune = sorted((each.row.attempt, each.row.tier) for each in pools["default/tune"])
    assert tune == [(0, "spot"), (1, "spot"), (2, "on-demand")]
    assert pools["default/evaluate"] == []  # it runs on the pool that tune left
