"""Finds the nodes for the pods of one slice or elastic pool, from their template and number."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import structs

from shared.model import labels
from shared.model.errors import refuse
from shared.model.workloads import PodTemplate, SliceGroup, Taint, WorkloadView
from shared.shapes import catalogue
from shared.shapes.gpus import GPU_KEYS, NODES_MAX, find_gpu_shape
from shared.shapes.tpus import count_chips, find_shape, list_topologies

_CORES_PER_POD = 8
TPU_TAINT = Taint(labels.TPU_RESOURCE, "present", "NoSchedule")
GPU_TAINT = Taint(labels.GPU_RESOURCE, "present", "NoSchedule")
"""GKE gives them to every TPU node, and to every GPU node."""


def find_slice_shape(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, room: catalogue.Room
) -> catalogue.Shape:
    """Return the nodes of one slice or elastic pool of a group."""
    for amount in template.unreadable_amounts:
        resource, _, value = amount.partition("=")
        huge = resource.startswith(labels.HUGE_PAGES)
        raise refuse("huge_pages" if huge else "amount_unreadable", value, resource=resource)
    asks_tpu = template.chips or template.selects(labels.ACCELERATOR) or template.topology
    if asks_tpu and (template.gpus or any(map(template.selects, GPU_KEYS))):
        raise refuse("tpus_and_gpus")
    if template.gpus:
        shape = _find_gpus(group, template, room)
    else:
        shape = _find_tpus(group, template, workload, room)
    _check_sharers(group, template, workload, shape)
    return shape


def _find_tpus(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, room: catalogue.Room
) -> catalogue.Shape:
    shape = find_shape(template, template.chips or _find_chips_of_peers(template, workload))
    if not template.chips:
        _check_chipless(template, workload, TPU_TAINT, shape)
    if not group.elastic:
        _check_hosts(group, template, shape)
    elif shape.node_count > 1:
        raise refuse("slice_for_single_pods", shape.topology, shape=shape)
    machine = shape.machine
    cpu, memory = catalogue.measure_allocatable(machine, room)
    if template.cpu_millis > cpu or template.memory_bytes > memory:
        size = catalogue.describe_size(template.cpu_millis, template.memory_bytes)
        most = catalogue.describe_size(cpu, memory)
        raise refuse("tpu_pods_too_large", size, machine=machine, most=most)
    return structs.replace(shape, node_count=group.replicas) if group.elastic else shape


def _find_gpus(group: SliceGroup, template: PodTemplate, room: catalogue.Room) -> catalogue.Shape:
    pods = min(group.replicas, NODES_MAX) if group.elastic else group.hosts or group.pods
    shape = find_gpu_shape(template, pods=max(pods, 1), room=room)
    if shape.topology and (group.elastic or shape.chips > count_chips(shape.topology)):
        chips = count_chips(shape.topology)
        raise refuse("rack_without_slices", str(pods), shape=shape, chips=chips)
    taint = Taint(labels.ARCHITECTURE, shape.family.architecture, "NoSchedule")
    chosen = template.selects(labels.ARCHITECTURE) or template.tolerates(taint)
    if shape.family.architecture != "amd64" and not chosen:
        raise refuse("architecture_not_chosen", taint=taint)
    return shape


def _check_hosts(group: SliceGroup, template: PodTemplate, shape: catalogue.Shape) -> None:
    """Accept a slice with one pod for each host, or with fewer where that is meant."""
    pods, hosts = group.hosts or (group.pods if group.template.chips else 0), shape.node_count
    if pods in (0, hosts):
        return
    partial = template.annotations.get(labels.PARTIAL_SLICE) == "true"
    half = not group.hosts and _is_half_used(pods, shape)
    if pods > hosts or not (partial or half):
        raise refuse(
            "hosts_differ",
            str(pods),
            of_group=f" of {group.name}" * bool(group.name),
            shape=shape,
            hosts=_name_hosts(hosts),
            remedies="; or ".join(_list_remedies(pods, group, shape)),
        )


def _list_remedies(pods: int, group: SliceGroup, shape: catalogue.Shape) -> Iterator[str]:
    """Yield what would be right in place of so many pods for each slice."""
    hosts, all_chips = shape.node_count, pods * shape.machine.chips
    yield str(hosts)
    fitting = [each for each in list_topologies(shape.family) if count_chips(each) == all_chips]
    if fitting and shape.machine.multi_host:
        shown = " or ".join(fitting[: catalogue.NEAREST_SHOWN])
        yield f"{labels.TOPOLOGY} {shown}, which has {_name_hosts(pods)}"
    if group.replicas * pods == hosts:
        yield f"one slice with all {hosts} pods in place of {group.replicas} slices"
    if pods < hosts:
        idle = f'the annotation {labels.PARTIAL_SLICE}: "true" in the pod template'
        yield f"{idle} if hosts shall stay idle"


def _name_hosts(number: int) -> str:
    return f"{number} host{'s' * (number != 1)}"


def _is_half_used(pods: int, shape: catalogue.Shape) -> bool:
    """Return whether a slice has one pod for each eight chips.

    Examples of the Go TPU Provisioner (https://github.com/ai-on-gke/tpu-provisioner/tree/main/examples)
    take one pod for each eight cores, also where a chip has one core and a host has four chips.
    """
    by_chip = shape.family.counted_per_chip == 1
    return by_chip and pods * _CORES_PER_POD == shape.chips


def _check_sharers(
    group: SliceGroup, template: PodTemplate, workload: WorkloadView, shape: catalogue.Shape
) -> None:
    """Accept a slice whose pods without chips or GPUs can all run on its nodes."""
    taint = GPU_TAINT if shape.gpus else TPU_TAINT
    alike = [each for each in workload.templates.values() if _selects_alike(each, template)]
    beside = [each.template for each in workload.groups if each.beside == group.name != ""]
    for sharer in (*beside, *alike):
        if not sharer.units:
            _check_chipless(sharer, workload, taint, shape)


def _selects_alike(one: PodTemplate, other: PodTemplate) -> bool:
    """Return whether two templates select the same accelerators, and some."""
    keys = (labels.GPU_ACCELERATOR,) if other.gpus else (labels.ACCELERATOR, labels.TOPOLOGY)
    own, others = ([each.selection.get(key, ()) for key in keys] for each in (one, other))
    return any(map(one.selects, keys)) and own == others


def _check_chipless(
    template: PodTemplate, workload: WorkloadView, taint: Taint, shape: catalogue.Shape
) -> None:
    """Accept pods without chips or GPUs only if they can run on the nodes of pods that have some.

    GKE's admission adds the toleration of the taint only to pods that request some:
    https://cloud.google.com/kubernetes-engine/docs/concepts/tpus. GKE has no automatic node pools
    for claims of devices: https://cloud.google.com/kubernetes-engine/docs/how-to/set-up-dra.
    """
    by_claim = taint == TPU_TAINT and template.claims_devices
    if by_claim and not _find_chips_of_peers(template, workload):
        raise refuse("chips_by_claim")
    if not template.tolerates(taint):
        needs = "" if shape.gpus else f"{shape.topology} needs {shape.machine.chips} chips; "
        raise refuse("taint_not_tolerated", needs=needs, taint=taint)


def _find_chips_of_peers(template: PodTemplate, workload: WorkloadView) -> int:
    """Return the chips that the workload's other pods of the same shape request; 0 if none does.

    A leader without chips shares its slice with workers, which may be created after it is bound
    (the co-located head of Pathways).
    """
    selection = (template.find_selector(labels.ACCELERATOR), template.topology)
    for group in workload.groups:
        peer = group.template
        if peer.chips and (peer.find_selector(labels.ACCELERATOR), peer.topology) == selection:
            return peer.chips
    return 0


def find_disk(
    template: PodTemplate, shape: catalogue.Shape, room: catalogue.Room, usual: int
) -> int:
    """Return the boot disk in GB with which the pods of a node fit; 0, also as `usual`: GKE's own.

    With local SSDs the pods may fit though they need more than the settings allow.
    """
    if not template.storage_bytes:
        return usual
    least, most = usual or catalogue.DISK_GB_DEFAULT, room.disk_gb
    size = catalogue.find_disk_size(template.storage_bytes * shape.pods_per_node, least)
    if size <= least or (size > most and shape.family.local_disks):
        return usual
    if size > most:
        raise refuse(
            "disk_too_large",
            f"{math.ceil(template.storage_bytes / catalogue.GIB)}Gi",
            size=size,
            most=most,
            room=catalogue.measure_storage(most) // catalogue.GIB,
            shape=shape,
        )
    return size
