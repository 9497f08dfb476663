"""One small run of each part of the benchmarks: it fails if no pool comes, or a part cannot run.

A benchmark that nothing runs breaks unseen. The figures of such a run say nothing. The parts of
`make bench` need no control plane, but two minutes of CPU, so they are in the cluster's tier too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.__main__ import Part
from benchmarks.field.records import CREATE, Side, find_accepted
from benchmarks.field.records import Record as Run

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 240.0
"""On a busy machine; alone the longest part takes less than a minute."""


def bench(module: str, *arguments: str) -> str:
    """Run a benchmark and return what it says; one that fails shows it."""
    command = [sys.executable, "-m", module, *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.cluster
@pytest.mark.parametrize("part", Part)
def test_each_part_of_the_benchmarks_has_figures(tmp_path: Path, part: Part) -> None:
    written = tmp_path / "figures.json"
    bench("benchmarks", "--quick", "--runs=1", f"--only={part}", f"--json={written}")

    assert json.loads(written.read_text())["figures"]


def test_many_leaders_at_once_get_their_pools(tmp_path: Path) -> None:
    answer = bench("benchmarks.field", "fan-out", "--limit=20", "--leaders=3", f"--records={tmp_path}")

    assert "creates accepted" in answer
    assert "fan-out-20: the last create after " in answer
    assert len(json.loads((tmp_path / "fan-out-20.json").read_text())["accepted_at"]) == 3


def test_a_run_without_a_pool_is_an_error_and_leaves_no_record(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.field", "fan-out", "--limit=20", "--leaders=1"]
    command += ["--seconds-max=0", f"--records={tmp_path}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)

    assert (ended.returncode, ended.stderr) == (1, "error: no create was accepted; GKE answered none\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cluster
def test_a_slice_of_the_comparison_gets_its_pool(tmp_path: Path) -> None:
    bench(
        "benchmarks.field", "run", f"--side={Side.OURS}", "--size=1", "--seconds-max=30", f"--records={tmp_path}"
    )
    found = msgspec.json.decode((tmp_path / "ours-1.json").read_bytes(), type=Run)

    assert len(find_accepted(found.calls, CREATE)) == 1
