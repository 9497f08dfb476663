"""From what a pod says of GPUs to machines, and to the node pool that GKE is asked for."""

from typing import Any

import pytest
from msgspec import structs

from shared.edges.pods import read_template
from shared.model import labels
from shared.model.decisions import Decision, Reason
from shared.model.errors import UnknownGpu, UnsupportedShape
from shared.model.workloads import PodTemplate, SliceGroup
from shared.needs.nodepool import Demand
from shared.shapes.catalogue import GPUS, Room, measure_allocatable
from shared.shapes.gpus import find_gpu_shape
from standins.google.gke.machines import BUILT_IN
from tests.builders import a_jobset, expect_decision, settings
from tests.demands import a_pool_body, expect_demand, plan_demands, want
from tests.refusals import refuses
from tests.rules.kind_bodies import a_job
from tests.rules.test_elastic import a_gpu_body, a_gpu_template

GIB = 1024**3
L4 = {labels.GPU_ACCELERATOR: "nvidia-l4"}


def a_template(
    kind: str = "nvidia-l4", gpus: int = 1, *, cpu: float = 0, memory_gb: float = 0, **options: str
) -> PodTemplate:
    """Keys of `said` are names of `shared.model.labels`."""
    selector = {labels.GPU_ACCELERATOR: kind} | {getattr(labels, key): value for key, value in options.items()}
    return structs.replace(
        a_gpu_template(gpus, selector=selector), cpu_millis=int(cpu * 1000), memory_bytes=int(memory_gb * GIB)
    )


@pytest.mark.parametrize(
    ("template", "machine"),
    [
        (a_template(), "g2-standard-4"),
        (a_template(cpu=4), "g2-standard-8"),
        (a_template(cpu=30), "g2-standard-32"),
        (a_template(cpu=40), "g2-standard-48"),
        (a_template(gpus=2), "g2-standard-24"),
        (a_template(gpus=3), "g2-standard-48"),
        (a_template("nvidia-tesla-t4"), "n1-standard-4"),
        (a_template("nvidia-tesla-t4", memory_gb=20), "n1-highmem-4"),
        (a_template("nvidia-tesla-t4", gpus=2, cpu=60), "n1-standard-64"),
        (a_template("nvidia-tesla-v100", cpu=10), "n1-standard-16"),
        (a_template("nvidia-tesla-a100", gpus=16), "a2-megagpu-16g"),
        (a_template("nvidia-h100-80gb", gpus=8), "a3-highgpu-8g"),
        (a_template("nvidia-h100-80gb", gpus=8, INSTANCE_TYPE="a3-edgegpu-8g"), "a3-edgegpu-8g"),
        (a_template("nvidia-b200", gpus=1), "a4-highgpu-8g"),
        (a_template(ACCELERATOR_COUNT="4"), "g2-standard-48"),
        (a_template(INSTANCE_TYPE="g2-standard-16"), "g2-standard-16"),
        (a_template("nvidia-tesla-a100", gpus=7, GPU_PARTITION="1g.5gb"), "a2-highgpu-1g"),
        (a_template("nvidia-tesla-a100", gpus=8, GPU_PARTITION="1g.5gb"), "a2-highgpu-2g"),
    ],
)
def test_the_smallest_machine_that_takes_a_pod_is_chosen(template: PodTemplate, machine: str) -> None:
    assert find_gpu_shape(template, pods=1).machine.name == machine


def test_the_vcpus_of_attached_gpus_are_bounded() -> None:
    v100 = (family for family in GPUS.values() if family.accelerator == "nvidia-tesla-v100")
    machines = {each.name for family in v100 for each in family.machines if each.chips == 1}

    assert machines == {"n1-standard-4", "n1-standard-8", "n1-highmem-4", "n1-highmem-8"}


