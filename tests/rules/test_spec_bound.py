"""By default its spec bounds a workload: forged, doubled and old pods get no pool beyond it.

That no pool is larger than its slice is in `test_spec_agreement_random`. Here it is the number of
pools.
"""

import re

import pytest
from msgspec import structs

from shared.kinds import leaderworkerset, raycluster
from shared.model import labels
from shared.model.workloads import PodView, WorkloadView
from shared.needs.nodepool import Demand
from tests.demands import want
from tests.rules.kind_bodies import a_group, a_raycluster, a_worker, indexed, webhooked
from tests.rules.live_pods import ALL, ONE_HOST, Json, a_body, a_leader, a_workload, decide

FORGED, SLICES = 60, 3
INDEXES = (labels.COMPLETION_INDEX, leaderworkerset.GROUP_INDEX, raycluster.REPLICA_INDEX)


def forge(pod: PodView, index: int) -> PodView:
    """The same pod, which says wherever it can that its slice has this index."""
    pod_labels = {key: str(index) for key in INDEXES if key in pod.template.labels}
    template = structs.replace(pod.template, labels=pod.template.labels | pod_labels)
    return structs.replace(
        pod,
        uid=f"forged-{index}",
        name=re.sub(r"-0$", f"-{index}", pod.name),
        controller_name=re.sub(r"-0$", f"-{index}", pod.controller_name),
        template=template,
    )


def forge_all(kind: str, body: Json) -> list[PodView]:
    """Pods with many indexes; a Job's own pods keep index 0 too where their Job's name has it."""
    leader = a_leader(kind, body)
    forged = [forge(leader, index) for index in range(FORGED)]
    if kind != "JobSet":
        return forged
    return [structs.replace(pod, template=leader.template) for pod in forged]


def count_pools(pods: list[PodView], workload: WorkloadView) -> int:
    """How many pools the needs of a workload may have."""
    return sum(need.most if need.nodes is None else 1 for need in want(workload, *pods).needs)


def count_nodes(pods: list[PodView], workload: WorkloadView) -> int:
    return sum(need.nodes or 0 for need in want(workload, *pods).needs)


def scale(workload: WorkloadView, replicas: int) -> WorkloadView:
    groups = tuple(structs.replace(group, replicas=replicas) for group in workload.groups)
    return structs.replace(workload, groups=groups)


@pytest.mark.parametrize("kind", ["JobSet", "RayCluster", "LeaderWorkerSet", "Job"])
def test_pods_of_no_index_make_more_pools_than_the_spec(kind: str) -> None:
    workload = a_workload(kind, ONE_HOST, hosts=SLICES if kind == "Job" else 1)
    if kind != "Job":
        workload = scale(workload, SLICES)

    assert count_pools(forge_all(kind, ONE_HOST), workload) == SLICES


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind != "RayCluster"])
def test_one_shape_is_one_pool_with_the_nodes_of_the_spec_for_any_number_of_pods(kind: str) -> None:
    body = a_body(chips=0, gpus=1, selectors={labels.GPU_ACCELERATOR: "nvidia-l4"})
    pods = forge_all(kind, body) if kind != "Pod" else [a_leader(kind, body)] * FORGED
    workload = a_workload(kind, body, hosts=4)

    assert (count_pools(pods, workload), count_nodes(pods, workload)) == (1, 1 if kind == "Pod" else 4)


def test_workers_that_share_an_elastic_pool_may_have_any_index() -> None:
    body = a_body(chips=0, gpus=1, selectors={labels.GPU_ACCELERATOR: "nvidia-l4"})
    workload = a_workload("RayCluster", body, hosts=1)

    assert count_pools(forge_all("RayCluster", body), workload) == 1
    assert isinstance(decide(forge(a_leader("RayCluster", body), 999), workload), Demand)


def test_a_replica_index_far_beyond_the_spec_makes_no_more_pools_than_it() -> None:
    workload = a_raycluster(a_group(topology="2x2", numOfHosts=1, replicas=2, maxReplicas=10**9))
    pods = [
        a_worker(pod_labels=text, selector={labels.TOPOLOGY: "2x2"}, unschedulable=True)
        for text in (indexed(4), webhooked(5), indexed(10**9))
    ]

    assert count_pools(pods, workload) == 2
