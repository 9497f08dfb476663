"""A stockout is known in two minutes, and holds no places that another slice needs.

The bounds are promises of docs/capacity.md. The figures themselves are in docs/benchmarks.md.
"""

import math

import pytest

from benchmarks.scarce_world import CREATION, THIS, Slices, scarce
from benchmarks.scarcity import live_scarcity
from benchmarks.stockouts import live_crowded, live_five_ways

MINUTES_MAX = 15.0
OPERATION_SECONDS_MAX = 120.0
BOTH_SECONDS_MAX = 60.0
SEEDS = range(4)

pytestmark = pytest.mark.usefixtures("_prepared")


@pytest.mark.parametrize("exporter", [True, False], ids=["messages", "sweeps alone"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_fifth_of_five_ways_has_the_pods_within_15_minutes(seed: int, *, exporter: bool) -> None:
    found = live_five_ways(seed, THIS, exporter=exporter)

    assert found.minutes <= MINUTES_MAX
    assert found.creates == 5
    assert found.operation_seconds <= OPERATION_SECONDS_MAX
    assert found.both_seconds <= BOTH_SECONDS_MAX


def test_with_pools_that_are_created_with_their_nodes_it_takes_hours() -> None:
    """Without this the bounds above could hold in a world without stockouts."""
    found = live_five_ways(0, CREATION)

    assert found.minutes > 4 * 35
    assert found.operation_seconds > 34 * 60


@pytest.mark.parametrize("seed", range(5))
def test_slices_whose_zones_get_and_lose_room_never_have_two_pools_with_nodes(seed: int) -> None:
    found = live_scarcity(seed, THIS)

    assert found.both_seconds <= BOTH_SECONDS_MAX
    assert found.operation_seconds_max <= OPERATION_SECONDS_MAX
    assert found.creates >= 4


def test_slices_that_wait_for_their_turn_keep_their_first_way() -> None:
    """The autoscaler takes the last of them after more than `node_wait_seconds`."""
    slices = Slices(name="many", shape="one", zones="ab", count=100)
    with scarce(1, (slices,), (), THIS, hours=1) as scarcity:
        minutes = scarcity.wait_for(tuple(f"many{index}" for index in range(slices.count)), hours=1)

        assert 15 < minutes < 60
        assert len(scarcity.list_creations()) == slices.count


@pytest.mark.parametrize("later", [5.0, 300.0])
def test_64_slices_in_a_stockout_leave_a_place_for_a_65th_in_another_zone(later: float) -> None:
    found = live_crowded(1, "abc", THIS, later=later)

    assert found.accepted <= 2.0
    assert found.runs <= 5.0


def test_64_slices_whose_pools_come_with_their_nodes_keep_the_65th_from_its_pool() -> None:
    """Without this the bound above could hold in a world without places."""
    assert live_crowded(1, "abc", CREATION, hours=0.25).accepted == math.inf  # after ten minutes