def h200(**fields: Any) -> PodTemplate:
    """Half a machine for each pod."""
    body = a_gpu_body(4, selector={labels.GPU_ACCELERATOR: "nvidia-h200-141gb"})
    return read_template({"metadata": {"labels": {"app": "a"}}, "spec": body["spec"] | fields})


def apart(app: str) -> dict[str, Any]:
    term = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


SERVER: dict[str, Any] = {"name": "c", "resources": {"limits": {labels.GPU_RESOURCE: 4}}}
OVER_THREE_HOSTS = [{"topologyKey": labels.HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3}]


@pytest.mark.parametrize(
    ("template", "pods", "nodes"),
    [
        (a_template(), 6, 6),
        (a_template(INSTANCE_TYPE="g2-standard-96"), 9, 2),
        (a_template(INSTANCE_TYPE="g2-standard-96", cpu=40), 9, 5),
        (a_template("nvidia-h200-141gb", gpus=3), 4, 2),
        (a_template("nvidia-tesla-a100", GPU_PARTITION="3g.20gb"), 5, 3),
        (a_template(GPU_SHARING="time-sharing", GPU_CLIENTS="8"), 17, 3),
        (a_template("nvidia-tesla-a100", GPU_PARTITION="1g.5gb", GPU_SHARING="mps", GPU_CLIENTS="2"), 14, 1),
        (h200(affinity=apart("a")), 3, 3),
        (h200(affinity=apart("b")), 3, 2),
        (h200(containers=[SERVER | {"ports": [{"containerPort": 80, "hostPort": 80}]}]), 2, 2),
        (h200(containers=[SERVER | {"ports": [{"containerPort": 80}]}]), 2, 1),
        (h200(containers=[SERVER | {"ports": [{"containerPort": 80}]}], hostNetwork=True), 2, 2),
        (h200(topologySpreadConstraints=OVER_THREE_HOSTS), 2, 2),
        (h200(topologySpreadConstraints=OVER_THREE_HOSTS), 4, 3),
        (h200(topologySpreadConstraints=OVER_THREE_HOSTS), 8, 4),
    ],
)
def test_a_node_takes_as_many_pods_as_its_gpus_cpu_memory_and_their_terms_allow(
    template: PodTemplate, pods: int, nodes: int
) -> None:
    assert find_gpu_shape(template, pods=pods).node_count == nodes


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (a_template(gpus=9), "at most 8"),
        (a_template(GPU_PARTITION="1g.5gb"), "cannot be partitioned"),
        (a_template("nvidia-tesla-a100", GPU_PARTITION="1g.10gb"), "1g.5gb"),
        (a_template(GPU_SHARING="luck", GPU_CLIENTS="4"), "time-sharing, mps"),
        (a_template(GPU_SHARING="mps", GPU_CLIENTS="49"), "2 to 48"),
        (a_template(GPU_SHARING="mps"), "2 to 48"),
        (a_template(GPU_CLIENTS="4"), "time-sharing, mps"),
        (a_template(gpus=2, GPU_SHARING="mps", GPU_CLIENTS="4"), "valid: 1"),
        (a_template(GPU_DRIVER="520"), "default, latest, autoinstall-disabled"),
        (a_template(INSTANCE_TYPE="a2-highgpu-1g"), "g2-standard-4"),
        (a_template(MACHINE_FAMILY="n1"), "g2-standard-4"),
        (a_template(ACCELERATOR_COUNT="3"), "exactly 3"),
        (a_template(cpu=97), "g2-standard-96"),
        (a_template(memory_gb=400), "384 GiB"),
    ],
)
def test_what_no_machine_can_give_is_refused_with_what_would_be_valid(template: PodTemplate, message: str) -> None:
    with refuses(UnsupportedShape, match=message):
        find_gpu_shape(template, pods=1)


@pytest.mark.parametrize(
    ("kind", "message"), [("nvidia-l5", "nvidia-l4"), ("nvidia-tesla-k80", "nvidia-tesla-t4"), ("", "no GPU type")]
)
def test_an_unknown_type_is_refused_by_name(kind: str, message: str) -> None:
    with refuses(UnknownGpu, match=message):
        find_gpu_shape(a_template(kind), pods=1)


