"""Every example, in one run on each cluster: each has the outcome that examples/README.md says."""

import json
from typing import Any

import pytest

from demo.stack.clusters import ClusterKind
from demo.tests.gke_calls import assert_few_calls
from demo.tests.local_commands import ROOT, TEST_SECONDS_MAX, run

Json = dict[str, Any]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(TEST_SECONDS_MAX)]

EXAMPLES = ROOT / "examples"
V6E, V5E, V5P = "ct6e-standard-4t", "ct5lp-hightpu-4t", "ct5p-hightpu-4t"
RESERVATIONS = {
    "default/v5p-reserved": "projects/capacity-project/reservations/v5p-quarter",
    "default/v6e-candidates": "train",
}

# workload (its beginning, where the name is generated): pools, nodes each, machine type, topology,
# tier
EXPECTED = {
    "default/v6e-two-slices": (2, 4, V6E, "4x4", "on-demand"),
    "default/v3-resnet": (1, 4, "ct3p-hightpu-4t", "4x4", "on-demand"),
    "research/v4-bert": (1, 2, "ct4p-hightpu-4t", "2x2x2", "on-demand"),
    "default/v5e-batch-inference": (1, 1, "ct5lp-hightpu-8t", "2x4", "on-demand"),
    "default/v5e-multislice": (4, 4, V5E, "4x4", "on-demand"),
    "tpu-training/v5e-multislice-bucket": (2, 4, V5E, "4x4", "on-demand"),
    "tpu-training/first-slice": (1, 4, V5E, "4x4", "on-demand"),
    "default/v5p-with-driver": (1, 2, V5P, "2x2x2", "on-demand"),
    "default/v5p-reserved": (1, 4, V5P, "2x2x4", "reservation"),
    "default/tpu7x-two-containers": (1, 2, "tpu7x-standard-4t", "2x2x2", "on-demand"),
    "default/v6e-spot": (1, 4, V6E, "4x4", "spot"),
    "default/v6e-candidates": (1, 4, V6E, "4x4", "reservation"),
    "default/v6e-with-sidecar": (1, 1, V6E, "2x2", "on-demand"),
    "default/v6e-pinned": (1, 2, V6E, "2x4", "on-demand"),
    "default/v6e-restart": (1, 2, V6E, "2x4", "on-demand"),
    "default/pathways-colocated": (1, 8, V6E, "4x8", "on-demand"),
    "large-models/pretraining-": (1, 64, V6E, "16x16", "on-demand"),
}
REFUSED = {"default/three-chips": "shape_unsupported"}


@pytest.fixture(scope="module")
def report(cluster_kind: ClusterKind, tmp_path_factory: pytest.TempPathFactory) -> Json:
    folder = tmp_path_factory.mktemp("examples")
    path = folder / "out.json"
    options = (f"--cluster={cluster_kind}", "--speed=60", "--timeout=350", f"--report={path}")
    answer = run("demo.loop", folder, str(EXAMPLES), *options)
    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-3000:]
    found: Json = json.loads(path.read_text())
    assert found["verified"] is True
    assert found["pools_left"] == 0
    return found


def slices_of(report: Json, workload: str) -> list[Json]:
    return [one for one in report["slices"] if one["workload"].startswith(workload)]


@pytest.mark.parametrize("workload", EXPECTED)
def test_an_example_gets_the_pools_that_it_should(report: Json, workload: str) -> None:
    pools, nodes, machine_type, topology, tier = EXPECTED[workload]
    served = [one for one in slices_of(report, workload) if not one["shares_pool"]]
    assert len({one["pool"] for one in served}) == pools
    for one in served:
        found = (one["node_count"], one["machine_type"], one["topology"], one["tier"], one["reason"])
        assert found == (nodes, machine_type, topology, tier, "pool_absent")
        assert len(one["pools"]) == 1
        assert_few_calls(one)
        assert one["reservation"] == RESERVATIONS.get(workload, "")


@pytest.mark.parametrize("workload", REFUSED)
def test_what_cannot_be_satisfied_ends_with_its_reason_and_no_pool(report: Json, workload: str) -> None:
    assert [one["reason"] for one in report["refusals"] if one["workload"] == workload] == [REFUSED[workload]]
    assert all(not one["pools"] for one in slices_of(report, workload))


def test_a_leader_without_chips_runs_on_the_pool_of_its_workers(report: Json) -> None:
    head, worker = sorted(slices_of(report, "default/pathways-colocated"), key=lambda one: one["slice"])
    assert head["shares_pool"]
    assert worker["pool"] == head["pool"]


def test_every_example_is_expected_somewhere_and_comes_to_its_end(report: Json) -> None:
    known = [*EXPECTED, *REFUSED]
    for one in report["workloads"]:
        assert any(one["workload"].startswith(name) for name in known), one["workload"]
        assert one["terminal"] == ("" if one["workload"] in REFUSED else "Completed"), one["workload"]
    assert len(report["workloads"]) == len(known) == len(list(EXAMPLES.glob("*.yaml")))
