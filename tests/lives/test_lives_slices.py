"""Slices that never swap: by the node-selector strategy every pod runs on its slice's pool.

With the default strategy a pool holds one slice at a time and a slice lies on one pool, but equal
slices may swap pools, and one that lies on another's may have to begin again; how many did is
counted.
"""

import pytest

from demo.stack.stack import Stack
from tests.lives.slices import DEFAULT_KIND, DEFAULT_PAIRS, PINNED_KIND, PINNED_PAIRS, PODS, Shuffle, draw, shuffle

SEED = 20261121

pytestmark = [pytest.mark.timeout(1500), pytest.mark.slow]
"""The first test of a cluster waits for its stack and for 65 pairs of JobSets."""


@pytest.fixture(scope="session")
def shuffled(stack: Stack) -> Shuffle:
    """What came of 50 pairs of pinned and 15 pairs of default JobSets, mixed, on this cluster."""
    return shuffle(stack, SEED)


def test_every_pod_of_a_pinned_slice_is_on_the_pool_that_was_made_for_it(shuffled: Shuffle) -> None:
    tally = shuffled.tallies[PINNED_KIND]
    assert tally.foreign == []
    assert (tally.slices, tally.pods_bound) == (2 * PINNED_PAIRS, 2 * PINNED_PAIRS * PODS)


def test_each_pinned_slice_has_one_pool_of_its_own(shuffled: Shuffle) -> None:
    tally = shuffled.tallies[PINNED_KIND]
    assert tally.torn == []
    assert tally.pools_made == tally.slices


def test_no_pinned_slice_loses_its_pool(shuffled: Shuffle) -> None:
    assert shuffled.tallies[PINNED_KIND].drained == []


def test_a_default_slice_loses_a_pool_only_if_it_was_made_for_another(shuffled: Shuffle) -> None:
    assert shuffled.tallies[DEFAULT_KIND].drained_at_home == []


def test_no_pool_ever_holds_two_slices_whatever_the_strategy(shuffled: Shuffle) -> None:
    assert shuffled.shared == []


def test_a_default_slice_may_lie_on_another_slices_pool_but_always_on_one(shuffled: Shuffle) -> None:
    tally = shuffled.tallies[DEFAULT_KIND]
    assert tally.torn == []
    assert (tally.slices, tally.pods_bound) == (2 * DEFAULT_PAIRS, 2 * DEFAULT_PAIRS * PODS)
    assert tally.pools_made <= tally.slices


def test_every_node_of_a_pinned_pool_carries_the_label_that_jobset_selects(shuffled: Shuffle) -> None:
    assert shuffled.mislabelled == []


def test_the_same_seed_draws_the_same_moments() -> None:
    assert draw(SEED) == draw(SEED) != draw(SEED + 1)