def test_a_selector_of_gpu_nodes_asks_for_nothing_beside_the_type() -> None:
    both = L4 | {labels.GPU_NODE: "true"}
    found = expect_demand(plan(a_gpu_body(selector=both)))
    assert labels.GPU_NODE not in found.node_labels

    wrong = expect_decision(plan(a_gpu_body(selector=both | {labels.GPU_NODE: "false"})))
    assert wrong.reason == Reason.SELECTOR_UNSUPPORTED
    assert "valid: true" in wrong.message


def test_more_nodes_than_a_pool_takes_are_refused_and_an_elastic_pool_has_what_gke_allows() -> None:
    with refuses(UnsupportedShape, match="at most 1000"):
        find_gpu_shape(a_template(), pods=1001)
    assert expect_demand(plan(a_gpu_body(), pods=4000)).shape.node_count == 1000


def test_every_machine_leaves_most_of_itself_to_pods() -> None:
    for family in GPUS.values():
        for machine in family.machines:
            cpu, memory = measure_allocatable(machine, Room())
            assert 0.9 * machine.cpus * 1000 < cpu < machine.cpus * 1000
            assert 0.7 * machine.memory_gb * GIB < memory < machine.memory_gb * GIB


def test_the_catalogue_agrees_with_the_one_of_the_fake() -> None:
    """Two tables written apart: a slip in one of them shows."""
    ours = {
        machine.name: (family.accelerator, machine.chips, machine.cpus, machine.memory_gb)
        for family in GPUS.values()
        for machine in family.machines
        if not machine.name.startswith("n1-")
    }
    assert ours == BUILT_IN


def plan(body: dict[str, Any], *, pods: int = 6, **changed: Any) -> Demand | Decision:
    job = a_job(template=body, completionMode=None, parallelism=pods, completions=pods)
    (only,) = plan_demands(job, settings(**changed))
    return only


def build(found: Demand | Decision) -> dict[str, Any]:
    assert isinstance(found, Demand), found
    return a_pool_body(found, empty=found.need.elastic and not found.need.part)


def test_a_pool_of_gpus_says_type_number_and_driver() -> None:
    pool = build(plan(a_gpu_body()))
    driver = {"gpuDriverVersion": "DEFAULT"}
    assert pool["config"]["accelerators"] == [
        {"acceleratorType": "nvidia-l4", "acceleratorCount": "1", "gpuDriverInstallationConfig": driver}
    ]
    assert pool["initialNodeCount"] == 0
    assert pool["autoscaling"] == {"enabled": True, "minNodeCount": 0, "maxNodeCount": 6}
    assert not {"placementPolicy", "networkConfig"} & pool.keys()


