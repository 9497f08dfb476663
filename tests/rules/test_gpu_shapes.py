"""From what a pod says of GPUs to machines and pools; which pods share an elastic pool."""

from typing import Any

import pytest
from msgspec import structs

from shared.edges.pods import read_template
from shared.kinds.kind import share_nodes
from shared.model import labels
from shared.model.decisions import Reason
from shared.model.workloads import PodTemplate, SliceGroup
from shared.shapes.catalogue import GIB, GPUS, Room, measure_allocatable
from shared.shapes.gpus import find_gpu_shape
from standins.google.gke.machines import BUILT_IN
from tests.builders import IN_ONE_POOL, a_jobset, a_template
from tests.demands import refuses, want
from tests.rules.workloads import L4, Json, a_gpu_body, a_job


def a_gpu(
    kind: str = "nvidia-l4", gpus: Any = 1, *, cpu: float = 0, memory_gb: float = 0, **more: str
) -> PodTemplate:
    """The template of a pod; what is more are names of `shared.model.labels`."""
    selector = {labels.GPU_ACCELERATOR: kind} | {getattr(labels, key): value for key, value in more.items()}
    return structs.replace(
        read_template(a_gpu_body(gpus, selectors=selector)),
        cpu_millis=int(cpu * 1000),
        memory_bytes=int(memory_gb * GIB),
    )


A100, H100, H200, GB200 = "nvidia-tesla-a100", "nvidia-h100-80gb", "nvidia-h200-141gb", "nvidia-gb200"


@pytest.mark.parametrize(
    ("template", "machine"),
    [
        (a_gpu(), "g2-standard-4"),
        (a_gpu(cpu=3.92), "g2-standard-4"),
        (a_gpu(cpu=4), "g2-standard-8"),
        (a_gpu(cpu=30), "g2-standard-32"),
        (a_gpu(cpu=40), "g2-standard-48"),
        (a_gpu(gpus=2), "g2-standard-24"),
        (a_gpu(gpus=3), "g2-standard-48"),
        (a_gpu("nvidia-tesla-t4"), "n1-standard-4"),
        (a_gpu("nvidia-tesla-t4", memory_gb=20), "n1-highmem-4"),
        (a_gpu("nvidia-tesla-t4", gpus=2, cpu=60), "n1-standard-64"),
        (a_gpu("nvidia-tesla-v100", cpu=10), "n1-standard-16"),
        (a_gpu(A100, gpus=16), "a2-megagpu-16g"),
        (a_gpu(H100, gpus=8, MACHINE_FAMILY="a3"), "a3-highgpu-8g"),
        (a_gpu(H100, gpus=8, INSTANCE_TYPE="a3-edgegpu-8g"), "a3-edgegpu-8g"),
        (a_gpu("nvidia-b200", gpus=1), "a4-highgpu-8g"),
        (a_gpu(ACCELERATOR_COUNT="4"), "g2-standard-48"),
        (a_gpu(INSTANCE_TYPE="g2-standard-16"), "g2-standard-16"),
        (a_gpu(A100, gpus=7, GPU_PARTITION="1g.5gb"), "a2-highgpu-1g"),
        (a_gpu(A100, gpus=8, GPU_PARTITION="1g.5gb"), "a2-highgpu-2g"),
    ],
)
def test_the_smallest_machine_that_takes_a_pod_is_chosen(template: PodTemplate, machine: str) -> None:
    assert find_gpu_shape(template, pods=1).machine.name == machine


def h200(**fields: Any) -> PodTemplate:
    """Half a machine for each pod."""
    body = a_gpu_body(4, selectors={labels.GPU_ACCELERATOR: H200})
    return read_template({"metadata": {"labels": {"app": "a"}}, "spec": body["spec"] | fields})


def apart(app: str, key: str = "app", topology: str = labels.HOSTNAME) -> Json:
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": {key: app}} if key else None}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


SERVER: Json = {"name": "c", "resources": {"limits": {labels.GPU_RESOURCE: 4}}}


