"""Resolves what one slice needs to what GKE needs: `build_demand` reads it from the pod template.

The slice is one of the workload's own spec, and `shared.needs.spec_agreement` holds a live
pod against that spec. Free text is used only within the operator's allow-lists.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.errors import NotAllowed
from shared.model.priorities import NodeSource
from shared.needs.boot_disks import find_disk
from shared.needs.candidates import Candidate, find_node_source, read_candidates
from shared.needs.capacity import Capacity, Tier, read_capacity, read_flex_wait
from shared.needs.disks import list_disks
from shared.needs.idle_time import read_idle_seconds
from shared.needs.networks import check_listed, read_networks
from shared.needs.node_selectors import (
    check_affinity,
    check_nodes,
    read_node_labels,
    read_operator_labels,
    read_zone,
)
from shared.needs.own_keys import check_own_keys
from shared.needs.wanted_shapes import find_wanted_shape
from shared.settings import Settings, is_allowed, name_listed

if TYPE_CHECKING:
    from shared.kinds.kind import SliceOfPod
    from shared.model.workloads import PodTemplate, Toleration, WorkloadView
    from shared.shapes.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one slice needs: everything that `shared.needs.node_pool_body` uses, and nothing else."""

    shape: Shape
    capacity: Capacity
    zone: str
    node_labels: dict[str, str]
    """Labels that the pods select or copy; never an owner label."""
    operator_labels: dict[str, str]
    """Labels that the setting copies from the pods; not part of the fingerprint."""
    networks: tuple[str, ...]
    """``network:subnetwork`` pairs."""
    network_profile: bool = False
    """GKE makes the networks that the machine needs."""
    node_service_account: str
    disk_gb: int = 0
    """Size of the boot disk; 0: GKE's default. Not part of the fingerprint."""
    tolerated: tuple[Toleration, ...] = ()
    """The pods' own; a pool carries no taint of ours that they do not tolerate."""
    elastic: bool = False
    """The pool is for all pods of one shape; its node count changes with their number."""
    part: bool = False
    """Its pods use less than half of a host each."""
    idle_seconds: int = 0
    """How long the pool may stay without use after its workload is over; not part of the
    fingerprint."""
    pinned: bool
    """The kind pins the pods to nodes of their slice, so the pool has its label and taint."""
    asked: Capacity | None = None
    """What the pods themselves select; None if that is `capacity`."""
    nodes_from: NodeSource = NodeSource.CREATION
    """What makes the nodes of the pool; not part of the fingerprint."""
    before_pods: bool = False
    """The pool is made before its pods exist, so GKE's autoscaler would not fill it."""
    flex_wait_seconds: int = 0
    """How long a flex-start pool may wait for its first node; 0: without end."""
    candidates: tuple[Candidate, ...] = ()
    """The ways to get the capacity, the best first; `capacity` and `zone` are those of one of them.
    Empty without a list."""
    index: int = 0
    """Of the candidate."""
    fellows: tuple[Demand, ...] = ()
    """The other pools that are bought with this one, or none of them; these have none."""

    @property
    def choices(self) -> int:
        """Return the number of candidates, at least 1."""
        return len(self.candidates) or 1

    @property
    def candidate_mark(self) -> str:
        """Return the label that names the candidate; empty where there is no choice."""
        if self.choices == 1:
            return ""
        return f"{self.index + 1}-of-{self.choices}-{self.candidates[self.index].hash}"

    @property
    def place_of_list(self) -> str:
        """Return ``candidate 2 of 5, spot in us-east5-b``; empty where there is no choice."""
        if self.choices == 1:
            return ""
        return f"candidate {self.index + 1} of {self.choices}, {self.candidates[self.index]}"

    @property
    def place(self) -> str:
        """Return the tier; where there is a choice, `place_of_list`."""
        return self.place_of_list or str(self.capacity.tier)

    def on_attempt(self, attempt: int) -> Demand:
        """Return the same demand with the candidate of an attempt."""
        if not self.candidates:
            return self
        index = attempt % self.choices
        chosen = self.candidates[index]
        source = chosen.nodes_from or self.nodes_from
        if (index, source) == (self.index, self.nodes_from):
            return self
        return dataclasses.replace(
            self, index=index, capacity=chosen.capacity, zone=chosen.zone, nodes_from=source
        )

    def with_nodes_at_creation(self, *, before_pods: bool = False) -> Demand:
        """Return the same demand for pools that GKE creates together with their nodes.

        A flex-start pool is always autoscaled.
        """

        def find_source(capacity: Capacity) -> NodeSource:
            return (
                NodeSource.AUTOSCALER if capacity.tier == Tier.FLEX_START else NodeSource.CREATION
            )

        found = tuple(
            dataclasses.replace(each, nodes_from=find_source(each.capacity))
            for each in self.candidates
        )
        source, before = find_source(self.capacity), before_pods or self.before_pods
        return dataclasses.replace(self, candidates=found, nodes_from=source, before_pods=before)