def test_partitions_and_sharing_are_asked_for_as_selected() -> None:
    selector = {
        labels.GPU_ACCELERATOR: "nvidia-tesla-a100",
        labels.GPU_PARTITION: "2g.10gb",
        labels.GPU_SHARING: "time-sharing",
        labels.GPU_CLIENTS: "4",
        labels.GPU_DRIVER: "latest",
    }
    pool = build(plan(a_gpu_body(selector=selector)))
    (found,) = pool["config"]["accelerators"]
    assert found["gpuPartitionSize"] == "2g.10gb"
    assert found["gpuSharingConfig"] == {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": "4"}
    assert found["gpuDriverInstallationConfig"] == {"gpuDriverVersion": "LATEST"}
    assert pool["maxPodsConstraint"] == {"maxPodsPerNode": str(settings().node_max_pods + 11)}
    assert not {labels.GPU_PARTITION, labels.GPU_SHARING} & set(pool["config"]["labels"])


def test_machines_with_networks_of_their_own_get_them_from_gke_unless_the_operator_names_some() -> None:
    body = a_gpu_body(8, selector={labels.GPU_ACCELERATOR: "nvidia-h100-mega-80gb"})
    assert build(plan(body))["networkConfig"] == {"acceleratorNetworkProfile": "auto"}
    pool = build(plan(body, node_additional_networks=("a:b",)))
    assert pool["networkConfig"] == {"additionalNodeNetworkConfigs": [{"network": "a", "subnetwork": "b"}]}


def a_slice(template: PodTemplate, hosts: int) -> Demand | Decision:
    """A slice of so many hosts with all the GPUs of each."""
    group = SliceGroup(name="workers", hosts=hosts, template=template, whole=True)
    (only,) = plan_demands(structs.replace(a_jobset(), groups=(group,)))
    return only


def test_hosts_that_belong_together_are_placed_close_to_one_another() -> None:
    found = expect_demand(a_slice(a_template("nvidia-h200-141gb", 8), 4))
    pool = build(found)

    assert not found.need.elastic
    assert (pool["placementPolicy"], pool["initialNodeCount"]) == ({"type": "COMPACT"}, 4)


def test_pods_for_nodes_with_arm_select_them_or_tolerate_their_taint() -> None:
    refused = expect_decision(a_slice(a_template("nvidia-gb200", 4), 18))
    body = a_gpu_body(4, selector={labels.GPU_ACCELERATOR: "nvidia-gb200"})
    body["spec"]["tolerations"] = [{"key": labels.ARCHITECTURE, "operator": "Exists"}]

    assert "kubernetes.io/arch=arm64:NoSchedule" in refused.message
    assert isinstance(a_slice(read_template(body), 18), Demand)


def test_a_rack_is_a_slice_by_workload_policy() -> None:
    pool = build(a_slice(a_template("nvidia-gb200", 4, ARCHITECTURE="arm64"), 18))
    assert pool["placementPolicy"] == {"policyName": "tpu-provisioner-1x72"}
    assert pool["upgradeSettings"] == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (a_slice(a_template("nvidia-gb200", 4), 19), Reason.SHAPE_UNSUPPORTED),
        (plan(a_gpu_body(selector={labels.GPU_ACCELERATOR: "nvidia-l5"})), Reason.GPU_UNKNOWN),
        (plan(a_gpu_body(selector=L4 | {labels.TOPOLOGY: "2x2"})), Reason.SHAPE_UNSUPPORTED),
        (plan(a_gpu_body(selector=L4 | {labels.FLEX_START: "true"})), Reason.CAPACITY_CONFLICT),
        (plan(a_gpu_body(selector=L4 | {labels.ARCHITECTURE: "arm64"})), Reason.SELECTOR_UNSUPPORTED),
        (plan(a_gpu_body(), allowed_accelerators=("tpu-*",)), Reason.REQUEST_NOT_ALLOWED),
    ],
)
def test_refusals_carry_their_reason(found: Demand | Decision, reason: Reason) -> None:
    assert isinstance(found, Decision)
    assert found.reason == reason


def find_key(body: dict[str, Any], pods: int) -> str:
    job = a_job(template=body, completionMode=None, parallelism=pods, completions=pods)
    return want(job).needs[0].key


def test_the_number_of_pods_is_no_part_of_the_key_of_a_need_and_the_driver_is() -> None:
    latest = a_gpu_body(selector=L4 | {labels.GPU_DRIVER: "latest"})

    assert find_key(a_gpu_body(), 6) == find_key(a_gpu_body(), 2) != find_key(latest, 6)


def test_pods_that_use_less_than_half_of_a_host_keep_the_nodes_that_they_begin_with() -> None:
    shared = a_gpu_body(selector=L4 | {labels.GPU_SHARING: "time-sharing", labels.GPU_CLIENTS: "8"})
    pool = build(plan(shared))

    assert pool["initialNodeCount"] == pool["autoscaling"]["minNodeCount"] == 1
