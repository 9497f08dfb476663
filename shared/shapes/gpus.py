"""The look-up of GPUs: from what a pod asks to machine, nodes, partitions and sharing.

The machine with the fewest GPUs that satisfies the pod's GPUs, CPU and memory is chosen.
"""

from __future__ import annotations

import math

from shared.model import labels
from shared.model.errors import refuse
from shared.model.times import parse_count
from shared.model.workloads import PodTemplate
from shared.shapes import catalogue
from shared.shapes.catalogue import GPUS, Family, GpuSharing, Machine, Placement, Room, Shape

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
NODES_MAX = 1000  # nodes of one pool in one zone: https://cloud.google.com/kubernetes-engine/quotas
GPU_KEYS = (labels.GPU_ACCELERATOR, labels.GPU_PARTITION, labels.GPU_SHARING, labels.GPU_CLIENTS)
"""Node labels that only GPU nodes have."""
_FIELD = f"resources.{labels.GPU_RESOURCE} (sum over containers)"
_NO_DAEMONSETS = Room()


def find_gpu_shape(template: PodTemplate, *, pods: int, room: Room = _NO_DAEMONSETS) -> Shape:
    """Return the nodes for this number of pods with GPUs."""
    name = template.find_selector(labels.GPU_ACCELERATOR)
    family = GPUS.get(name or "")
    if family is None:
        raise catalogue.refuse_family(GPUS, name)
    sharing = _read_sharing(template, family)
    machine = _find_machine(template, family, math.ceil(template.gpus / sharing.units), room)
    per_node = _count_pods(template, machine, sharing, room)
    if not family.local_disks:
        least = max(template.storage_bytes, 1)
        per_node = max(min(per_node, catalogue.measure_storage(room.disk_gb) // least), 1)
    nodes = math.ceil(pods / per_node)
    if nodes > NODES_MAX:
        raise refuse("too_many_nodes", f"{nodes} nodes", most=NODES_MAX)
    return Shape(
        family=family,
        machine=machine,
        topology=family.rack_topology,
        node_count=nodes,
        placement=Placement.WORKLOAD_POLICY if family.rack_topology else Placement.NONE,
        gpus=sharing,
        pods_per_node=per_node,
    )


def _read_sharing(template: PodTemplate, family: Family) -> GpuSharing:
    """Return how the nodes set up their GPUs, as the pod selects it."""
    keys = (labels.GPU_PARTITION, labels.GPU_SHARING, labels.GPU_DRIVER)
    size, strategy, driver = (template.find_selector(key) or "" for key in keys)
    if size and size not in family.partitions:
        sizes = [*family.partitions] or "none; these GPUs cannot be partitioned"
        raise refuse("no_partition_size", size, family=family, sizes=sizes)
    clients = _read_clients(template, strategy)
    driver = driver or "default"
    if driver not in DRIVERS:
        raise refuse("driver_unknown", driver, drivers=[*DRIVERS])
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
        raise refuse("sharing_unknown", strategy, strategies=[*SHARING])
    clients = parse_count(text)
    if clients is None or not CLIENTS_MIN <= clients <= CLIENTS_MAX:
        raise refuse("clients_out_of_range", text, least=CLIENTS_MIN, most=CLIENTS_MAX)
    if template.gpus > 1:
        raise refuse("several_shares", str(template.gpus))
    return clients


def _find_machine(template: PodTemplate, family: Family, gpus: int, room: Room) -> Machine:
    """Return the machine with the fewest GPUs, then vCPUs, that one of the pods fits on."""
    selected = _list_selected(template, family)
    exact = template.find_selector(labels.ACCELERATOR_COUNT)
    enough = [each for each in selected if each.chips >= gpus and exact in (None, str(each.chips))]
    if not enough:
        counts = sorted({each.chips for each in selected})
        in_all = f" and exactly {exact} in all" if exact else ""
        raise refuse(
            "no_such_gpu_count",
            str(template.gpus),
            family=family,
            in_all=in_all,
            most=counts[-1],
            counts=counts,
        )
    roomy = [each for each in enough if _has_room(template, each, room)]
    if roomy:
        return min(roomy, key=lambda each: (each.chips, each.cpus, each.memory_gb))
    largest = max(enough, key=lambda each: (each.cpus, each.memory_gb))
    size = catalogue.describe_size(template.cpu_millis, template.memory_bytes)
    raise refuse("gpu_pods_too_large", size, family=family, largest=largest)


def _list_selected(template: PodTemplate, family: Family) -> list[Machine]:
    """Return the machines of the name or the line that the pod selects."""
    name = template.find_selector(labels.INSTANCE_TYPE)
    line = template.find_selector(labels.MACHINE_FAMILY)
    choice = [each for each in family.machines if name in (None, each.name)]
    selected = [
        each
        for each in (choice if name else family.usual)
        if line in (None, each.name.split("-", 1)[0])
    ]
    if selected:
        return selected
    field, value = (labels.INSTANCE_TYPE, name) if name else (labels.MACHINE_FAMILY, line)
    machines = list(dict.fromkeys(each.name for each in family.machines))
    raise refuse("no_gpu_machine", value or "", field=field, family=family, machines=machines)


def _has_room(template: PodTemplate, machine: Machine, room: Room) -> bool:
    cpu, memory = catalogue.measure_allocatable(machine, room)
    return template.cpu_millis <= cpu and template.memory_bytes <= memory


def _count_pods(template: PodTemplate, machine: Machine, sharing: GpuSharing, room: Room) -> int:
    """Return how many of the pods fit on one node; at least one, by the choice of machine."""
    if any(each.keeps_host(template.labels) for each in template.topology_terms):
        return 1
    cpu, memory = catalogue.measure_allocatable(machine, room)
    limits = [
        machine.chips * sharing.units // template.gpus,
        cpu // max(template.cpu_millis, 1),
        memory // max(template.memory_bytes, 1),
        room.pods,
    ]
    return max(1, min(limits))
