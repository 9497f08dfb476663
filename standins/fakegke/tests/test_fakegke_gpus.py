"""GPUs on the fake: what it accepts, what its nodes say, and how a group loses exactly the named
instances.
"""

from typing import Any

import pytest

from standins.fakegke.model.node_events import Event, NodeUp
from standins.fakegke.tests.compute_groups import Groups
from standins.fakegke.tests.fakegke_worlds import LONG, InProcessWorld, ServedWorld, cpu_pool

L4: dict[str, Any] = {"accelerator_type": "nvidia-l4", "accelerator_count": 1}


def gpu_pool(machine: str = "g2-standard-4", *accelerators: dict[str, Any], **changes: Any) -> Any:
    config = {"machine_type": machine, "accelerators": list(accelerators or (L4,)), **changes.pop("config", {})}
    return cpu_pool(config=config, **changes)


def create(world: InProcessWorld | ServedWorld, pool: Any) -> Any:
    return world.client.create_node_pool(parent=world.parent, node_pool=pool)


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (gpu_pool("g2-standard-24"), "has 2 x nvidia-l4"),
        (gpu_pool("g2-standard-4", L4 | {"accelerator_type": "nvidia-tesla-t4"}), "has 1 x nvidia-l4"),
        (gpu_pool("e2-standard-4"), "Cannot be attached"),
        (
            gpu_pool("n1-standard-16", {"accelerator_type": "nvidia-tesla-v100", "accelerator_count": 1}),
            "16 vCPUs",
        ),
        (gpu_pool("n1-standard-8", {"accelerator_type": "nvidia-tesla-t4", "accelerator_count": 3}), "[1, 2, 4]"),
        (gpu_pool("ct6e-standard-1t"), "TPU machines"),
        (gpu_pool("g2-standard-4", L4, L4), "Only one type"),
        (gpu_pool("g2-standard-4", L4 | {"gpu_partition_size": "1g.5gb"}), "Must be one of"),
        (
            gpu_pool("g2-standard-4", L4 | {"gpu_sharing_config": {"max_shared_clients_per_gpu": 4}}),
            "with a strategy",
        ),
        (gpu_pool(config={"oauth_scopes": ["https://www.googleapis.com/auth/monitoring"]}), "read from storage"),
    ],
)
def test_gpus_that_the_machine_does_not_have_are_refused(pool: Any, message: str) -> None:
    world = InProcessWorld()
    refused = world.refusal(lambda: create(world, pool))
    assert refused.code == "INVALID_ARGUMENT"
    assert message in refused.text


def test_a_node_says_what_it_has_and_keeps_others_off() -> None:
    world, nodes = InProcessWorld(), {}

    def note(event: Event) -> None:
        if isinstance(event, NodeUp):
            nodes[event.node.pool] = event.node.manifest

    world.gke.listen(note)
    sharing = {"gpu_sharing_strategy": 1, "max_shared_clients_per_gpu": 3}
    a100 = {
        "accelerator_type": "nvidia-tesla-a100",
        "accelerator_count": 2,
        "gpu_partition_size": "3g.20gb",
        "gpu_sharing_config": sharing,
        "gpu_driver_installation_config": {"gpu_driver_version": 3},
    }
    create(world, gpu_pool("a2-highgpu-2g", a100))
    gb200 = {"accelerator_type": "nvidia-gb200", "accelerator_count": 4}
    create(world, gpu_pool("a4x-highgpu-4g", gb200, name="rack"))
    world.advance(LONG)
    node, rack = (nodes[name] for name in ("pool-1", "rack"))
    assert rack["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert "kubernetes.io/arch" in {taint["key"] for taint in rack["spec"]["taints"]}
    pod_labels = {
        key.removeprefix("cloud.google.com/"): value for key, value in node["metadata"]["labels"].items()
    }
    assert pod_labels["gke-accelerator"] == "nvidia-tesla-a100"
    assert pod_labels["gke-gpu-partition-size"] == "3g.20gb"
    assert pod_labels["gke-gpu-sharing-strategy"] == "time-sharing"
    assert pod_labels["gke-max-shared-clients-per-gpu"] == "3"
    assert pod_labels["gke-gpu-driver-version"] == "latest"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "12"
    assert {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"} in node["spec"]["taints"]


@pytest.fixture
def group(served: ServedWorld) -> Groups:
    create(served, gpu_pool(initial_node_count=2))
    served.advance(LONG)
    return Groups(served)


def test_a_resize_shows_in_the_group_and_not_in_the_pool_s_first_size(served: ServedWorld, group: Groups) -> None:
    served.client.set_node_pool_size({"name": f"{served.parent}/nodePools/pool-1", "node_count": 4})
    served.advance(LONG)
    assert (group.read()["targetSize"], len(group.node_names()), served.pool().initial_node_count) == (4, 4, 2)


def test_exactly_the_named_instances_go_and_the_group_is_smaller(group: Groups) -> None:
    goes, stays = group.node_names()
    assert group.delete([goes]).json()["status"] == "DONE"
    assert group.node_names() == [stays]
    assert group.read()["targetSize"] == 1


def test_an_unknown_instance_is_refused_and_none_goes(group: Groups) -> None:
    answer = group.delete([group.node_names()[0], "gke-no-such-node"])
    assert answer.status_code == 400
    assert "not a member" in answer.json()["error"]["message"]
    assert group.read()["targetSize"] == 2
    assert group.delete([]).status_code == 400


def test_the_instances_of_a_group_are_listed_with_what_it_does_to_them(group: Groups) -> None:
    rows = group.instances()
    assert sorted(each["instance"].rpartition("/")[2] for each in rows) == group.node_names()
    assert {(each["instanceStatus"], each["currentAction"]) for each in rows} == {("RUNNING", "NONE")}
