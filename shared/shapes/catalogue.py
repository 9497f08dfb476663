"""The machines of TPUs and GPUs, from `tpus.json` and `gpus.json`. A new family is one row there.

Sources: https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus,
https://cloud.google.com/tpu/docs/supported-tpu-configurations,
https://cloud.google.com/compute/docs/gpus,
https://cloud.google.com/kubernetes-engine/docs/concepts/gpus,
https://cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi, and GKE's published autoscaler
(https://github.com/GoogleCloudPlatform/cluster-autoscaler, ``pkg/cloudprovider/gke/machinetypes``).
They disagree on the upper bounds of the cube families, and on the memory of ct6e-standard-1t (176
or 448 GiB) and tpu7x-standard-4t (960 or 992 GiB). The larger value is used here, and GKE decides.
"""

from __future__ import annotations

import pkgutil
from enum import StrEnum

import msgspec

_N1_CPUS = (4, 8, 16, 32, 64, 96)
_N1_LINES = {"standard": 3.75, "highmem": 6.5}
"""The machines to which GPUs are attached: vCPUs, and GiB for each of them."""


class Placement(StrEnum):
    """How GKE places the hosts of a multi-host slice."""

    NONE = "none"
    COMPACT = "compact"
    """``placement_policy: {type: COMPACT, tpu_topology}``."""
    WORKLOAD_POLICY = "workload-policy"
    """``placement_policy: {policy_name}``: a regional resource policy that must already exist."""


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One machine type of a family."""

    name: str
    chips: int
    """TPU chips or GPUs of one host. Of TPUs a pod must request all."""
    cpus: int
    memory_gb: float
    """GiB."""
    by_name_only: bool = False
    """Chosen only by an explicit instance-type selector."""
    single_host: str = ""
    """The TPU topology of one such host alone; empty if it forms slices of several only."""
    multi_host: bool = False
    """Whether several such hosts form one TPU slice."""
    networks: bool = False
    """Reaches other hosts by additional networks."""


class Family(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One accelerator label of GKE with its machines and properties."""

    accelerator: str  # assumes: tpu-machines
    """Of TPUs the value of ``cloud.google.com/gke-tpu-accelerator``; of GPUs that of
    ``cloud.google.com/gke-accelerator``, and the type's name in the API."""
    machines: tuple[Machine, ...] = ()  # assumes: gpu-machines
    boot_disks: tuple[str, ...]
    """Accepted boot disk types, the default first."""

    generation: str = ""
    """Of TPUs, as the following seven."""
    placement: Placement = Placement.COMPACT
    """For multi-host slices; a single host never has a placement."""
    flex_start: bool = False
    public_names: tuple[str, ...] = ()
    """Prefixes of the public names of slices, for example ``v6e`` in ``v6e-16``; empty if such a
    name means another family."""
    counted_per_chip: int = 1
    """What such a name counts for each chip: 2 if it counts the TensorCores of a chip."""
    topologies: tuple[str, ...] = ()  # assumes: bad-node-count
    """Every valid topology of the multi-host machine, for two-dimensional families."""
    cubes_max: int = 0
    """The largest slice in cubes of 64 chips, for three-dimensional families; 0 for the others."""
    joins_pools: bool = False
    """GKE's slice controller joins pools of one cube to larger slices."""
    quota: str = ""
    """The regional quota of its chips, where Google lists it with those of Compute Engine."""

    attached_cpus: dict[int, int] = {}
    """Of GPUs, as the following five: by their number the most vCPUs of an N1 machine to which they
    are attached; empty for those with machines of their own."""
    local_disks: bool = False
    """The machines have local SSDs, which GKE uses for the ephemeral storage of pods:
    https://cloud.google.com/kubernetes-engine/docs/concepts/local-ssd."""
    partitions: dict[str, int] = {}
    """Partition sizes (MIG), and how many of each one GPU has."""
    compact: bool = False
    """GKE places the hosts of one slice close together."""
    rack_topology: str = ""
    """``1xGPUS`` if GPUs are connected across hosts, so that several hosts are one slice; a
    workload policy has the same topology:
    https://cloud.google.com/kubernetes-engine/docs/how-to/ai-hypercomputer-gke-a4x."""
    architecture: str = "amd64"

    def __post_init__(self) -> None:
        attached = self.machines or tuple(
            Machine(
                name=f"n1-{line}-{cpus}", chips=gpus, cpus=cpus, memory_gb=cpus * memory_per_cpu
            )
            for gpus, cpus_max in self.attached_cpus.items()
            for cpus in _N1_CPUS
            if cpus <= cpus_max
            for line, memory_per_cpu in _N1_LINES.items()
        )
        msgspec.structs.force_setattr(self, "machines", attached)


def _read(name: str) -> dict[str, Family]:
    text = pkgutil.get_data(__name__, name) or b""
    families = msgspec.json.decode(text, type=tuple[Family, ...])
    return {family.accelerator: family for family in families}


TPUS, GPUS = _read("tpus.json"), _read("gpus.json")
