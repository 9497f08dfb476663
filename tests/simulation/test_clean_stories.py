"""Two hundred stories violate nothing, and they are not empty."""

from tests.simulation.sim_run import run_seeds, tell_scenario

STORIES = 200


def test_two_hundred_stories_violate_nothing() -> None:
    figures = run_seeds(range(STORIES))

    assert figures.scenarios == STORIES
    told = [line for seeds in figures.violated.values() for line in tell_scenario(seeds[0], short=False)]
    assert not figures.violated, "\n".join(told)
    assert figures.counts["creates"] > 3 * STORIES
    assert figures.counts["deletes"] > STORIES
    assert figures.counts["faults struck"] > STORIES / 2
    for name in ("stories with several instances", "stories with Kueue"):
        assert figures.counts[name] > STORIES / 20, name
