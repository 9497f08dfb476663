"""The judge of gangs lets the product ask GKE for what lacks, and reports what is held later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared.perform import gang_pools
from tests.simulation.sim_process import prepared
from tests.simulation.sim_run import run_story
from tests.simulation.sim_story import Act, Fault, Story

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _prepared() -> Iterator[None]:
    with prepared():
        yield


def a_part_without_sweeps(refused_until: float) -> Story:
    """Return a story in which GKE refuses the pool of one of two slices for some time.

    The sweep sees the part at 300 s. Its time is over when the next sweep runs.
    """
    acts = (Act(5.0, "ask", 0, "gang", "JobSet", "one", 2, flag=True),)
    faults = (Fault(0.0, "quota", "create"), Fault(10.0, "no-quota", seconds=refused_until - 10))
    return Story(seed=1, acts=acts, faults=faults, sweeps=(300.0, 950.0, 970.0), gang_seconds=600)


def test_a_part_is_held_by_the_sweep_that_first_asks_gke_for_the_rest() -> None:
    """Seed 7612805: no sweep ran while the time ended, and GKE takes the create of the next one."""
    result = run_story(a_part_without_sweeps(800.0), tell=True)

    assert result.violations == []
    swept = [line for line in result.lines if " sweep: GKE " in line]
    assert "accepts the create" in swept[0], "\n".join(result.lines)
    assert "begins to delete" in swept[1], "\n".join(result.lines)


@pytest.mark.parametrize(("refused_until", "reported_at"), [(800.0, 970.0), (1000.0, 950.0)])
def test_a_part_is_reported_after_gke_had_its_chance(
    monkeypatch: pytest.MonkeyPatch, refused_until: float, reported_at: float
) -> None:
    """The next sweep must end the round, or the same sweep if GKE refuses the create."""
    assert run_story(a_part_without_sweeps(refused_until)).violations == []
    monkeypatch.setattr(gang_pools, "decide_round", lambda *_, refused=None, **__: refused)
    found = run_story(a_part_without_sweeps(refused_until)).violations

    assert {each.invariant for each in found} == {"gangs"}
    assert all("only 1 of its slices have pools" in each.text for each in found)
    assert 0 < min(each.at for each in found) - reported_at < 15
