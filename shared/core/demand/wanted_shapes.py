"""Finds the nodes for the pods of one slice or elastic pool, from their template and number."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.demand.near_keys import check_keys
from shared.core.errors import HostsDiffer, UnsupportedShape
from shared.core.shapes.gpus import find_gpu_shape, selects_gpu
from shared.core.shapes.tpus import count_chips, find_shape

if TYPE_CHECKING:
    from shared.core.kinds.kind import SliceOfPod
    from shared.core.shapes.shape import Shape
    from shared.core.workloads import PodTemplate, WorkloadView


def find_wanted_shape(found: SliceOfPod, template: PodTemplate, workload: WorkloadView) -> Shape:
    """Return the nodes of one slice or elastic pool.

    Args:
        found: the slice or the elastic pool.
        template: what its pods need.
        workload: its workload, whose other pods may share the slice.

    Raises:
        UnsupportedShape: no machine or topology fits.
        UnknownGpu: GKE does not have this GPU type.
        HostsDiffer: the workload creates more or fewer pods than the slice has hosts.
        UnsupportedSelector: a selector is almost one of GKE's.
    """
    _check_amounts(template)
    check_keys(template)
    return _find_gpus(found, template) if template.gpus else _find_tpus(found, template, workload)


def _find_tpus(found: SliceOfPod, template: PodTemplate, workload: WorkloadView) -> Shape:
    if selects_gpu(template):
        raise UnsupportedShape(
            "the pod selects TPUs and GPUs, but no node has both",
            field="spec.nodeSelector",
            valid="only one of them",
        )
    shape = find_shape(
        accelerator=template.find_selector(labels.ACCELERATOR),
        topology=template.topology,
        chips_per_pod=template.chips or find_chips_of_peers(template, workload),
        machine_type=template.find_selector(labels.INSTANCE_TYPE),
    )
    if found.group.elastic:
        shape = _fit_elastic(found, shape)
    _check_hosts(found, shape)
    return shape


def _find_gpus(found: SliceOfPod, template: PodTemplate) -> Shape:
    if template.chips or template.selects(labels.ACCELERATOR) or template.topology:
        raise UnsupportedShape(
            "the pod requests TPUs and GPUs, but no node has both",
            field="spec.containers",
            valid="only one of them",
        )
    group = found.group
    pods = group.replicas if group.elastic else max(group.hosts or group.pods, 1)
    shape = find_gpu_shape(template, pods=pods)
    if shape.topology and (group.elastic or shape.chips > count_chips(shape.topology)):
        raise UnsupportedShape(
            f"nodes with {shape.accelerator} work only as slices of several hosts",
            field=f"pods per slice of {group.name or found.name}",
            value=str(pods),
            valid=f"a kind of workload that has slices, with at most {count_chips(shape.topology)} GPUs per slice",
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


def _check_hosts(found: SliceOfPod, shape: Shape) -> None:
    hosts = found.group.hosts
    if hosts and hosts != shape.node_count:
        raise HostsDiffer(
            f"topology {shape.topology} of {shape.accelerator} with {shape.chips_per_host} chips per pod "
            f"has {shape.node_count} hosts, and each host needs one pod",
            field=f"pods per slice of {found.group.name or found.name}",
            value=str(hosts),
            valid=str(shape.node_count),
        )


def _check_amounts(template: PodTemplate) -> None:
    for amount in template.unreadable_amounts:
        resource, _, value = amount.partition("=")
        raise UnsupportedShape(
            "not a whole number of accelerators",
            field=f"resources.{resource}",
            value=value,
            valid="a whole number, for example 4",
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
