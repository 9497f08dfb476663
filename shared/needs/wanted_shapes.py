"""Finds the nodes for the pods of one slice or elastic pool, from their template and number."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.errors import HostsDiffer, UnsupportedShape
from shared.model.workloads import Taint
from shared.needs.near_keys import check_keys
from shared.shapes.gpus import find_gpu_shape, selects_gpu
from shared.shapes.room import describe_size, measure_allocatable
from shared.shapes.tpu_catalogue import BY_ACCELERATOR, MACHINES
from shared.shapes.tpus import count_chips, find_shape, list_topologies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.kinds.kind import SliceOfPod
    from shared.model.workloads import PodTemplate, WorkloadView
    from shared.shapes.room import Room
    from shared.shapes.shape import Shape

_CORES_PER_POD = 8
_WAYS_SHOWN = 4
TPU_TAINT = Taint(labels.TPU_RESOURCE, "present", "NoSchedule")
GPU_TAINT = Taint(labels.GPU_RESOURCE, "present", "NoSchedule")
"""GKE gives them to every TPU node, and to every GPU node."""


def find_wanted_shape(
    found: SliceOfPod, template: PodTemplate, workload: WorkloadView, room: Room
) -> Shape:
    """Return the nodes of one slice or elastic pool.

    Raises:
        UnsupportedShape: no machine or topology fits.
        UnknownGpu: GKE does not have this GPU type.
        HostsDiffer: the workload creates more or fewer pods than the slice has hosts.
        UnsupportedSelector: a selector is almost one of GKE's.
    """
    _check_amounts(template)
    check_keys(template)
    asks_tpu = template.chips or template.selects(labels.ACCELERATOR) or template.topology
    if asks_tpu and (template.gpus or selects_gpu(template)):
        raise UnsupportedShape(
            "the pod asks for TPUs and GPUs, but no node has both",
            field="spec",
            valid="only one of them",
        )
    if template.gpus:
        return _find_gpus(found, template, workload, room)
    shape = _find_tpus(found, template, workload)
    for each in (template, found.group.template):
        _check_size(each, shape, room)
    return shape


def _find_tpus(found: SliceOfPod, template: PodTemplate, workload: WorkloadView) -> Shape:
    shape = find_shape(
        accelerator=template.find_selector(labels.ACCELERATOR),
        topology=template.topology,
        chips_per_pod=template.chips or find_chips_of_peers(template, workload),
        machine_type=template.find_selector(labels.INSTANCE_TYPE),
    )
    if found.group.elastic:
        shape = _fit_elastic(found, shape)
    _check_hosts(found, template, shape)
    for each in (template, *_list_sharers(found, template, workload)):
        if not each.units:
            _check_chipless(each, workload)
    return shape


def _find_gpus(
    found: SliceOfPod, template: PodTemplate, workload: WorkloadView, room: Room
) -> Shape:
    group, key = found.group, labels.GPU_ACCELERATOR
    for each in workload.templates.values():
        if (
            each.selects(key)
            and each.list_values(key) == template.list_values(key)
            and not each.units
        ):
            _check_chipless(each, workload, GPU_TAINT)
    pods = group.replicas if group.elastic else max(group.hosts or group.pods, 1)
    shape = find_gpu_shape(template, pods=pods, room=room)
    if shape.topology and (group.elastic or shape.chips > count_chips(shape.topology)):
        raise UnsupportedShape(
            f"nodes with {shape.accelerator} work only as slices of several hosts",
            field=f"pods per slice of {group.name or found.name}",
            value=str(pods),
            valid=f"a kind of workload that has slices, with at most {count_chips(shape.topology)} GPUs per slice",
        )
    taint = Taint(labels.ARCHITECTURE, shape.architecture, "NoSchedule")
    chosen = template.selects(labels.ARCHITECTURE) or template.tolerates(taint)
    if shape.architecture != "amd64" and not chosen:
        raise UnsupportedShape(
            f"the pod does not tolerate the taint {taint}; GKE adds the toleration only with this selector",
            field=f"spec.nodeSelector {labels.ARCHITECTURE}",
            valid=f"{shape.architecture}, for an image that runs on it",
        )
    return shape


def _fit_elastic(found: SliceOfPod, shape: Shape) -> Shape:
    """Return a single host's shape with one node for each pod of an elastic pool."""
    if shape.multi_host:
        raise HostsDiffer(
            f"this topology of {shape.accelerator} is one slice of {shape.node_count} hosts, "
            "and this workload gives each pod a host of its own",
            field=f"spec.nodeSelector {labels.TOPOLOGY}",
            value=shape.topology,
            valid="the topology of a single host, or a kind of workload that has slices",
        )
    return dataclasses.replace(
        shape, node_count=found.group.replicas, chips=found.group.replicas * shape.chips_per_host
    )


def names_topology(template: PodTemplate) -> bool:
    """Return whether a template selects a topology, or several."""
    return (
        bool(template.list_values(labels.TOPOLOGY)) or labels.SLICE_TOPOLOGY in template.annotations
    )


def _check_hosts(found: SliceOfPod, template: PodTemplate, shape: Shape) -> None:
    group = found.group
    pods = group.hosts or (0 if group.elastic or not group.template.chips else group.pods)
    if not pods or pods == shape.node_count:
        return
    fewer = pods < shape.node_count
    if fewer and (
        group.template.annotations.get(labels.PARTIAL_SLICE) == "true"
        or (not group.hosts and _is_half_used(pods, shape))
    ):
        return
    if (
        fewer
        and not group.hosts
        and names_topology(template)
        and not names_topology(group.template)
    ):
        return  # a pod that adds too large a topology contradicts its spec, which is told in its place
    valid = [str(shape.node_count), *_list_ways(pods, shape)]
    if group.replicas * pods == shape.node_count:
        valid.append(
            f"one slice with all {shape.node_count} pods in place of {group.replicas} slices"
        )
    if fewer:
        valid.append(
            f'the annotation {labels.PARTIAL_SLICE}: "true" in the pod template if hosts shall stay idle'
        )
    raise HostsDiffer(
        f"topology {shape.topology} of {shape.accelerator} with {shape.chips_per_host} chips per pod "
        f"has {_name_hosts(shape.node_count)}, and each host needs one pod",
        field=f"pods per slice of {group.name or found.name}",
        value=str(pods),
        valid="; or ".join(valid),
    )


