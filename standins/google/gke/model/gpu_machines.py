"""What GKE accepts of GPUs, and what its nodes say of them. Pure.

Sources: https://cloud.google.com/kubernetes-engine/docs/how-to/gpus,
https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus.
"""

from dataclasses import dataclass

from standins.google.gke.errors import invalid, invalid_field
from standins.google.gke.model.machines import read_catalogue
from standins.google.gke.model.proto_messages import Message

BUILT_IN: dict[str, tuple[str, int, int, int]] = {
    name: tuple(row) for name, row in read_catalogue()["gpu_machines"].items()
}
"""By machine type: accelerator, GPUs, vCPUs, GB."""
_ATTACHABLE: dict[str, dict[int, int]] = read_catalogue()["attachable"]
_PARTITIONS: dict[str, dict[str, int]] = read_catalogue()["partitions"]
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
