"""Two hundred stories violate nothing, and they are not empty; nor do those that once did."""

import pytest

from tests.simulation.campaigns import run_seeds, tell_scenario
from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenarios import make_scenario

STORIES = 200
ONCE_VIOLATED = {
    8886283: "GKE makes an earlier try after a later one",
    8886644: "GKE refuses the successor of a useless pool",
    8887264: "the pod of an elastic pool runs on a pool of others",
    8887795: "a restarted workload gets no more creates in an hour",
    8888052: "a pool heals beside its successor, and serves nobody",
    8889647: "a queued workload gets no pool for want of quota",
    8930142: "a pool without labels has the name of a successor",
    8932334: "a pool is idle for longer than its workload is finished",
    8933696: "others leave a pool after the create was sent",
    8933795: "others take a pool, and get one of their own",
    8934127: "a slice runs in part on the failed successor of a pool that lost its hosts",
    8935441: "a slice ends before its own pool has nodes",
    8964335: "a Retry of Kueue's check gives the record of a list back",
    8972893: "others use an idle pool while calls are slow",
    8962918: "an Event expires while the clock of Kubernetes is ahead",
}


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


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("seed", ONCE_VIOLATED)
def test_a_story_in_which_the_simulator_found_something_violates_nothing(seed: int) -> None:
    assert run_scenario(make_scenario(seed)).violations == [], ONCE_VIOLATED[seed]
