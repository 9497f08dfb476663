"""GPUs of the fake.

Which machines have which, what GKE accepts of them, and what its nodes say of them. Pure.

Written independently of the catalogue of the code under test, on purpose. Sources:
https://cloud.google.com/compute/docs/gpus,
https://cloud.google.com/kubernetes-engine/docs/how-to/gpus,
https://cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi,
https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus.
"""

from dataclasses import dataclass

from standins.google.gke.errors import invalid, invalid_field
from standins.google.gke.model.proto_messages import Message

# machine type: (accelerator, GPUs, vCPUs, GB)
BUILT_IN: dict[str, tuple[str, int, int, int]] = {
    "a2-highgpu-1g": ("nvidia-tesla-a100", 1, 12, 85),
    "a2-highgpu-2g": ("nvidia-tesla-a100", 2, 24, 170),
    "a2-highgpu-4g": ("nvidia-tesla-a100", 4, 48, 340),
    "a2-highgpu-8g": ("nvidia-tesla-a100", 8, 96, 680),
    "a2-megagpu-16g": ("nvidia-tesla-a100", 16, 96, 1360),
    "a2-ultragpu-1g": ("nvidia-a100-80gb", 1, 12, 170),
    "a2-ultragpu-2g": ("nvidia-a100-80gb", 2, 24, 340),
    "a2-ultragpu-4g": ("nvidia-a100-80gb", 4, 48, 680),
    "a2-ultragpu-8g": ("nvidia-a100-80gb", 8, 96, 1360),
    "a3-highgpu-1g": ("nvidia-h100-80gb", 1, 26, 234),
    "a3-highgpu-2g": ("nvidia-h100-80gb", 2, 52, 468),
    "a3-highgpu-4g": ("nvidia-h100-80gb", 4, 104, 936),
    "a3-highgpu-8g": ("nvidia-h100-80gb", 8, 208, 1872),
    "a3-edgegpu-8g": ("nvidia-h100-80gb", 8, 208, 1872),
    "a3-megagpu-8g": ("nvidia-h100-mega-80gb", 8, 208, 1872),
    "a3-ultragpu-8g": ("nvidia-h200-141gb", 8, 224, 2952),
    "a4-highgpu-8g": ("nvidia-b200", 8, 224, 3968),
    "a4x-highgpu-4g": ("nvidia-gb200", 4, 140, 884),
    "a4x-maxgpu-4g-metal": ("nvidia-gb300", 4, 144, 960),
    "g2-standard-4": ("nvidia-l4", 1, 4, 16),
    "g2-standard-8": ("nvidia-l4", 1, 8, 32),
    "g2-standard-12": ("nvidia-l4", 1, 12, 48),
    "g2-standard-16": ("nvidia-l4", 1, 16, 64),
    "g2-standard-24": ("nvidia-l4", 2, 24, 96),
    "g2-standard-32": ("nvidia-l4", 1, 32, 128),
    "g2-standard-48": ("nvidia-l4", 4, 48, 192),
    "g2-standard-96": ("nvidia-l4", 8, 96, 384),
    "g4-standard-48": ("nvidia-rtx-pro-6000", 1, 48, 180),
    "g4-standard-96": ("nvidia-rtx-pro-6000", 2, 96, 360),
    "g4-standard-192": ("nvidia-rtx-pro-6000", 4, 192, 720),
    "g4-standard-384": ("nvidia-rtx-pro-6000", 8, 384, 1440),
}
_ATTACHABLE: dict[str, dict[int, int]] = {
    "nvidia-tesla-t4": {1: 48, 2: 48, 4: 96},
    "nvidia-tesla-p4": {1: 24, 2: 48, 4: 96},
    "nvidia-tesla-p100": {1: 16, 2: 32, 4: 64},
    "nvidia-tesla-v100": {1: 12, 2: 24, 4: 48, 8: 96},
}
"""To N1 machines: the vCPUs that so many GPUs allow at most."""
_PARTITIONS: dict[str, dict[str, int]] = {
    "nvidia-tesla-a100": {"1g.5gb": 7, "2g.10gb": 3, "3g.20gb": 2, "7g.40gb": 1},
    "nvidia-a100-80gb": {"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1},
    "nvidia-h100-80gb": {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1},
    "nvidia-h200-141gb": {"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "7g.141gb": 1},
    "nvidia-b200": {"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "7g.180gb": 1},
}
_FEWEST_CLIENTS, _MOST_CLIENTS = 2, 48
_STRATEGIES = {0: "", 1: "time-sharing", 2: "mps"}
_DRIVERS = {0: "default", 1: "disabled", 2: "default", 3: "latest"}
_STORAGE_SCOPES = ("cloud-platform", "devstorage")
_ARM = ("a4x-",)


@dataclass(frozen=True)
class Gpus:
    """The GPUs of one node."""

    accelerator: str
    count: int
    units: int
    labels: dict[str, str]


def gpus_of(config: Message) -> Gpus | None:
    """Return what a node of this configuration has, None without GPUs.

    `check_accelerators` accepted it.
    """
    built_in = BUILT_IN.get(config.machine_type)
    if not config.accelerators and built_in is None:
        return None
    gpus = config.accelerators[0] if config.accelerators else None
    kind, count = (gpus.accelerator_type, int(gpus.accelerator_count)) if gpus else built_in[:2]  # type: ignore[index]  # not None, see above
    labels = {"cloud.google.com/gke-accelerator": kind, "cloud.google.com/gke-gpu": "true"}
    each = 1
    if gpus is not None:
        driver = gpus.gpu_driver_installation_config.gpu_driver_version
        labels["cloud.google.com/gke-gpu-driver-version"] = _DRIVERS[driver]
        if gpus.gpu_partition_size:
            labels["cloud.google.com/gke-gpu-partition-size"] = gpus.gpu_partition_size
            each *= _PARTITIONS[kind][gpus.gpu_partition_size]
        strategy = _STRATEGIES[gpus.gpu_sharing_config.gpu_sharing_strategy]
        if strategy:
            clients = int(gpus.gpu_sharing_config.max_shared_clients_per_gpu)
            labels["cloud.google.com/gke-gpu-sharing-strategy"] = strategy
            labels["cloud.google.com/gke-max-shared-clients-per-gpu"] = str(clients)
            each *= clients
    return Gpus(kind, count, count * each, labels)


def architecture_of(machine_type: str) -> str:
    """Return the architecture of a machine type's processors."""
    return "arm64" if machine_type.startswith(_ARM) else "amd64"


def check_accelerators(config: Message, cpus: int, *, is_tpu: bool) -> None:
    """Refuse GPUs that the machine does not have or cannot get, and settings they do not know."""
    if not config.accelerators:
        return
    if is_tpu:
        raise invalid_field("node_pool.config.accelerators", "", "TPU machines have no other accelerators.")
    if len(config.accelerators) > 1:
        raise invalid_field("node_pool.config.accelerators", "", "Only one type of accelerator is supported.")
    gpus = config.accelerators[0]
    _check_count(config.machine_type, gpus, cpus)
    sizes = _PARTITIONS.get(gpus.accelerator_type, {})
    if gpus.gpu_partition_size and gpus.gpu_partition_size not in sizes:
        raise invalid_field(
            "accelerators.gpu_partition_size", gpus.gpu_partition_size, f"Must be one of {sorted(sizes)}."
        )
    clients = int(gpus.gpu_sharing_config.max_shared_clients_per_gpu)
    shared = gpus.gpu_sharing_config.gpu_sharing_strategy != 0
    if shared != (clients != 0) or (shared and not _FEWEST_CLIENTS <= clients <= _MOST_CLIENTS):
        raise invalid_field(
            "accelerators.gpu_sharing_config.max_shared_clients_per_gpu",
            clients,
            "Must be 2 to 48, with a strategy.",
        )
    if config.oauth_scopes and not any(word in scope for scope in config.oauth_scopes for word in _STORAGE_SCOPES):
        raise invalid("Nodes with GPUs need an OAuth scope to read from storage.")


def _check_count(machine_type: str, gpus: Message, cpus: int) -> None:
    kind, count = gpus.accelerator_type, int(gpus.accelerator_count)
    built_in = BUILT_IN.get(machine_type)
    if built_in is not None:
        if (kind, count) != built_in[:2]:
            raise invalid_field(
                "node_pool.config.accelerators",
                f"{count} x {kind}",
                f"Machine type {machine_type} has {built_in[1]} x {built_in[0]}.",
            )
        return
    ceilings = _ATTACHABLE.get(kind)
    if ceilings is None or not machine_type.startswith("n1-"):
        raise invalid_field(
            "accelerators.accelerator_type", kind, f"Cannot be attached to machine type {machine_type}."
        )
    if cpus > ceilings.get(count, 0):
        raise invalid_field(
            "accelerators.accelerator_count", count, f"Must be one of {sorted(ceilings)} that allow {cpus} vCPUs."
        )
