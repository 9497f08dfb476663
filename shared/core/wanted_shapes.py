"""Which nodes the pods of one slice or elastic pool need: from what their template says, and how many they are.

Whether the pods are a demand at all, and what else they ask for, is `shared.core.demand`'s question.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.errors import HostsDiffer, UnsupportedShape
from shared.core.gpus import find_gpu_shape, selects_gpu
from shared.core.shapes import Shape, count_chips, find_shape

if TYPE_CHECKING:
    from shared.core.kinds.kind import SliceOfPod
    from shared.core.workloads import PodTemplate, WorkloadView


def find_wanted_shape(found: SliceOfPod, template: PodTemplate, workload: WorkloadView) -> Shape:
    """Return the nodes of one slice or elastic pool.

    Args:
        found: which of the workload's it is.
        template: what its pods ask for.
        workload: the whole, whose other pods may share the slice.

    Raises:
        UnsupportedShape: no machine or slice is like that.
        UnknownGpu: GKE has no such GPUs.
        HostsDiffer: the workload makes another number of pods than the slice has hosts.
    """
    _check_amounts(template)
    return _find_gpus(found, template) if template.gpus else _find_tpus(found, template, workload)


def _find_tpus(found: SliceOfPod, template: PodTemplate, workload: WorkloadView) -> Shape:
    if selects_gpu(template):
        raise UnsupportedShape(
            "a node has TPUs or GPUs, and the pod selects both", field="spec.nodeSelector", valid="one of them"
        )
    shape = find_shape(
        accelerator=template.find_selector(labels.ACCELERATOR),
        topology=template.topology,
        chips_per_pod=template.chips or _find_chips_of_peers(template, workload),
        machine_type=template.find_selector(labels.INSTANCE_TYPE),
    )
    if found.group.elastic:
        shape = _fit_elastic(found, shape)
    _check_hosts(found, shape)
    return shape


def _find_gpus(found: SliceOfPod, template: PodTemplate) -> Shape:
    if template.chips or template.selects(labels.ACCELERATOR) or template.topology:
        raise UnsupportedShape(
            "a node has TPUs or GPUs, and the pod asks for both", field="spec.containers", valid="one of them"
        )
    group = found.group
    pods = group.replicas if group.elastic else max(group.hosts or group.pods, 1)
    shape = find_gpu_shape(template, pods=pods)
    if shape.topology and (group.elastic or shape.chips > count_chips(shape.topology)):
        raise UnsupportedShape(
            f"{shape.accelerator} are joined across hosts and come as slices",
            field=f"pods per slice of {group.name or found.name}",
            value=str(pods),
            valid=f"a kind of workload that makes slices, of at most {count_chips(shape.topology)} GPUs",
        )
    return shape


def _fit_elastic(found: SliceOfPod, shape: Shape) -> Shape:
    """Return a single host's shape with as many nodes as all pods of an elastic pool need, one for each pod."""
    if shape.multi_host:
        raise HostsDiffer(
            f"each of these pods stands alone, and {shape.topology} of {shape.accelerator} is a slice of "
            f"{shape.node_count} hosts",
            field=f"spec.nodeSelector {labels.TOPOLOGY}",
            value=shape.topology,
            valid="the topology of a single host, or a kind of workload that makes slices",
        )
    return dataclasses.replace(
        shape, node_count=found.group.replicas, chips=found.group.replicas * shape.chips_per_host
    )


def _check_hosts(found: SliceOfPod, shape: Shape) -> None:
    hosts = found.group.hosts
    if hosts and hosts != shape.node_count:
        raise HostsDiffer(
            f"{shape.topology} of {shape.accelerator} with {shape.chips_per_host} chips per pod has "
            f"{shape.node_count} hosts",
            field=f"pods per slice of {found.group.name or found.name}",
            value=str(hosts),
            valid=str(shape.node_count),
        )


def _check_amounts(template: PodTemplate) -> None:
    for amount in template.unreadable_amounts:
        resource, _, value = amount.partition("=")
        raise UnsupportedShape(
            "accelerators come whole", field=f"resources.{resource}", value=value, valid="a whole number"
        )


def _find_chips_of_peers(template: PodTemplate, workload: WorkloadView) -> int:
    """Return the chips that the workload's other pods of the same shape ask for; 0 when none does.

    A leader without chips shares its slice with workers that come once it is bound (Pathways' co-located head).
    """
    wanted = (template.find_selector(labels.ACCELERATOR), template.topology)
    found = (
        each.template.chips
        for each in workload.groups
        if each.template.chips
        and (each.template.find_selector(labels.ACCELERATOR), each.template.topology) == wanted
    )
    return next(found, 0)
