"""Elastic pools: which pods share one, its name, when it is still wanted, what quantities mean."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from shared.edges.pods import parse_quantity, read_template
from shared.kinds.job import JOB
from shared.kinds.kind import share_nodes
from shared.kinds.leaderworkerset import EXCLUSIVE_TOPOLOGY, LEADERWORKERSET
from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.model.errors import SliceUnknown
from shared.model.workloads import PodTemplate, SliceGroup, WorkloadView
from shared.needs.nodepool import Demand
from tests.builders import IN_ONE_POOL, a_jobset, a_template, expect_decision
from tests.demands import expect_demand, want
from tests.refusals import refuses
from tests.rules.kind_bodies import a_job
from tests.rules.kind_bodies import a_pod_of_job as a_pod
from tests.rules.live_pods import plan
from tests.slices import list_slices

L4 = {labels.GPU_ACCELERATOR: "nvidia-l4"}


def a_gpu_body(gpus: Any = 1, *, selector: dict[str, str] | None = None, **requests: Any) -> dict[str, Any]:
    resources = {"limits": {labels.GPU_RESOURCE: gpus} | requests}
    spec = {"nodeSelector": selector or L4, "containers": [{"name": "c", "resources": resources}]}
    return {"spec": spec}


def a_gpu_template(gpus: Any = 1, **options: Any) -> PodTemplate:
    return read_template(a_gpu_body(gpus, **options))


AMOUNTS = {"4": "4", "1500m": "1.5", "2Ki": "2048", "1e3": "1000", "1E": "1E18", ".5": "0.5", "2k": "2000"}


@pytest.mark.parametrize(("text", "amount"), AMOUNTS.items())
def test_an_amount_is_read_as_kubernetes_writes_it(text: str, amount: str) -> None:
    assert parse_quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "many", "-1", "1 Gi", "1Xi", "1e", "None", "1e999", "٣"])
def test_what_is_no_amount_is_none(text: str) -> None:
    assert parse_quantity(text) is None


@given(st.text(max_size=40))
def test_no_text_breaks_the_reading_of_an_amount(text: str) -> None:
    found = parse_quantity(text)
    assert found is None or found >= 0


def test_gpus_are_summed_as_chips_are_and_requests_are_the_whole_pod_s() -> None:
    def container(gpus: int, cpu: str, **more: Any) -> dict[str, Any]:
        return {
            "resources": {"limits": {labels.GPU_RESOURCE: gpus}, "requests": {"cpu": cpu, "memory": "1Gi"}}
        } | more

    spec = {
        "containers": [container(1, "500m"), container(2, "1")],
        "initContainers": [container(2, "8"), container(1, "1", restartPolicy="Always")],
    }
    found = read_template({"spec": spec})
    assert (found.gpus, found.cpu_millis, found.memory_bytes) == (4, 8000, 3 * 1024**3)


@pytest.mark.parametrize("amount", ["0.5", "500m", "many", -1])
def test_accelerators_that_are_not_whole_are_refused_with_the_amount(amount: Any) -> None:
    job = a_job(template=a_gpu_body(amount))
    found = plan(job)
    assert all(isinstance(each, Decision) for each in found)
    assert {each.reason for each in found if isinstance(each, Decision)} <= {Reason.SHAPE_UNSUPPORTED}
    assert a_gpu_template(amount).unreadable_amounts == (f"{labels.GPU_RESOURCE}={amount}",)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (SliceGroup(name="", template=a_gpu_template()), True),
        (SliceGroup(name="", template=a_gpu_template(), whole=True), False),
        (SliceGroup(name="", template=a_gpu_template(), pinned=True), False),
        (SliceGroup(name="", template=a_gpu_template(selector={labels.GPU_ACCELERATOR: "nvidia-gb200"})), False),
        (SliceGroup(name="", template=structs.replace(a_gpu_template(), topology_terms=IN_ONE_POOL)), False),
        (SliceGroup(name="", template=a_template(topology="2x2")), False),
        (SliceGroup(name="", template=a_template(topology="2x2"), elastic=True), True),
    ],
)
def test_gpus_that_nothing_binds_together_are_elastic_and_tpus_where_the_kind_says_so(
    group: SliceGroup, *, expected: bool
) -> None:
    assert share_nodes(group).elastic is expected


def test_groups_that_fit_the_same_nodes_share_a_pool_that_is_large_enough_for_all() -> None:
    groups = (
        SliceGroup(name="a", replicas=2, hosts=3, template=a_gpu_template()),
        SliceGroup(name="b", replicas=4, template=a_gpu_template(cpu="6")),
        SliceGroup(name="c", replicas=0, template=a_gpu_template()),
        SliceGroup(name="d", replicas=0, template=a_gpu_template(2)),
    )
    workload = structs.replace(a_jobset(), groups=tuple(map(share_nodes, groups)))

    found = want(workload)

    assert [(need.most, need.nodes) for need in found.needs] == [(10, 10), (0, 0)]
    machines = [found.demands[need.key].shape.machine.name for need in found.needs]
    assert machines == ["g2-standard-8", "g2-standard-24"]


def test_what_has_ended_needs_no_nodes_and_the_spec_may_use_its_pool_again() -> None:
    group = share_nodes(SliceGroup(name="a", replicas=3, pods=2, over=1, template=a_gpu_template()))
    (need,) = want(a_gpu_job(parallelism=0)).needs

    assert (group.replicas, group.elastic) == (4, True)
    assert (need.nodes, need.most, need.elastic) == (0, 0, True)


def a_gpu_job(**spec: Any) -> WorkloadView:
    return a_job(template=a_gpu_body(), completionMode=None, **spec)


@pytest.mark.parametrize("index", [None, "0", "3"])
def test_any_pod_of_a_job_leads_to_its_one_pool(index: str | None) -> None:
    job = a_gpu_job(parallelism=6, completions=6)
    found = JOB.find_slice(a_pod(index, template=a_gpu_body()), job)
    assert found is not None
    assert [each.name for each in list_slices(job)] == [found.name]
    assert found.group.replicas == 6


@pytest.mark.parametrize("mode", ["Indexed", None])
@pytest.mark.parametrize(("succeeded", "nodes"), [(0, 4), (5, 4), (7, 2), (9, 1)])
def test_pods_of_a_job_that_have_succeeded_need_no_nodes(mode: str | None, succeeded: int, nodes: int) -> None:
    status = {"succeeded": succeeded}
    job = a_job(template=a_gpu_body(), completionMode=mode, parallelism=4, completions=9, status=status)
    assert [group.replicas for group in job.groups] == [nodes]


def test_a_pod_that_selects_more_than_its_spec_is_of_the_same_pool() -> None:
    job, other = a_gpu_job(), a_gpu_body(selector=L4 | {"team": "red"})
    found = JOB.find_slice(a_pod(None, template=other), job)

    assert found is not None
    assert [each.name for each in list_slices(job)] == [found.name]


def test_the_pods_of_a_leader_and_workers_set_are_counted_by_template() -> None:
    template = {"leaderTemplate": a_gpu_body(1), "workerTemplate": a_gpu_body(4), "size": 3}
    body = {"metadata": {"name": "serve"}, "spec": {"replicas": 2, "leaderWorkerTemplate": template}}
    found = list_slices(LEADERWORKERSET.read(body, read_template))
    assert {each.group.template.gpus: each.group.replicas for each in found} == {1: 2, 4: 4}


def a_tpu_workload(topology: str, replicas: int = 3) -> WorkloadView:
    """Interchangeable TPU pods, of a kind whose entry says that they are."""
    group = SliceGroup(name="", replicas=replicas, template=a_template(topology=topology), elastic=True)
    return structs.replace(a_jobset(), groups=(group,))


def test_single_hosts_that_are_interchangeable_are_one_demand_of_as_many_nodes() -> None:
    found = expect_demand(*plan(a_tpu_workload("2x2")))
    assert (found.need.elastic, found.shape.node_count, found.shape.chips) == (True, 3, 12)
    assert expect_decision(*plan(a_tpu_workload("4x4"))).reason == Reason.HOSTS_DIFFER


def test_the_size_of_an_elastic_need_is_no_part_of_its_key() -> None:
    one, five = (want(a_tpu_workload("2x2", replicas)).needs[0] for replicas in (1, 5))

    assert (one.key, one.nodes, five.nodes) == (five.key, 1, 5)


H100 = {labels.GPU_ACCELERATOR: "nvidia-h100-80gb"}
GB200 = {labels.GPU_ACCELERATOR: "nvidia-gb200"}


def a_group_of(
    leader: dict[str, Any], workers: dict[str, Any], annotations: dict[str, str] | None = None
) -> WorkloadView:
    template = {"leaderTemplate": leader, "workerTemplate": workers, "size": 3}
    metadata = {"namespace": "ml", "name": "lws", "annotations": annotations or {}}
    spec = {"replicas": 1, "leaderWorkerTemplate": template}
    return LEADERWORKERSET.read({"metadata": metadata, "spec": spec}, read_template)


def test_leaders_and_workers_with_other_gpus_have_a_pool_each() -> None:
    found = plan(a_group_of(a_gpu_body(), a_gpu_body(8, selector=H100)))

    assert [each.shape.node_count for each in found if isinstance(each, Demand)] == [1, 2]


@pytest.mark.parametrize(
    "workload",
    [
        a_group_of(a_gpu_body(), a_gpu_body(4, selector=GB200)),
        a_group_of(a_gpu_body(), a_gpu_body(8, selector=H100), {EXCLUSIVE_TOPOLOGY: labels.NODE_POOL}),
    ],
    ids=["one of them needs slices", "one pool for both"],
)
def test_gpus_of_a_leader_that_fit_no_pool_with_its_workers_are_refused(workload: WorkloadView) -> None:
    with refuses(SliceUnknown, match="chips or GPUs outside the slice"):
        list_slices(workload)
