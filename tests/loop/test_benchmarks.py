"""One small run of each part of the benchmarks: it fails if a part cannot run.

A benchmark that nothing runs breaks unseen. The figures of such a run say nothing. The parts need
no control plane, but two minutes of CPU, so all but the cheapest are in the cluster's tier.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import Part

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 240.0  # on a busy machine; alone the longest part takes less than a minute
PARTS = [each if each is Part.TICK else pytest.param(each, marks=pytest.mark.cluster) for each in Part]


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_benchmarks_has_figures(tmp_path: Path, part: Part) -> None:
    written = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--runs=1", f"--only={part}", f"--json={written}"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr

    figures = json.loads(written.read_text())["figures"]
    assert figures
    assert all(each["samples"] for each in figures)
