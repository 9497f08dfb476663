"""The GPU catalogue with its look-up: machine, nodes, partitions, sharing. A type is one new row.

The machine with the fewest GPUs that satisfies the pod's GPUs, CPU and memory is chosen.

Sources: https://cloud.google.com/compute/docs/gpus,
https://cloud.google.com/kubernetes-engine/docs/concepts/gpus,
https://cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi, and GKE's published autoscaler
(https://github.com/GoogleCloudPlatform/cluster-autoscaler, ``pkg/cloudprovider/gke/machinetypes``).
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.counts import parse_count
from shared.model.errors import UnknownGpu, UnsupportedShape
from shared.shapes.shape import (
    GpuSharing,
    Placement,
    Room,
    Shape,
    describe_size,
    measure_allocatable,
    measure_storage,
)

if TYPE_CHECKING:
    from shared.model.workloads import PodTemplate

_WITH_LOCAL_DISKS = ("a2-ultragpu", "a3-", "a4-", "a4x-", "g4-")
"""Machines with local SSDs: https://cloud.google.com/compute/docs/disks/local-ssd. GKE uses those
for ephemeral storage: https://cloud.google.com/kubernetes-engine/docs/concepts/local-ssd."""


@dataclass(frozen=True, slots=True)
class GpuMachine:
    """One machine type with a number of GPUs."""

    name: str
    gpus: int
    cpus: int
    memory_gb: float
    """GiB, as in the documentation of machine types."""
    by_name_only: bool = False
    """Chosen only by an explicit instance-type selector."""
    networks: bool = False
    """Reaches other hosts by additional networks."""

    @property
    def local_disks(self) -> bool:
        """Return whether the machine has local SSDs, which pods use in place of the boot disk."""
        return self.name.startswith(_WITH_LOCAL_DISKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFamily:
    """One GPU type of GKE with its machines and properties."""

    accelerator: str
    """The value of ``cloud.google.com/gke-accelerator``, and the type's name in the API."""
    machines: tuple[GpuMachine, ...]
    boot_disks: tuple[str, ...]
    """Accepted boot disk types, the default first."""
    partitions: dict[str, int] = field(default_factory=dict)
    """Partition sizes (MIG), and how many of each one GPU has."""
    compact: bool = False
    """GKE places the hosts of one slice close together."""
    rack_topology: str = ""
    """``1xGPUS`` if GPUs are connected across hosts; a workload policy has the same topology."""
    architecture: str = "amd64"


_PD = ("pd-balanced", "pd-ssd")
_PD_ALL = ("pd-balanced", "pd-ssd", "pd-standard")
_HYPERDISK = ("hyperdisk-balanced",)
_N1_CPUS = (4, 8, 16, 32, 64, 96)


def _attached(ceilings: dict[int, int]) -> tuple[GpuMachine, ...]:
    """Return the N1 machines for each number of attached GPUs, with its largest number of vCPUs."""
    return tuple(
        GpuMachine(f"n1-{line}-{cpus}", gpus, cpus, cpus * memory_gb)
        for gpus, ceiling in ceilings.items()
        for cpus in _N1_CPUS
        if cpus <= ceiling
        for line, memory_gb in (("standard", 3.75), ("highmem", 6.5))
    )


FAMILIES = (  # assumes: gpu-machines
    GpuFamily(
        accelerator="nvidia-tesla-t4", machines=_attached({1: 48, 2: 48, 4: 96}), boot_disks=_PD_ALL
    ),
    GpuFamily(
        accelerator="nvidia-tesla-p4", machines=_attached({1: 24, 2: 48, 4: 96}), boot_disks=_PD_ALL
    ),
    GpuFamily(
        accelerator="nvidia-tesla-p100",
        machines=_attached({1: 16, 2: 32, 4: 64}),
        boot_disks=_PD_ALL,
    ),
    GpuFamily(
        accelerator="nvidia-tesla-v100",
        machines=_attached({1: 12, 2: 24, 4: 48, 8: 96}),
        boot_disks=_PD_ALL,
    ),
    GpuFamily(
        accelerator="nvidia-tesla-a100",
        machines=(
            GpuMachine("a2-highgpu-1g", 1, 12, 85),
            GpuMachine("a2-highgpu-2g", 2, 24, 170),
            GpuMachine("a2-highgpu-4g", 4, 48, 340),
            GpuMachine("a2-highgpu-8g", 8, 96, 680),
            GpuMachine("a2-megagpu-16g", 16, 96, 1360),
        ),
        boot_disks=_PD_ALL,
        partitions={"1g.5gb": 7, "2g.10gb": 3, "3g.20gb": 2, "7g.40gb": 1},
    ),
    GpuFamily(
        accelerator="nvidia-a100-80gb",
        machines=(
            GpuMachine("a2-ultragpu-1g", 1, 12, 170),
            GpuMachine("a2-ultragpu-2g", 2, 24, 340),
            GpuMachine("a2-ultragpu-4g", 4, 48, 680),
            GpuMachine("a2-ultragpu-8g", 8, 96, 1360),
        ),
        boot_disks=_PD_ALL,
        partitions={"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1},
    ),
    GpuFamily(
        accelerator="nvidia-l4",
        machines=(
            *(GpuMachine(f"g2-standard-{cpus}", 1, cpus, cpus * 4) for cpus in (4, 8, 12, 16, 32)),
            GpuMachine("g2-standard-24", 2, 24, 96),
            GpuMachine("g2-standard-48", 4, 48, 192),
            GpuMachine("g2-standard-96", 8, 96, 384),
        ),
        boot_disks=_PD,
    ),
    GpuFamily(
        accelerator="nvidia-rtx-pro-6000",
        machines=(
            GpuMachine("g4-standard-48", 1, 48, 180),
            GpuMachine("g4-standard-96", 2, 96, 360),
            GpuMachine("g4-standard-192", 4, 192, 720),
            GpuMachine("g4-standard-384", 8, 384, 1440),
        ),
        boot_disks=_HYPERDISK,
    ),
    GpuFamily(
        accelerator="nvidia-h100-80gb",
        machines=(
            GpuMachine("a3-highgpu-1g", 1, 26, 234),
            GpuMachine("a3-highgpu-2g", 2, 52, 468),
            GpuMachine("a3-highgpu-4g", 4, 104, 936),
            GpuMachine("a3-highgpu-8g", 8, 208, 1872, networks=True),
            GpuMachine("a3-edgegpu-8g", 8, 208, 1872, by_name_only=True, networks=True),
        ),
        boot_disks=(*_PD, *_HYPERDISK),
        partitions={"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1},
        compact=True,
    ),
    GpuFamily(
        accelerator="nvidia-h100-mega-80gb",
        machines=(GpuMachine("a3-megagpu-8g", 8, 208, 1872, networks=True),),
        boot_disks=(*_PD, *_HYPERDISK),
        compact=True,
    ),
    GpuFamily(
        accelerator="nvidia-h200-141gb",
        machines=(GpuMachine("a3-ultragpu-8g", 8, 224, 2952, networks=True),),
        boot_disks=_HYPERDISK,
        partitions={"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "7g.141gb": 1},
        compact=True,
    ),
    GpuFamily(
        accelerator="nvidia-b200",
        machines=(GpuMachine("a4-highgpu-8g", 8, 224, 3968, networks=True),),
        boot_disks=_HYPERDISK,
        partitions={"1g.23gb": 7, "1g.45gb": 4, "2g.45gb": 3, "3g.90gb": 2, "7g.180gb": 1},
        compact=True,
    ),
    GpuFamily(
        accelerator="nvidia-gb200",
        machines=(GpuMachine("a4x-highgpu-4g", 4, 140, 884, networks=True),),
        boot_disks=_HYPERDISK,
        rack_topology="1x72",
        architecture="arm64",
    ),
    GpuFamily(
        accelerator="nvidia-gb300",
        machines=(GpuMachine("a4x-maxgpu-4g-metal", 4, 144, 960, networks=True),),
        boot_disks=_HYPERDISK,
        rack_topology="1x72",
        architecture="arm64",
    ),
)

BY_GPU = {family.accelerator: family for family in FAMILIES}
RETIRED = frozenset({"nvidia-tesla-k80"})
CLIENTS_MIN, CLIENTS_MAX = 2, 48
"""How many pods may share one GPU: https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus."""
SHARING = {"time-sharing": "TIME_SHARING", "mps": "MPS"}
"""Values of the sharing selector, and their names in the API."""
DRIVERS = {
    "default": "DEFAULT",
    "latest": "LATEST",
    "autoinstall-disabled": "INSTALLATION_DISABLED",
}
"""Values of the driver selector, and their names in the API."""
RACK_SCALE = frozenset(family.accelerator for family in FAMILIES if family.rack_topology)
"""GPUs that are connected across hosts, so that several hosts are one slice:
https://cloud.google.com/kubernetes-engine/docs/how-to/ai-hypercomputer-gke-a4x."""
NODES_MAX = 1000
"""Nodes of one pool in one zone: https://cloud.google.com/kubernetes-engine/quotas."""
_SELECTORS = (labels.GPU_ACCELERATOR, labels.GPU_PARTITION, labels.GPU_SHARING, labels.GPU_CLIENTS)
_FIELD = f"resources.{labels.GPU_RESOURCE} (sum over containers)"
_SHOWN = 4
ANY_ROOM = Room()
"""Without a share of DaemonSets."""


def selects_gpu(template: PodTemplate) -> bool:
    """Return whether a pod selects a node label that only GPU nodes have."""
    return any(template.selects(key) for key in _SELECTORS)


def find_gpu_shape(template: PodTemplate, *, pods: int, room: Room = ANY_ROOM) -> Shape:
    """Return the nodes for this number of pods with GPUs."""
    family = _find_family(template)
    sharing = _read_sharing(template, family)
    wanted = math.ceil(template.gpus / sharing.units)
    machine = _find_machine(template, family, wanted, room)
    per_node = _count_pods(template, machine, sharing, room)
    spread = max(
        (each.domains_min for each in template.topology_terms if each.key == labels.HOSTNAME),
        default=1,
    )
    nodes = max(math.ceil(pods / per_node), min(pods, spread))
    if nodes > NODES_MAX:
        raise UnsupportedShape(
            "one node pool cannot have this many nodes",
            field="pods",
            value=f"{nodes} nodes",
            valid=f"at most {NODES_MAX} nodes: fewer pods, or several workloads",
        )
    return Shape(
        generation=machine.name.split("-", 1)[0],
        accelerator=family.accelerator,
        machine_type=machine.name,
        topology=family.rack_topology,
        chips=nodes * machine.gpus,
        chips_per_host=machine.gpus,
        node_count=nodes,
        placement=Placement.WORKLOAD_POLICY if family.rack_topology else Placement.NONE,
        boot_disks=family.boot_disks,
        flex_start=False,
        gpus=sharing,
        pods_per_node=per_node,
        own_networks=machine.networks,
        local_disks=machine.local_disks,
        architecture=family.architecture,
    )


def _find_family(template: PodTemplate) -> GpuFamily:
    name = template.find_selector(labels.GPU_ACCELERATOR)
    if name in BY_GPU:
        return BY_GPU[name]
    near = difflib.get_close_matches(name or "", BY_GPU, n=_SHOWN, cutoff=0.6)
    what = "the pod selects no GPU type"
    if name:
        what = "this GPU type is retired" if name in RETIRED else "unknown GPU type"
    raise UnknownGpu(
        what,
        field=labels.GPU_ACCELERATOR,
        value=name or "",
        valid=", ".join(near or sorted(BY_GPU)),
    )


def _read_sharing(template: PodTemplate, family: GpuFamily) -> GpuSharing:
    size = template.find_selector(labels.GPU_PARTITION) or ""
    if size and size not in family.partitions:
        raise UnsupportedShape(
            f"not a partition size of {family.accelerator}",
            field=labels.GPU_PARTITION,
            value=size,
            valid=", ".join(family.partitions) or "none; these GPUs cannot be partitioned",
        )
    strategy = template.find_selector(labels.GPU_SHARING) or ""
    clients = _read_clients(template, strategy)
    driver = template.find_selector(labels.GPU_DRIVER) or "default"
    if driver not in DRIVERS:
        raise UnsupportedShape(
            "unknown driver version",
            field=labels.GPU_DRIVER,
            value=driver,
            valid=", ".join(DRIVERS),
        )
    return GpuSharing(
        partition=size,
        strategy=SHARING.get(strategy, ""),
        clients=clients if strategy else 0,
        driver=DRIVERS[driver],
        units=family.partitions.get(size, 1) * clients,
    )


def _read_clients(template: PodTemplate, strategy: str) -> int:
    """Return how many pods share one GPU; 1 without sharing."""
    text = template.find_selector(labels.GPU_CLIENTS) or ""
    if not strategy and not text:
        return 1
    if strategy not in SHARING:
        raise UnsupportedShape(
            "unknown GPU sharing strategy" if strategy else "the GPU sharing strategy is missing",
            field=labels.GPU_SHARING,
            value=strategy,
            valid=", ".join(SHARING),
        )
    clients = parse_count(text)
    if clients is None or not CLIENTS_MIN <= clients <= CLIENTS_MAX:
        raise UnsupportedShape(
            "the number of pods that share a GPU is missing or out of range",
            field=labels.GPU_CLIENTS,
            value=text,
            valid=f"{CLIENTS_MIN} to {CLIENTS_MAX}",
        )
    if template.gpus > 1:
        raise UnsupportedShape(
            "a pod can use only one share of a shared GPU",
            field=_FIELD,
            value=str(template.gpus),
            valid="1",
        )
    return clients


def _find_machine(template: PodTemplate, family: GpuFamily, gpus: int, room: Room) -> GpuMachine:
    """Return the machine with the fewest GPUs, then vCPUs, that one of the pods fits on."""
    pinned = template.find_selector(labels.INSTANCE_TYPE)
    line = template.find_selector(labels.MACHINE_FAMILY)
    fitting = [
        each
        for each in family.machines
        if (each.name == pinned if pinned else not each.by_name_only)
        and line in (None, each.name.split("-", 1)[0])
    ]
    if not fitting:
        raise UnsupportedShape(
            f"no machine type with {family.accelerator} matches",
            field=labels.INSTANCE_TYPE if pinned else labels.MACHINE_FAMILY,
            value=pinned or line or "",
            valid=", ".join(dict.fromkeys(each.name for each in family.machines)),
        )
    exact = template.find_selector(labels.ACCELERATOR_COUNT)
    enough = [each for each in fitting if each.gpus >= gpus and exact in (None, str(each.gpus))]
    if not enough:
        counts = sorted({each.gpus for each in fitting})
        raise UnsupportedShape(
            f"no machine has this many {family.accelerator}"
            + (f" and exactly {exact} in all" if exact else ""),
            field=_FIELD,
            value=str(template.gpus),
            valid=f"at most {counts[-1]} (machines have {', '.join(map(str, counts))})",
        )
    roomy = [each for each in enough if _has_room(template, each, room)]
    if not roomy:
        largest = max(enough, key=lambda each: (each.cpus, each.memory_gb))
        raise UnsupportedShape(
            f"no machine with {family.accelerator} has this much CPU and memory for pods",
            field="resources.requests",
            value=describe_size(template.cpu_millis, template.memory_bytes),
            valid=f"less than the {largest.cpus} vCPUs and {largest.memory_gb:g} GiB of "
            f"{largest.name}",
        )
    return min(roomy, key=lambda each: (each.gpus, each.cpus, each.memory_gb))


def _has_room(template: PodTemplate, machine: GpuMachine, room: Room) -> bool:
    cpu, memory = measure_allocatable(machine.cpus, machine.memory_gb, room)
    return template.cpu_millis <= cpu and template.memory_bytes <= memory


def _count_pods(template: PodTemplate, machine: GpuMachine, sharing: GpuSharing, room: Room) -> int:
    """Return how many of the pods fit on one node; at least one, by the choice of machine."""
    if any(each.keeps_apart(labels.HOSTNAME, template.labels) for each in template.topology_terms):
        return 1
    cpu, memory = measure_allocatable(machine.cpus, machine.memory_gb, room)
    limits = [
        machine.gpus * sharing.units // template.gpus,
        cpu // max(template.cpu_millis, 1),
        memory // max(template.memory_bytes, 1),
        room.pods,
    ]
    if not machine.local_disks:
        limits.append(measure_storage(room.disk_gb) // max(template.storage_bytes, 1))
    return max(1, min(limits))
