"""The look-up of GPUs: from what a pod asks to machine, nodes, partitions and sharing.

The machine with the fewest GPUs that satisfies the pod's GPUs, CPU and memory is chosen.
"""

from __future__ import annotations

import difflib
import math
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import UnknownGpu, UnsupportedShape
from shared.model.times import parse_count
from shared.shapes.catalogue import GPUS, Placement
from shared.shapes.shape import (
    GpuSharing,
    Room,
    Shape,
    describe_size,
    measure_allocatable,
    measure_storage,
)

if TYPE_CHECKING:
    from shared.model.workloads import PodTemplate
    from shared.shapes.catalogue import Family, Machine

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
RACK_SCALE = frozenset(family.accelerator for family in GPUS.values() if family.rack_topology)
"""GPUs that are connected across hosts, so that several hosts are one slice."""
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
    devices = math.ceil(template.gpus / sharing.units)
    machine = _find_machine(template, family, devices, room)
    per_node = _count_pods(template, machine, sharing, room)
    if not family.local_disks:
        least = max(template.storage_bytes, 1)
        per_node = max(min(per_node, measure_storage(room.disk_gb) // least), 1)
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
        family=family,
        machine=machine,
        topology=family.rack_topology,
        node_count=nodes,
        placement=Placement.WORKLOAD_POLICY if family.rack_topology else Placement.NONE,
        gpus=sharing,
        pods_per_node=per_node,
    )


def _find_family(template: PodTemplate) -> Family:
    name = template.find_selector(labels.GPU_ACCELERATOR)
    if name in GPUS:
        return GPUS[name]
    near = difflib.get_close_matches(name or "", GPUS, n=_SHOWN, cutoff=0.6)
    raise UnknownGpu(
        "unknown GPU type" if name else "the pod selects no GPU type",
        field=labels.GPU_ACCELERATOR,
        value=name or "",
        valid=", ".join(near or sorted(GPUS)),
    )


def _read_sharing(template: PodTemplate, family: Family) -> GpuSharing:
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


def _find_machine(template: PodTemplate, family: Family, gpus: int, room: Room) -> Machine:
    """Return the machine with the fewest GPUs, then vCPUs, that one of the pods fits on."""
    enough = _list_large(template, family, gpus)
    roomy = [each for each in enough if _has_room(template, each, room)]
    if roomy:
        return min(roomy, key=lambda each: (each.chips, each.cpus, each.memory_gb))
    largest = max(enough, key=lambda each: (each.cpus, each.memory_gb))
    raise UnsupportedShape(
        f"no machine with {family.accelerator} has this much CPU and memory for pods",
        field="resources.requests",
        value=describe_size(template.cpu_millis, template.memory_bytes),
        valid=f"less than the {largest.cpus} vCPUs and {largest.memory_gb:g} GiB of {largest.name}",
    )


def _list_large(template: PodTemplate, family: Family, gpus: int) -> list[Machine]:
    """Return the machines that the pod selects and that have so many GPUs."""
    selected = _list_selected(template, family)
    exact = template.find_selector(labels.ACCELERATOR_COUNT)
    enough = [each for each in selected if each.chips >= gpus and exact in (None, str(each.chips))]
    if enough:
        return enough
    counts = sorted({each.chips for each in selected})
    raise UnsupportedShape(
        f"no machine has this many {family.accelerator}"
        + (f" and exactly {exact} in all" if exact else ""),
        field=_FIELD,
        value=str(template.gpus),
        valid=f"at most {counts[-1]} (machines have {', '.join(map(str, counts))})",
    )


def _list_selected(template: PodTemplate, family: Family) -> list[Machine]:
    name = template.find_selector(labels.INSTANCE_TYPE)
    line = template.find_selector(labels.MACHINE_FAMILY)
    selected = [
        each
        for each in family.machines
        if (each.name == name if name else not each.by_name_only)
        and line in (None, each.name.split("-", 1)[0])
    ]
    if selected:
        return selected
    raise UnsupportedShape(
        f"no machine type with {family.accelerator} matches",
        field=labels.INSTANCE_TYPE if name else labels.MACHINE_FAMILY,
        value=name or line or "",
        valid=", ".join(dict.fromkeys(each.name for each in family.machines)),
    )


def _has_room(template: PodTemplate, machine: Machine, room: Room) -> bool:
    cpu, memory = measure_allocatable(machine.cpus, machine.memory_gb, room)
    return template.cpu_millis <= cpu and template.memory_bytes <= memory


def _count_pods(template: PodTemplate, machine: Machine, sharing: GpuSharing, room: Room) -> int:
    """Return how many of the pods fit on one node; at least one, by the choice of machine."""
    if any(each.keeps_apart(labels.HOSTNAME, template.labels) for each in template.topology_terms):
        return 1
    cpu, memory = measure_allocatable(machine.cpus, machine.memory_gb, room)
    limits = [
        machine.chips * sharing.units // template.gpus,
        cpu // max(template.cpu_millis, 1),
        memory // max(template.memory_bytes, 1),
        room.pods,
    ]
    return max(1, min(limits))
