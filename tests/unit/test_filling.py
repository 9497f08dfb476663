"""What follows while GKE's autoscaler has not filled a pool; the promises are in its table."""

import dataclasses

import pytest
from shared.core.decide.attempts import record_empty
from shared.core.decide.filling import LOST_GRACES, Filling, decide_lost

from shared.model.decisions import Verdict
from shared.model.priorities import NodeSource
from shared.model.readings import FillError, Machines
from shared.model.workloads import NodeView
from shared.needs.candidates import Candidate, find_node_source
from shared.needs.capacity_texts import read_policies
from shared.shapes.shape import GpuSharing
from tests.builders import NOW, a_demand, a_pod, a_pool, a_template, settings
from tests.unit.filling_enumeration import FILLING

STOCKOUT = "ZONE_RESOURCE_POOL_EXHAUSTED: The zone has no capacity."


def test_each_verdict_is_met() -> None:
    assert {decision.verdict for _, decision in FILLING.everything} == {Verdict.WAIT, Verdict.DELETE}


@pytest.mark.parametrize(
    ("units", "source"),
    [(4, NodeSource.AUTOSCALER), (2, NodeSource.CREATION)],
    ids=["a whole host", "a part of it"],
)
def test_the_autoscaler_gets_no_pool_whose_pods_it_could_move(units: int, source: NodeSource) -> None:
    """It moves a pod that uses a part of its host if another node has room (decision 0050)."""
    demand, template = a_demand(), a_template(chips=units)
    way = Candidate(demand.capacity, demand.zone)

    assert find_node_source(way, template, demand.shape, settings(), ways=2, elastic=False) == source


@pytest.mark.parametrize(("reported_at", "counts_from"), [(60.0, 60.0), (5000.0, 900.0)])
def test_the_pause_ends_although_gke_forgets_old_errors_and_adds_new_ones(
    reported_at: float, counts_from: float
) -> None:
    pool = a_pool(age_seconds=6000.0)
    created_at = NOW - 6000.0
    failed = record_empty(pool, FillError(STOCKOUT, created_at + reported_at), seconds=900)

    assert failed.at == created_at + counts_from


# --- a running pool that has lost nodes -----------------------------------------------------------


SETTINGS = settings(
    capacity_policies=read_policies("[{priorities: [{location: {zones: [us-east5-a, us-east5-b]}}]}]")
)
OLD = NOW - LOST_GRACES * SETTINGS.grace_seconds


@pytest.mark.parametrize(("gpus", "left", "lost"), [(False, 3, True), (True, 3, False), (True, 0, True)])
def test_a_slice_of_gpus_goes_on_with_the_nodes_that_are_left(*, gpus: bool, left: int, lost: bool) -> None:
    demand = a_demand(use=SETTINGS)
    if gpus:
        demand = dataclasses.replace(demand, shape=dataclasses.replace(demand.shape, gpus=GpuSharing()))
    nodes = [NodeView(name=f"n{at}", ready=True, created_at=OLD) for at in range(left)]
    pod = a_pod(unschedulable_since=OLD)
    seen = Filling(nodes=nodes)
    found = decide_lost(demand, pod, a_pool(age_seconds=NOW - OLD), seen, now=NOW, settings=SETTINGS)

    assert (found is not None) is lost


@pytest.mark.parametrize(("ages", "lost"), [([700.0], True), ([5000.0, 500.0], False), ([5000.0, 700.0], True)])
def test_an_error_of_an_earlier_loss_is_no_proof(*, ages: list[float], lost: bool) -> None:
    """All hosts are gone, so no node says since when; the pod was made anew just now."""
    machines = Machines(errors=tuple(FillError(STOCKOUT, NOW - age) for age in ages))
    pod, pool, seen = a_pod(unschedulable_since=NOW - 20), a_pool(age_seconds=9000.0), Filling(machines=machines)
    found = decide_lost(a_demand(use=SETTINGS), pod, pool, seen, now=NOW, settings=SETTINGS)

    assert (found is not None) is lost
