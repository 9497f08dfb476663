"""One small run of each part of the benchmarks: it fails if a part cannot run.

A benchmark that nothing runs breaks unseen. The figures of such a run say nothing. The parts need
no control plane, but two minutes of CPU, so all but the cheapest are in the cluster's tier.
"""

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import Part
from tests.loop.bodies import ROOT
from tests.program_runs import run_python

SECONDS_MAX = 240.0  # on a busy machine; alone the longest part takes less than a minute
PARTS = [each if each is Part.TICK else pytest.param(each, marks=pytest.mark.cluster) for each in Part]


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_benchmarks_has_figures(tmp_path: Path, part: Part) -> None:
    written = tmp_path / "figures.json"
    words = ("-m", "benchmarks", "--quick", "--runs=1", f"--only={part}", f"--json={written}")
    run_python(*words, cwd=ROOT, seconds=SECONDS_MAX, succeeds=True)

    figures = json.loads(written.read_text())["figures"]
    assert figures
    assert all(each["samples"] for each in figures)
