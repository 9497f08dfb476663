"""``up``, ``status``, ``env`` and ``down``: a stack that outlives the command that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from local.stack.__main__ import app
from local.stack.background import NothingRuns, read_state
from local.stack.layout import Layout

ROOT = Path(__file__).resolve().parents[2]


def stack(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "local.stack", *arguments, f"--home={home}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.slow
def test_a_stack_stays_up_is_reachable_restarts_what_died_and_goes_down(tmp_path: Path):
    up = stack(tmp_path, "up", "--speed=60")
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        again = stack(tmp_path, "up")
        assert "runs in" in again.stdout
        variables = dict(
            line.removeprefix("export ").split("=", 1) for line in stack(tmp_path, "env").stdout.splitlines()
        )
        assert Path(variables["KUBECONFIG"]).exists()
        gke = variables["CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER"]
        assert httpx.get(f"{gke}v1/projects/demo-project/locations/us-east5/clusters/demo").is_success
        assert stack(tmp_path, "status").returncode == 0
        exporter = next(each for each in read_state(Layout(tmp_path)).processes if each.name == "exporter")
        os.kill(exporter.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while all(each.restarts == 0 for each in read_state(Layout(tmp_path)).processes):
            assert time.monotonic() < deadline, "the exporter did not come back"
            time.sleep(0.05)
    finally:
        down = stack(tmp_path, "down")
    assert "The stack is down" in down.stdout
    with pytest.raises(NothingRuns):
        read_state(Layout(tmp_path))


@pytest.mark.parametrize(("command", "code"), [("status", 1), ("env", 1), ("down", 0)])
def test_without_a_stack_each_command_says_so(tmp_path: Path, command: str, code: int):
    answer = CliRunner().invoke(app, [command, f"--home={tmp_path}"])
    assert answer.exit_code == code
    assert "no stack runs in" in answer.output


def test_a_state_file_of_a_dead_supervisor_is_not_believed(tmp_path: Path):
    layout = Layout(tmp_path)
    layout.create()
    layout.state.write_text("{}")
    with pytest.raises(NothingRuns, match="is gone"):
        read_state(layout)
