"""Scarce capacity (docs/capacity.md) on both clusters: each slice goes on until there is room."""

import re
from pathlib import Path

import pytest

from demo.feed import Outcome
from demo.following import RunOptions
from demo.settings import ClusterKind
from demo.tests.local_commands import ROOT, TEST_SECONDS_MAX, list_stories, perform

V6E = "ct6e-standard-4t"


def read_option(name: str) -> str:
    """Return what docs/capacity.md gives the demo for an option."""
    page = (ROOT / "docs/capacity.md").read_text()
    command = re.search(r"^make demo JOBSET=examples/scarce(?:.*\\\n)*.*", page, re.MULTILINE)
    assert command
    value = re.search(rf"\b{name}=([\w/.-]+)", command[0], re.IGNORECASE)
    assert value, name
    return value[1]


@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_each_slice_goes_on_until_there_is_room(cluster_kind: ClusterKind, tmp_path: Path) -> None:
    outcome, shown = perform(
        tmp_path,
        [str(ROOT / "examples/scarce/three-jobsets.yaml")],
        cluster_kind,
        options=RunOptions(timeout_seconds=400),
        faults=str(ROOT / read_option("faults")),
        idle_seconds_max=int(read_option("idle-seconds-max")),
    )

    assert (outcome.problems, outcome.refusals) == ([], []), shown[-6000:]
    workloads = ("default/pretrain", "default/tune", "default/evaluate")
    assert outcome.endings == dict.fromkeys(workloads, "Completed")
    expect_one_of_two(outcome)
    # GKE's autoscaler finds no spot machines, at first in one zone and later in the other.
    tune = [(tier, attempt) for *_, tier, attempt in list_stories(outcome, "default/tune")]
    assert tune == [("spot", 0), ("spot", 1), ("on-demand", 2)]
    assert list_stories(outcome, "default/evaluate") == []  # it runs on the pool that tune left


def expect_one_of_two(outcome: Outcome) -> None:
    """The reservation has room for one slice, which keeps its pool and waits for the other one.

    That one goes on with its list, and its pool is filled when there are on-demand machines.
    """
    stories = [each for each in outcome.stories.values() if each.row.owner == "default/pretrain"]
    full = [(each.row.tier, each.row.attempt) for each in stories if each.nodes == 4]
    assert [tier for tier, _ in sorted(full)] == ["on-demand", "reservation"]
    assert ("reservation", 0) in full
    errors = [error for each in stories for error in each.errors]
    assert any("reservation train does not have available resources" in error for error in errors)
