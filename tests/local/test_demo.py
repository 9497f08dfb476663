"""The demo as a person starts it: its exit code, its report, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from local.demo.__main__ import app
from local.demo.steps import STEPS

ROOT = Path(__file__).resolve().parents[2]
CALLS_PER_SLICE_MAX = 5


def run_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "local.demo", *arguments],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def processes_naming(text: str) -> list[str]:
    infos = [process.info for process in psutil.process_iter(["cmdline", "cwd"])]
    commands = {" ".join(each["cmdline"] or []): each["cwd"] or "" for each in infos}
    return [command for command, folder in commands.items() if text in command or text in folder]


@pytest.mark.slow
def test_the_default_demo_is_verified_cheap_and_leaves_nothing(tmp_path: Path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    report_path = tmp_path / "out.json"
    answer = run_demo(temporary, "--speed=60", f"--report={report_path}", f"--report={tmp_path / 'out.svg'}")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    report = json.loads(report_path.read_text())
    assert report["verified"] is True
    assert report["pools_left"] == 0
    assert report["refusals"] == []
    assert [one["slice"] for one in report["slices"]] == ["v6e-two-slices-slice-0", "v6e-two-slices-slice-1"]
    for one in report["slices"]:
        assert one["gke_calls"] <= CALLS_PER_SLICE_MAX, one["gke_calls_by_method"]
        assert list(one["seconds"]) == [str(step) for step in STEPS]
        # Nodes come one after the other, and the leader takes the first: that is no order to insist on.
        in_order = [moment for step, moment in one["seconds"].items() if step != "nodes_ready"]
        assert all(earlier <= later + 0.5 for earlier, later in pairwise(in_order))
        assert (one["machine_type"], one["node_count"], one["placement"], one["tier"], one["reason"]) == (
            "ct6e-standard-4t",
            4,
            "COMPACT 4x4",
            "on-demand",
            "pool_absent",
        )
    assert len({one["pool"] for one in report["slices"]}) == 2
    assert "Verified" in answer.stdout
    assert list(temporary.iterdir()) == []
    assert processes_naming(str(temporary)) == []


@pytest.mark.slow
def test_a_run_that_takes_too_long_ends_with_code_1_and_says_what_is_missing(tmp_path: Path):
    answer = run_demo(tmp_path, "--speed=10", "--timeout=2")
    assert answer.returncode == 1
    assert "not finished within 2 s: v6e-two-slices-slice-0: not reached: " in answer.stdout
    assert "NOT VERIFIED" in answer.stdout
    assert "logs of every process are kept" in answer.stdout


@pytest.mark.slow
def test_a_terminated_demo_ends_everything_that_it_started(tmp_path: Path):
    demo = subprocess.Popen(
        [sys.executable, "-m", "local.demo"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with demo:
        assert demo.stdout is not None
        assert any("unschedulable" in line for line in demo.stdout), "the run never began"
        demo.terminate()
        demo.stdout.read()
        assert demo.wait(10) == 143
    assert processes_naming(str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing.yaml"], "missing.yaml: no such file or folder"),
        (["pyproject.toml"], "not YAML"),
        (["docs/no-*.yaml"], "no file matches"),
        (["examples/v6e-spot.yaml", "--report=out.png"], "unknown ending '.png'"),
        (["examples/v6e-spot.yaml", "--report=missing/out.json"], "the folder missing does not exist"),
    ],
)
def test_bad_input_ends_with_code_2_and_names_what_is_wrong(arguments: list[str], expected: str):
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert expected in answer.output


def test_a_manifest_without_a_jobset_ends_with_code_2(tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    answer = CliRunner().invoke(app, [str(path)])
    assert answer.exit_code == 2
    assert "config.yaml: no JobSet inside (found: ConfigMap)" in answer.output
