"""Stories in which the simulator once found a violation, by what they show; each is made short."""

import pytest

from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenario import Act, Fault, Scenario, Stock

STORIES = {
    "the pod of an elastic pool runs on a pool of others": Scenario(
        seed=8887264,
        acts=(
            Act(5.0, "queue", 0, "q0", "JobSet", "one", 2),
            Act(30.4, "create", 0, "w0", "Deployment", "one", 1),
            Act(692.5, "restart", 0, "q0"),
            Act(839.1, "degrade", 0, "w0", flag=True),
        ),
        ticks=(220.6,),
        quota_pods=2,
    ),
    "GKE makes an earlier try after a later one": Scenario(
        seed=8886283,
        acts=(Act(26.8, "create", 0, "w0", "Deployment", "gpu", 2, flag=True),),
        faults=(Fault(0.0, "no-stock", seconds=500.0), Fault(30.6, "late", "create", seconds=600.0)),
        ticks=(420.6, 480.2, 540.6),
        candidates=2,
        stock=(Stock(467.4, "b", 1),),
    ),
    "a pool heals beside its successor, and serves nobody": Scenario(
        seed=8888052,
        acts=(
            Act(746.4, "create", 0, "w3", "LeaderWorkerSet", "two+spot-intolerant", 2),
            Act(1915.5, "preempt", 0, "w3"),
        ),
        ticks=(492.4, 1513.8),
        says_slots=False,
    ),
    "a queued workload gets no pool for want of quota": Scenario(
        seed=8889647,
        acts=(
            Act(5.0, "queue", 0, "q0", "JobSet", "one", 2, flag=True),
            Act(739.4, "evict-queued", 0, "q0", count=1),
        ),
        faults=(Fault(700.0, "no-quota"),),
        ticks=(1260.7,),
        candidates=3,
        quota_pods=8,
        check_seconds=600,
    ),
    "a restarted workload gets no more creates in an hour": Scenario(
        seed=8887795,
        acts=(
            Act(32.8, "create", 0, "w0", "JobSet", "two", 2),
            Act(836.5, "static-pool", 0, "w0"),
            Act(2001.6, "restart", 0, "w0", flag=True),
        ),
        faults=(Fault(32.8, "quota", "create"),),
        ticks=(300.5, 420.1, 540.7, 780.4, 1020.9, 1140.8),
        candidates=2,
        stock=(Stock(0.0, "a", 2), Stock(0.0, "b", 0)),
    ),
    "GKE refuses the successor of a useless pool": Scenario(
        seed=8886644,
        acts=(Act(59.2, "create", 0, "w0", "RayCluster", "one+spot-intolerant", 1),),
        faults=(Fault(1685.3, "no-quota"),),
    ),
}


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("name", STORIES)
def test_a_story_violates_nothing(name: str) -> None:
    assert run_scenario(STORIES[name]).violations == []