def build_demand(
    cluster: str,
    workload: WorkloadView,
    found: SliceOfPod,
    template: PodTemplate,
    settings: Settings,
) -> Demand:
    """Return the demand of one slice of a live workload.

    Raises:
        Rejected: no pool can satisfy the slice, or a setting does not allow the pool.
    """
    check_own_keys(template, workload)
    _check_allowed(workload.namespace, template, settings)
    shape = find_wanted_shape(found, template, workload, settings.room)
    asked = read_capacity(template, shape, cluster, settings)
    pins, elastic = _read_pins(workload, found), found.group.elastic
    # The nodes of an elastic pool come and go, so that it has none is no failure.
    flex_wait = read_flex_wait(template, settings) * (not elastic)
    networks, of_operator = (
        read_networks(template, shape, settings),
        read_operator_labels(template, settings),
    )
    check_affinity(template, several=shape.node_count > 1)
    node_labels = read_node_labels(
        template, shape, asked, settings, pins=pins, given=networks.node_labels
    )
    own = pins | of_operator | node_labels
    candidates = read_candidates(
        template, shape, cluster, workload, settings, flex_wait=flex_wait, own=own
    )
    listed = bool(candidates)
    if not listed:
        candidates = (
            Candidate(
                asked, read_zone(template, cluster, settings, list_disks(template, workload))
            ),
        )
        check_nodes(template, shape, asked, candidates[0].zone, own, settings)
    candidates = tuple(
        dataclasses.replace(
            each,
            nodes_from=find_node_source(
                each, template, shape, settings, ways=len(candidates), elastic=elastic
            ),
        )
        for each in candidates
    )
    first = candidates[0]
    return Demand(
        shape=shape,
        capacity=first.capacity,
        asked=asked,
        zone=first.zone,
        nodes_from=first.nodes_from or NodeSource.CREATION,
        candidates=candidates * listed,
        flex_wait_seconds=flex_wait,
        node_labels=node_labels,
        operator_labels=of_operator,
        networks=networks.pairs,
        network_profile=networks.profile,
        node_service_account=_read_service_account(template, settings),
        elastic=elastic,
        idle_seconds=read_idle_seconds(found.group, template, shape, settings),
        pinned=found.group.pinned,
        part=elastic and 2 * found.group.template.units < shape.chips_per_host,
        disk_gb=find_disk(found, template, shape, settings),
        tolerated=template.tolerations,
    )


def _read_pins(workload: WorkloadView, found: SliceOfPod) -> dict[str, str]:
    label = get_kind(workload.kind).pin_label
    if not label:
        return {}
    return {label: f"{workload.namespace}_{found.name}" if found.group.pinned else ""}


def _check_allowed(namespace: str, template: PodTemplate, settings: Settings) -> None:
    if not is_allowed(namespace, settings.allowed_namespaces):
        raise NotAllowed(
            "the setting allowed_namespaces does not list this namespace",
            field="metadata.namespace",
            value=namespace,
            valid=name_listed(settings.allowed_namespaces),
        )
    accelerator = template.find_selector(
        labels.GPU_ACCELERATOR if template.gpus else labels.ACCELERATOR
    )
    if accelerator and not is_allowed(accelerator, settings.allowed_accelerators):
        raise NotAllowed(
            "the setting allowed_accelerators does not list this accelerator",
            field=labels.GPU_ACCELERATOR if template.gpus else labels.ACCELERATOR,
            value=accelerator,
            valid=name_listed(settings.allowed_accelerators),
        )


def _read_service_account(template: PodTemplate, settings: Settings) -> str:
    named = template.annotations.get(labels.NODE_SERVICE_ACCOUNT, "")
    if not named or named == settings.node_service_account:
        return settings.node_service_account
    check_listed(
        named,
        settings.allowed_node_service_accounts,
        labels.NODE_SERVICE_ACCOUNT,
        "allowed_node_service_accounts",
    )
    return named
