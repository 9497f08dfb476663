"""Scarce capacity, as `make demo-scarce` runs it, on both clusters: each slice goes on until there is room."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from demo.tests.local_commands import TEST_SECONDS_MAX, run

if TYPE_CHECKING:
    from pathlib import Path

    from demo.stack.clusters import ClusterKind

SCARCE = ("examples/scarce/three-jobsets.yaml", "--faults=examples/scarce/capacity.yaml", "--speed=60")


@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_each_slice_gets_the_first_way_that_has_room(cluster_kind: ClusterKind, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    answer = run("demo.loop", tmp_path, *SCARCE, f"--cluster={cluster_kind}", f"--report={path}")
    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-3000:]
    report = json.loads(path.read_text())

    assert (report["verified"], report["pools_left"], report["refusals"]) == (True, 0, [])
    slices: list[dict[str, Any]] = report["slices"]
    tiers = Counter(one["tier"] for one in slices)
    # A slice that ends early on a busy machine makes room for another one.
    assert tiers.keys() <= {"reservation", "spot", "on-demand"}
    assert min(tiers["reservation"], tiers["spot"]) >= 1
    served = set()
    for one in slices:
        # A slice whose machines another one leaves early runs there, and keeps the attempt that it had come to.
        attempt = int(one["pools"][-1].rpartition("-")[2])
        served.add((one["tier"], attempt))
        creates = one["gke_calls_by_method"]["CreateNodePool"]
        assert attempt + 1 <= creates <= attempt + 1 + one["gke_calls_refused"]
    # The number of the attempt is that of the candidate: 0 the reservation, 1 and 2 spot, 3 on-demand.
    assert {("reservation", 0), ("spot", 2)} <= served
    assert all(attempt <= 3 for _, attempt in served)
    told = " ".join(str(each["message"]) for one in slices for each in one["decisions"])
    assert "(candidate 1 of 4, reservation train in us-east5-a) failed: the reservation is used up" in told
    assert "(candidate 2 of 4, spot in us-east5-a) failed: no capacity in us-east5-a" in told
