"""An object of a kind without pools is said to ask for accelerators, in whatever way it does."""

from tests.field.planned import plan, print_plan

WAYS = {
    "DynamoGraphDeployment selects-and-counts": "cloud.google.com/gke-accelerator: nvidia-b200",
    "Counts counts-only": "gpu: 1",
    "Workflow by-affinity": "cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice",
    "ResourceClaimTemplate by-claim": "deviceClassName: gpu.nvidia.com",
    "Service by-part": "nvidia.com/mig-1g.5gb: 1",
    "Worker by-machine": "node.kubernetes.io/instance-type: a3-highgpu-8g",
}


def test_each_way_is_marked_and_the_sum_does_not_deny_it() -> None:
    said = plan("other-kinds-that-ask.yaml")

    why = "but no pools are made for this kind"
    assert said["not_planned"].pop() == "ProvisioningRequest four-hosts (left to GKE: queued provisioning)"
    assert said["not_planned"] == [f"{name} (asks for accelerators ({way}), {why})" for name, way in WAYS.items()]
    assert "no workload needs accelerators" not in print_plan("other-kinds-that-ask.yaml")


def test_what_only_describes_nodes_asks_for_nothing() -> None:
    said = plan("kinds-that-ask-for-nothing.yaml")

    assert said["not_planned"] == ["ResourceFlavor v6e", "ConfigMap words"]
    assert said["summary"] == "no workload needs accelerators"
