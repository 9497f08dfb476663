"""A running pool that has lost nodes: slices of TPUs need all of their hosts, others may go on."""

import dataclasses

import pytest

from shared.capacity_lists import read_policies
from shared.core.decide.filling import LOST_GRACES, decide_lost
from shared.core.shapes.shape import GpuSharing
from shared.core.workloads import NodeView
from tests.builders import NOW, a_demand, a_pod, a_pool, settings

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
    found = decide_lost(demand, pod, a_pool(age_seconds=NOW - OLD), nodes, now=NOW, settings=SETTINGS)

    assert (found is not None) is lost
