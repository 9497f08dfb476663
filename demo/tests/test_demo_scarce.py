"""Scarce capacity (`make demo-scarce`) on both clusters: each slice goes on until there is room."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from demo.stack.clusters import ClusterKind
from demo.tests.local_commands import ROOT, TEST_SECONDS_MAX, run

Json = dict[str, Any]


def read_command() -> list[str]:
    """Return what `make demo-scarce` gives the demo."""
    recipe = re.search(r"^demo-scarce:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    words = re.sub(r"\$\(or \$\(\w+\),(\d+)\)", r"\1", recipe[1].replace("\\\n", " ")).split()
    return [each for each in words[words.index("demo.loop") + 1 :] if "$" not in each]


@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_each_slice_goes_on_until_there_is_room(cluster_kind: ClusterKind, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    command = [*read_command(), "--timeout=400", f"--cluster={cluster_kind}", f"--report={path}"]
    answer = run("demo.loop", tmp_path, *command)
    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-3000:]
    report = json.loads(path.read_text())

    assert (report["verified"], report["pools_left"], report["refusals"]) == (True, 0, [])
    assert {each["workload"]: each["terminal"] for each in report["workloads"]} == dict.fromkeys(
        ("default/pretrain", "default/tune", "default/evaluate"), "Completed"
    )
    slices: dict[str, Json] = {each["slice"]: each for each in report["slices"]}
    expect_one_of_two([slices["pretrain-slice-0"], slices["pretrain-slice-1"]])
    expect_spot_taken_back(slices["tune-slice-0"])
    evaluate = slices["evaluate-slice-0"]
    assert (evaluate["shares_pool"], evaluate["pool"]) == (True, slices["tune-slice-0"]["pool"])
    assert evaluate["gke_calls_by_method"].get("CreateNodePool", 0) == 0


def expect_one_of_two(slices: list[Json]) -> None:
    """The reservation has room for one slice, which keeps its pool and waits for the other one.

    That one goes on with its list, and its pool is filled when there are on-demand machines.
    """
    assert sorted(each["tier"] for each in slices) == ["on-demand", "reservation"]
    first, second = sorted(slices, key=lambda each: each["tier"], reverse=True)
    assert not find_failed(first)
    assert "reservation train does not have available resources" in find_failed(second)[0]
    assert len(first["attempts"]) == 1
    assert len(second["attempts"]) >= 2


def expect_spot_taken_back(one: Json) -> None:
    """GKE's autoscaler finds no spot machines, at first in one zone and later in the other.

    Each time a tick creates the next pool, and another one deletes the empty pool.
    """
    made = [each["pool"] for each in one["attempts"]]
    assert [name.rpartition("-")[2] for name in made] == ["0", "1", "2"]
    for number, zone in ((1, "us-east5-a"), (2, "us-east5-b")):
        created = next(each for each in one["decisions"] if each["pool"] == made[number - 1])
        assert f"candidate {number} of 3, spot in {zone}" in created["message"]
        deleted = [
            each for each in one["decisions"] if (each["decision"], each["pool"]) == ("delete", made[number - 1])
        ]
        assert [each["function"] for each in deleted] == ["collect"]
    assert one["tier"] == "on-demand"


def find_failed(one: Json) -> list[str]:
    """Return what was told about failed pools of a slice."""
    return [each["message"] for each in one["decisions"] if each["reason"] == "pool_failed"]
