"""By default its spec bounds a workload: forged, doubled and old pods get no pool beyond it.

That no pool is larger than its slice is in `test_spec_agreement_random`. Here it is the number of
pools.
"""

import dataclasses
import re

import pytest

from shared.kinds import leaderworkerset, raycluster
from shared.kinds.raycluster import RAYCLUSTER
from shared.model import labels
from shared.model.decisions import Reason, Verdict
from shared.model.workloads import PodView, WorkloadView
from shared.needs.demand import Demand
from tests.builders import expect_decision
from tests.unit.live_pods import ALL, ONE_HOST, Json, a_body, a_leader, a_workload, decide
from tests.unit.rayclusters import a_group, a_raycluster, a_worker, indexed, webhooked

FORGED, SLICES = 60, 3
INDEXES = (labels.COMPLETION_INDEX, leaderworkerset.GROUP_INDEX, raycluster.REPLICA_INDEX)
TWICE = 2 * SLICES
"""Of a RayCluster's replicas as many that terminate may still hold an index."""


def forge(pod: PodView, index: int) -> PodView:
    """The same pod, which says wherever it can that its slice has this index."""
    pod_labels = {key: str(index) for key in INDEXES if key in pod.template.labels}
    template = dataclasses.replace(pod.template, labels=pod.template.labels | pod_labels)
    return dataclasses.replace(
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
    return [dataclasses.replace(pod, template=leader.template) for pod in forged]


def count_claims(pods: list[PodView], workload: WorkloadView) -> int:
    found = [decide(pod, workload) for pod in pods]
    return len({each.claim.hash for each in found if isinstance(each, Demand)})


def scale(workload: WorkloadView, replicas: int) -> WorkloadView:
    groups = tuple(dataclasses.replace(group, replicas=replicas) for group in workload.groups)
    return dataclasses.replace(workload, groups=groups)


@pytest.mark.parametrize(
    ("kind", "bound"), [("JobSet", SLICES), ("RayCluster", TWICE), ("LeaderWorkerSet", SLICES)]
)
def test_no_index_beyond_the_spec_gets_a_pool(kind: str, bound: int) -> None:
    workload = scale(a_workload(kind, ONE_HOST, hosts=1), SLICES)

    assert count_claims(forge_all(kind, ONE_HOST), workload) == bound


def test_a_job_of_single_hosts_has_a_pool_for_each_of_its_completions_at_most() -> None:
    assert count_claims(forge_all("Job", ONE_HOST), a_workload("Job", ONE_HOST, hosts=SLICES)) == SLICES


@pytest.mark.parametrize("kind", ALL)
def test_one_slice_or_one_shape_is_one_pool_for_any_number_of_pods(kind: str) -> None:
    """All pods of an elastic pool, and of a slice, have one claim, whatever their names are."""
    body = a_body(chips=0, gpus=1, selectors={labels.GPU_ACCELERATOR: "nvidia-l4"})
    pods = forge_all(kind, body) if kind != "Pod" else [a_leader(kind, body)] * FORGED

    assert count_claims(pods, a_workload(kind, body, hosts=4)) == (2 if kind == "RayCluster" else 1)


def test_workers_that_share_an_elastic_pool_may_have_any_index() -> None:
    body = a_body(chips=0, gpus=1, selectors={labels.GPU_ACCELERATOR: "nvidia-l4"})

    assert count_claims(forge_all("RayCluster", body), a_workload("RayCluster", body, hosts=1)) == 1
    assert isinstance(
        decide(forge(a_leader("RayCluster", body), 999), a_workload("RayCluster", body, hosts=1)), Demand
    )


def test_a_replica_index_far_beyond_the_spec_is_refused_with_what_to_do() -> None:
    workload = a_raycluster(a_group(topology="2x2", numOfHosts=1, replicas=2, maxReplicas=10**9))
    for text in (indexed(4), webhooked(4), indexed(10**9)):
        pod = a_worker(pod_labels=text, selector={labels.TOPOLOGY: "2x2"}, unschedulable=True)
        found = expect_decision(decide(pod, workload))

        assert (found.verdict, found.reason) == (Verdict.REFUSE, Reason.SLICE_UNKNOWN)
        assert "below 4" in found.message
        # What runs there since a scale-down is still known, so its pool stays.
        assert RAYCLUSTER.find_slice(pod, workload) is not None
        assert RAYCLUSTER.has_slice(workload, f"llm-tpu-{text.get(raycluster.REPLICA_INDEX, 4)}", [pod])
