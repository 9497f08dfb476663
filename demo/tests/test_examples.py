"""Every example, in one run on each cluster: each has the outcome that examples/README.md says."""

from typing import Any

import pytest

from demo.feed import Outcome
from demo.following import RunOptions
from demo.settings import ClusterKind
from demo.tests.local_commands import ROOT, TEST_SECONDS_MAX, list_stories, perform

pytestmark = [pytest.mark.slow, pytest.mark.timeout(TEST_SECONDS_MAX)]

EXAMPLES = ROOT / "examples"
V6E, V5E, V5P = "ct6e-standard-4t", "ct5lp-hightpu-4t", "ct5p-hightpu-4t"

# workload (its beginning, where the name is generated): pools, nodes each, machine type, topology,
# tier; GKE lists no topology of a single host, nor one of a workload policy
EXPECTED: dict[str, tuple[Any, ...]] = {
    "default/v6e-two-slices": (2, 4, V6E, "4x4", "on-demand"),
    "default/v3-resnet": (1, 4, "ct3p-hightpu-4t", "4x4", "on-demand"),
    "research/v4-bert": (1, 2, "ct4p-hightpu-4t", "2x2x2", "on-demand"),
    "default/v5e-batch-inference": (1, 1, "ct5lp-hightpu-8t", "", "on-demand"),
    "default/v5e-multislice": (4, 4, V5E, "4x4", "on-demand"),
    "tpu-training/v5e-multislice-bucket": (2, 4, V5E, "4x4", "on-demand"),
    "tpu-training/first-slice": (1, 4, V5E, "4x4", "on-demand"),
    "default/v5p-with-driver": (1, 2, V5P, "2x2x2", "on-demand"),
    "default/v5p-reserved": (1, 4, V5P, "2x2x4", "reservation"),
    "default/tpu7x-two-containers": (1, 2, "tpu7x-standard-4t", "", "on-demand"),
    "default/v6e-spot": (1, 4, V6E, "4x4", "spot"),
    "default/v6e-candidates": (1, 4, V6E, "4x4", "reservation"),
    "default/v6e-with-sidecar": (1, 1, V6E, "", "on-demand"),
    "default/v6e-pinned": (1, 2, V6E, "2x4", "on-demand"),
    "default/v6e-restart": (1, 2, V6E, "2x4", "on-demand"),
    "default/pathways-colocated": (1, 8, V6E, "4x8", "on-demand"),
    "large-models/pretraining-": (1, 64, V6E, "16x16", "on-demand"),
}
REFUSED = {"default/three-chips": "shape_unsupported"}


SPEEDS = {ClusterKind.EMBEDDED: 30.0, ClusterKind.REAL: 20.0}
"""A real scheduler is not sped up, and a pool must live for longer than a look at it takes."""


@pytest.fixture(scope="module")
def outcome(cluster_kind: ClusterKind, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    home, files = tmp_path_factory.mktemp("examples"), [str(EXAMPLES / "*.yaml")]
    options, speed = RunOptions(timeout_seconds=350), SPEEDS[cluster_kind]
    found, shown = perform(home, files, cluster_kind, options=options, speed=speed)
    assert not found.problems, shown[-6000:]
    return found


@pytest.mark.parametrize("workload", EXPECTED)
def test_an_example_gets_the_pools_that_it_should(
    outcome: Outcome, workload: str, cluster_kind: ClusterKind
) -> None:
    pools, *pool = EXPECTED[workload]
    stories = list_stories(outcome, workload)
    if cluster_kind == ClusterKind.REAL:  # its scheduler may let examples of one shape swap pools
        assert {story[:-1] for story in stories} == ({tuple(pool)} if pools else set())
    else:
        assert [story[1:] for story in stories] == [(*pool[1:], 0)] * pools
        assert all(story[0] in range(1, pool[0] + 1) for story in stories)  # a look may miss some


@pytest.mark.parametrize("workload", REFUSED)
def test_what_cannot_be_satisfied_ends_with_its_reason_and_no_pool(outcome: Outcome, workload: str) -> None:
    assert [each.reason for each in outcome.refusals if each.workload == workload] == [REFUSED[workload]]
    assert list_stories(outcome, workload) == []


def test_every_example_is_expected_somewhere_and_comes_to_its_end(outcome: Outcome) -> None:
    names = [*EXPECTED, *REFUSED]
    for workload, ending in outcome.endings.items():
        assert any(workload.startswith(name) for name in names), workload
        assert ending == ("" if workload in REFUSED else "Completed"), workload
    assert len(outcome.endings) == len(names) == len(list(EXAMPLES.glob("*.yaml")))


def test_each_pool_is_created_once_and_deleted_once(outcome: Outcome) -> None:
    assert outcome.calls["CreateNodePool"] == outcome.calls["DeleteNodePool"] == len(outcome.stories)
