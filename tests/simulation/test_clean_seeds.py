"""Seeds at which the judge, or the model of GKE, was wrong once: they violate nothing."""

import pytest

from tests.simulation.sim_run import run_scenario
from tests.simulation.sim_scenarios import make_scenario

pytestmark = pytest.mark.usefixtures("_prepared")

CLEAN = {
    360: "the sweep comes eight seconds after the one that created another pool",
    1141: "the pod that is left keeps the slice off the pool that is whole",
    3988: "an elastic pool with errors has spare or closed nodes",
    47590: "GKE takes a delete minutes after it was sent, and the labels are gone",
    1003845: "all nodes of a pool are lost, and the pods get a pool of the next way",
    1017146: "a foreign pool gets the name while the delete is on its way",
    1019258: "a node is lost, and 15 minutes later the autoscaler removes the other one",
    1022713: "the last wait ends after the last sweep but one",
    1022814: "the nodes of a failed pool come while its next attempt is created",
    7005724: "a slice ran on the pool of another one, which got a second pool",
    7303498: "a slice is left without its pool where GKE would refuse it",
    7407618: "a creation of 75 minutes succeeds between the look and the delete",
    7407650: "the leader runs on a foreign pool, and keeps the others off its own",
    7409756: "a limit refuses the pool of the slice that lacks one",
    7504162: "the first node of an idle pool comes between the look and the delete",
    7600676: "a person takes the labels off the record of the failures",
    7615395: "the last Event on the workload is about the pool of another slice",
    7934530: "GKE takes a create 90 s after its label was written",
    8034316: "a workload is suspended before GKE takes the create of its second pool",
    8112014: "two sweeps at once, and a pool grows before GKE takes the create of one",
    8123362: "GKE takes a create after 600 s, and other pools have failed since",
    8254049: "GKE takes a create 1.3 s later, and the pause counts from the label",
    8414526: "a person removes the pool that was the record of the failures",
    8460723: "a pool is asked for all pods, also for one on a pool of an earlier object",
    8490220: "GKE takes the delete of a surplus pool after its owner has gone",
    8528681: "a stale list of pools does not show that an idle pool runs",
    8539250: "GKE takes the create of a workload that was made anew meanwhile",
    8560562: "a Job is deleted 0.3 s before the delete of its surplus pool is sent",
    8618096: "others make a pool between the count of chips and the list",
    8638038: "an Event is late, and the workload was made anew meanwhile",
    8690272: "a slice cannot grow elsewhere, as an elastic pool can",
    8697211: "another shape has failures of its own",
    8706048: "the clock of Kubernetes is ahead",
    8716559: "a pod is evicted elsewhere after the look, so it did not wait for the pool",
}


@pytest.mark.parametrize("seed", CLEAN)
def test_what_the_product_cannot_prevent_is_no_violation(seed: int) -> None:
    """The mutations show that the same promises are still judged."""
    assert run_scenario(make_scenario(seed)).violations == []