@pytest.mark.parametrize(
    ("template", "pods", "nodes"),
    [
        (a_gpu(), 6, 6),
        (a_gpu(INSTANCE_TYPE="g2-standard-96"), 9, 2),
        (a_gpu(INSTANCE_TYPE="g2-standard-96", cpu=40), 9, 5),
        (structs.replace(a_gpu(INSTANCE_TYPE="g2-standard-96"), storage_bytes=20_000 * GIB), 9, 5),
        (a_gpu(H200, gpus=3), 4, 2),
        (a_gpu(A100, GPU_PARTITION="3g.20gb"), 5, 3),
        (a_gpu(GPU_SHARING="time-sharing", GPU_CLIENTS="8"), 17, 3),
        (a_gpu(A100, GPU_PARTITION="1g.5gb", GPU_SHARING="mps", GPU_CLIENTS="2"), 14, 1),
        (h200(affinity=apart("a")), 3, 3),
        (h200(affinity=apart("b")), 3, 2),
        *((h200(affinity=apart("a", key)), 3, 3) for key in ("job-name", "batch.kubernetes.io/job-name")),
        *((h200(affinity=apart("a", key)), 3, 2) for key in ("tier", "")),
        (h200(affinity=apart("a", topology=labels.ZONE)), 3, 2),
        (h200(containers=[SERVER | {"ports": [{"containerPort": 80, "hostPort": 80}]}]), 2, 2),
        (h200(containers=[SERVER | {"ports": [{"containerPort": 80}]}]), 2, 1),
        (h200(containers=[SERVER | {"ports": [{"containerPort": 80}]}], hostNetwork=True), 2, 2),
        (h200(initContainers=[{"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 80}]}]), 2, 2),
    ],
)
def test_a_node_takes_as_many_pods_as_its_gpus_cpu_memory_and_their_terms_allow(
    template: PodTemplate, pods: int, nodes: int
) -> None:
    assert find_gpu_shape(template, pods=pods).node_count == nodes


@pytest.mark.parametrize(
    ("template", "reason", "message"),
    [
        (a_gpu(gpus=9), Reason.SHAPE_UNSUPPORTED, "at most 8"),
        (a_gpu(GPU_PARTITION="1g.5gb"), Reason.SHAPE_UNSUPPORTED, "cannot be partitioned"),
        (a_gpu(A100, GPU_PARTITION="1g.10gb"), Reason.SHAPE_UNSUPPORTED, "1g.5gb"),
        (a_gpu(GPU_SHARING="luck", GPU_CLIENTS="4"), Reason.SHAPE_UNSUPPORTED, "time-sharing, mps"),
        (a_gpu(GPU_SHARING="mps", GPU_CLIENTS="49"), Reason.SHAPE_UNSUPPORTED, "2 to 48"),
        (a_gpu(GPU_SHARING="mps"), Reason.SHAPE_UNSUPPORTED, "2 to 48"),
        (a_gpu(GPU_CLIENTS="4"), Reason.SHAPE_UNSUPPORTED, "time-sharing, mps"),
        (a_gpu(gpus=2, GPU_SHARING="mps", GPU_CLIENTS="4"), Reason.SHAPE_UNSUPPORTED, "valid: 1"),
        (a_gpu(GPU_DRIVER="520"), Reason.SHAPE_UNSUPPORTED, "default, latest, autoinstall-disabled"),
        (a_gpu(INSTANCE_TYPE="a2-highgpu-1g"), Reason.SHAPE_UNSUPPORTED, "g2-standard-4"),
        (a_gpu(MACHINE_FAMILY="n1"), Reason.SHAPE_UNSUPPORTED, "g2-standard-4"),
        (a_gpu(ACCELERATOR_COUNT="3"), Reason.SHAPE_UNSUPPORTED, "exactly 3"),
        (a_gpu(cpu=97), Reason.SHAPE_UNSUPPORTED, "g2-standard-96"),
        (a_gpu(memory_gb=400), Reason.SHAPE_UNSUPPORTED, "384 GiB"),
        (a_gpu("nvidia-l5"), Reason.GPU_UNKNOWN, "nvidia-l4"),
        (a_gpu("nvidia-tesla-k80"), Reason.GPU_UNKNOWN, "nvidia-tesla-t4"),
        (a_gpu(""), Reason.GPU_UNKNOWN, "no GPU type"),
    ],
)
def test_what_no_machine_can_give_is_refused_with_what_would_be_valid(
    template: PodTemplate, reason: Reason, message: str
) -> None:
    with refuses(reason, match=message):
        find_gpu_shape(template, pods=1)
    with refuses(Reason.SHAPE_UNSUPPORTED, match="at most 1000"):
        find_gpu_shape(a_gpu(), pods=1001)


def test_the_catalogue_agrees_with_the_one_of_the_fake_and_leaves_most_of_a_machine_to_pods() -> None:
    """Two tables written apart: a slip in one of them shows."""
    machines = [(family.accelerator, machine) for family in GPUS.values() for machine in family.machines]
    ours = {
        machine.name: (accelerator, machine.chips, machine.cpus, machine.memory_gb)
        for accelerator, machine in machines
        if not machine.name.startswith("n1-")
    }
    assert ours == BUILT_IN
    of_v100 = {each.name for kind, each in machines if (kind, each.chips) == ("nvidia-tesla-v100", 1)}
    assert of_v100 == {"n1-standard-4", "n1-standard-8", "n1-highmem-4", "n1-highmem-8"}, "vCPUs are bounded"
    assert {each.memory_gb for _, each in machines if each.name == "n1-highmem-4"} == {26}
    for _, machine in machines:
        cpu, memory = measure_allocatable(machine, Room())
        assert 0.9 * machine.cpus * 1000 < cpu < machine.cpus * 1000
        assert 0.7 * machine.memory_gb * GIB < memory < machine.memory_gb * GIB


LATEST = L4 | {labels.GPU_DRIVER: "latest"}


def test_the_number_of_pods_is_no_part_of_the_key_of_a_need_and_the_driver_is() -> None:
    six, two, latest = (
        want(a_job(body, completionMode=None, parallelism=pods)).needs[0].key
        for body, pods in ((a_gpu_body(), 6), (a_gpu_body(), 2), (a_gpu_body(selectors=LATEST), 6))
    )
    assert six == two != latest


# --- elastic pools ---


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (SliceGroup(name="", template=a_gpu()), True),
        (SliceGroup(name="", template=a_gpu(), whole=True), False),
        (SliceGroup(name="", template=a_gpu(), pinned=True), False),
        (SliceGroup(name="", template=a_gpu(GB200)), False),
        (SliceGroup(name="", template=structs.replace(a_gpu(), topology_terms=IN_ONE_POOL)), False),
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
        SliceGroup(name="a", replicas=2, hosts=3, template=a_gpu()),
        SliceGroup(name="b", replicas=4, template=a_gpu(cpu=6)),
        SliceGroup(name="c", replicas=0, template=a_gpu()),
        SliceGroup(name="d", replicas=0, template=a_gpu(gpus=2)),
    )
    found = want(structs.replace(a_jobset(), groups=tuple(map(share_nodes, groups))))

    assert [(need.most, need.nodes) for need in found.needs] == [(10, 10), (0, 0)]
    machines = [found.demands[need.key].shape.machine.name for need in found.needs]
    assert machines == ["g2-standard-8", "g2-standard-24"]


def test_what_has_ended_needs_no_nodes_and_the_spec_may_use_its_pool_again() -> None:
    group = share_nodes(SliceGroup(name="a", replicas=3, pods=2, over=1, template=a_gpu()))
    (need,) = want(a_job(a_gpu_body(), completionMode=None, parallelism=0)).needs

    assert (group.replicas, group.elastic) == (4, True)
    assert (need.nodes, need.most, need.elastic) == (0, 0, True)
