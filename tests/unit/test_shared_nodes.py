"""How several pools of an elastic claim with a list of capacity share its nodes."""

import dataclasses
from typing import Any

import pytest
from shared.core.decide.elastic_sizes import count_missing, list_sharing

from shared.model import labels
from shared.model.names import build_owner_labels, build_pool_name
from shared.model.pools import PoolSnapshot, PoolStatus
from shared.needs.capacity_texts import read_policies
from shared.needs.demand import Demand
from shared.needs.demands import decide_demand
from tests.builders import CLUSTER, NOW, expect_demand, settings
from tests.unit.test_elastic import a_gpu_body, a_gpu_job
from tests.unit.test_kind_job import a_pod

SETTINGS = settings(
    capacity_policies=read_policies("[{priorities: [{location: {zones: [us-east5-a, us-east5-b]}}]}]")
)


def a_demand() -> Demand:
    pod = dataclasses.replace(a_pod(None, template=a_gpu_body()), unschedulable=True)
    job = a_gpu_job(parallelism=5, completions=9)
    return expect_demand(decide_demand(CLUSTER, pod, job, SETTINGS))


def a_pool(attempt: int = 0, *, status: str = "RUNNING", **other: Any) -> PoolSnapshot:
    demand = a_demand().on_attempt(attempt)
    pool_labels = build_owner_labels(
        demand.claim,
        attempt=attempt,
        created_at=int(NOW),
        fingerprint=other.pop("fingerprint", demand.fingerprint),
        optional={labels.CANDIDATE: demand.candidate_mark},
    )
    name = build_pool_name(demand.claim, attempt)
    return PoolSnapshot(name=name, status=PoolStatus(status), labels=pool_labels, **other)


def test_pools_of_the_wanted_shape_that_stay_share_the_nodes_the_oldest_first() -> None:
    rows = ["RUNNING", "RECONCILING", "PROVISIONING", "RUNNING_WITH_ERROR", "ERROR"]
    lost = ["STOPPING", "STATUS_UNSPECIFIED"]
    pools = [a_pool(attempt, status=status) for attempt, status in enumerate([*rows, *lost])]
    other = a_pool(9, fingerprint="1-other")
    found = list_sharing(a_demand(), [other, *reversed(pools)])
    assert [each.status for each in found] == rows


@pytest.mark.parametrize(("sizes", "missing"), [([], 5), ([3], 2), ([3, 2], 0), ([9], 0)])
def test_what_the_other_pools_do_not_have_is_missing(sizes: list[int], missing: int) -> None:
    assert count_missing(a_demand(), sizes) == missing