def _list_ways(pods: int, shape: Shape) -> Iterator[str]:
    """Yield the topologies that have as many hosts as a slice has pods."""
    fitting = [
        each
        for each in list_topologies(BY_ACCELERATOR[shape.accelerator])
        if count_chips(each) == pods * shape.chips_per_host
    ]
    if fitting and MACHINES[shape.machine_type].multi_host:
        yield f"{labels.TOPOLOGY} {' or '.join(fitting[:_WAYS_SHOWN])}, which has {_name_hosts(pods)}"


def _name_hosts(number: int) -> str:
    return f"{number} host{'s' * (number != 1)}"


def _is_half_used(pods: int, shape: Shape) -> bool:
    """Return whether a slice has one pod for each eight chips.

    Examples of the Go TPU Provisioner (https://github.com/ai-on-gke/tpu-provisioner/tree/main/examples)
    take one pod for each eight cores, also where a chip has one core and a host has four chips.
    """
    return (
        BY_ACCELERATOR[shape.accelerator].counted_per_chip == 1
        and pods * _CORES_PER_POD == shape.chips
    )


def _list_sharers(
    found: SliceOfPod, template: PodTemplate, workload: WorkloadView
) -> Iterator[PodTemplate]:
    """Yield the templates of the pods that share a slice with pods of a template that have chips.

    What a webhook adds to a pod is not in its template, so a pod without chips speaks for itself.
    """
    if not template.units:
        return
    yield from (
        each.template for each in workload.groups if each.beside and each.beside == found.group.name
    )
    yield from (each for each in workload.templates.values() if _select_alike(each, template))


def _select_alike(one: PodTemplate, other: PodTemplate) -> bool:
    return all(
        one.list_values(key) == other.list_values(key)
        for key in (labels.ACCELERATOR, labels.TOPOLOGY)
    )


def _check_chipless(
    template: PodTemplate, workload: WorkloadView, taint: Taint = TPU_TAINT
) -> None:
    """Accept pods without chips or GPUs only if they can run on the nodes of pods that have some.

    GKE's admission adds the toleration of the taint only to pods that request some:
    https://cloud.google.com/kubernetes-engine/docs/concepts/tpus. GKE has no automatic node pools
    for claims of devices: https://cloud.google.com/kubernetes-engine/docs/how-to/set-up-dra.
    """
    if (
        taint == TPU_TAINT
        and template.claims_devices
        and not find_chips_of_peers(template, workload)
    ):
        raise UnsupportedShape(
            "the pod asks for TPU chips only by its resourceClaims, which need nodes with a driver that this "
            "provisioner does not install",
            field="spec.resourceClaims",
            valid=f"{labels.TPU_RESOURCE} in the limits of a container, in place of the claim; or a node pool of "
            f"your own, selected by {labels.NODE_POOL}",
        )
    if not template.tolerates(taint):
        raise UnsupportedShape(
            f"a pod selects these nodes, requests no chips or GPUs, and does not tolerate their taint {taint}",
            field=f"resources.{taint.key} (sum over containers)",
            value="0",
            valid=f"{taint.key} in the limits of a container; or, for a pod that needs none itself, a toleration "
            f"with key {taint.key} and operator Exists; or no selector of such nodes",
        )


def _check_size(template: PodTemplate, shape: Shape, room: Room) -> None:
    """Accept pods that fit on a host; a machine of unknown size accepts all."""
    machine = MACHINES[shape.machine_type]
    if not machine.cpus or not (template.cpu_millis or template.memory_bytes):
        return
    cpu, memory = measure_allocatable(machine.cpus, machine.memory_gb, room)
    if template.cpu_millis > cpu or template.memory_bytes > memory:
        raise UnsupportedShape(
            f"a host {machine.name} does not have this much CPU and memory for pods",
            field="resources.requests",
            value=describe_size(template.cpu_millis, template.memory_bytes),
            valid=f"at most {describe_size(cpu, memory)}: the {machine.cpus} vCPUs and {machine.memory_gb:g} GiB "
            "of the host without what GKE and DaemonSets need",
        )


def _check_amounts(template: PodTemplate) -> None:
    for amount in template.unreadable_amounts:
        resource, _, value = amount.partition("=")
        huge = resource.startswith(labels.HUGE_PAGES)
        raise UnsupportedShape(
            "the nodes of this provisioner have no huge pages"
            if huge
            else "not a whole number of accelerators",
            field=f"resources.{resource}",
            value=value,
            valid="memory in their place, or a node pool of your own"
            if huge
            else "a whole number, for example 4",
        )


def find_chips_of_peers(template: PodTemplate, workload: WorkloadView) -> int:
    """Return the chips that the workload's other pods of the same shape request; 0 if none does.

    A leader without chips shares its slice with workers, which may be created after it is bound
    (the co-located head of Pathways).
    """
    wanted = (template.find_selector(labels.ACCELERATOR), template.topology)
    found = (
        each.template.chips
        for each in workload.groups
        if each.template.chips
        and (each.template.find_selector(labels.ACCELERATOR), each.template.topology) == wanted
    )
    return next(found, 0)
