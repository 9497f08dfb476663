"""Resolves what the pods of one template need to what GKE needs.

Free text of the pods is used only within the operator's allow-lists.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.model import labels
from shared.model.counts import parse_count
from shared.model.errors import NotAllowed
from shared.model.needs import NodeSource
from shared.needs.refusals import check_listed, check_own_keys, check_resources, check_workload
from shared.needs.selectors import check_affinity, read_node_labels
from shared.needs.ways import Wish, find_unbound, list_ways, read_flex_wait, read_selected
from shared.shapes.slices import find_disk

if TYPE_CHECKING:
    from shared.model.needs import Need, Way
    from shared.model.workloads import PodTemplate, SliceGroup, Toleration, WorkloadView
    from shared.settings import Settings
    from shared.shapes.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one need asks of GKE: everything that `shared.needs.nodepool` uses, and nothing else."""

    need: Need
    shape: Shape
    index: int = 0
    """Of the way that was chosen."""
    nodes_from: NodeSource = NodeSource.CREATION
    """What makes the nodes of the pool."""
    node_labels: dict[str, str]
    """Labels that the pods select or copy, or that the setting copies from them; none of ours."""
    networks: tuple[str, ...]
    """``network:subnetwork`` pairs."""
    network_profile: bool
    """GKE makes the networks that the machine needs."""
    node_service_account: str
    disk_gb: int
    """Size of the boot disk; 0: GKE's default."""
    tolerated: tuple[Toleration, ...]
    """The pods' own; a pool carries no taint of ours that they do not tolerate."""

    @property
    def way(self) -> Way:
        """Return the way that was chosen."""
        return self.need.ways[self.index]

    @property
    def place(self) -> str:
        """Return the tier; where there is a choice, ``candidate 2 of 5, spot in us-east5-b``."""
        choices = len(self.need.ways)
        if choices == 1:
            return str(self.way.tier)
        return f"candidate {self.index + 1} of {choices}, {self.way}"


def build_demand(
    cluster: str,
    workload: WorkloadView,
    group: SliceGroup,
    need: Need,
    *,
    shape: Shape,
    settings: Settings,
) -> Demand:
    """Return the demand of a need of some slices, whose shape `find_slice_shape` has found."""
    template = group.template
    check_workload(workload, template, settings)
    check_own_keys(template, workload)
    check_resources(template, settings)
    check_affinity(template, several=shape.node_count > 1)
    selected = read_selected(template, shape, cluster, settings)
    node_labels = read_node_labels(template, shape, selected, settings)
    # The nodes of an elastic pool come and go, so that it has none is no failure.
    flex_wait = 0 if group.elastic else read_flex_wait(template, settings)
    claims = template.volume_claims
    wish = Wish(
        template=template,
        shape=shape,
        selected=selected,
        node_labels=node_labels,
        flex_wait=flex_wait,
        cluster=cluster,
        disks=[each for each in workload.disks if each.zones and each.claim in claims],
        settings=settings,
    )
    networks = _read_networks(template, settings) or settings.node_additional_networks
    return Demand(
        need=dataclasses.replace(
            need,
            ways=list_ways(wish, workload),
            part=group.elastic and 2 * template.units < shape.units_per_host,
            waits_for=find_unbound(template, workload),
            warm_seconds=_read_idle_seconds(group, shape, settings),
            flex_wait_seconds=flex_wait,
        ),
        shape=shape,
        node_labels=node_labels,
        networks=networks,
        network_profile=shape.own_networks and not networks,
        node_service_account=_read_service_account(template, settings),
        disk_gb=find_disk(template, shape, settings.room, settings.node_disk_size_gb),
        tolerated=template.tolerations,
    )


def _read_networks(template: PodTemplate, settings: Settings) -> tuple[str, ...]:
    """Return the ``network:subnetwork`` pairs that the annotation names."""
    field = f"annotation {labels.ADDITIONAL_NODE_NETWORKS}"
    text = template.annotations.get(labels.ADDITIONAL_NODE_NETWORKS, "")
    pairs = tuple(pair.replace(" ", "") for pair in text.split(",") if pair.strip())
    for pair in pairs:
        network, _, subnetwork = pair.partition(":")
        if not network or not subnetwork or ":" in subnetwork:
            raise NotAllowed(
                "not a pair of network and subnetwork",
                field=field,
                value=pair,
                valid="network:subnetwork, separated by commas",
            )
        check_listed(pair, settings.allowed_node_networks, "allowed_node_networks", field)
    return pairs


def _read_service_account(template: PodTemplate, settings: Settings) -> str:
    account = template.annotations.get(labels.NODE_SERVICE_ACCOUNT, "")
    if account not in ("", settings.node_service_account):
        field = f"annotation {labels.NODE_SERVICE_ACCOUNT}"
        listed = settings.allowed_node_service_accounts
        check_listed(account, listed, "allowed_node_service_accounts", field)
    return account or settings.node_service_account


def _read_idle_seconds(group: SliceGroup, shape: Shape, settings: Settings) -> int:
    """Return for how long the annotation, else the setting, asks that the pool stays.

    A pool that no other workload may use never stays. What the setting asks for is 0 there, and an
    annotation is refused, because its author would pay for a pool that waits for nothing, or wonder
    why it does not wait.
    """
    asked = group.template.annotations.get(labels.IDLE_SECONDS)
    field, obstacle = f"annotation {labels.IDLE_SECONDS}", _find_obstacle(group, shape)
    if asked is None:
        return 0 if obstacle else settings.idle_seconds
    seconds = parse_count(asked)
    if seconds is None or seconds > settings.idle_bound:
        raise NotAllowed(
            "not a number of seconds that the settings idle_seconds and idle_seconds_max allow",
            field=field,
            value=asked,
            valid=f"0 to {settings.idle_bound}",
        )
    if seconds and obstacle:
        raise NotAllowed(obstacle, field=field, value=asked, valid="0, or no such annotation")
    return seconds


def _find_obstacle(group: SliceGroup, shape: Shape) -> str:
    """Return why no other workload may use the pool of a slice; empty if one may."""
    if group.pinned:
        return "the node pool is pinned to its slice, so that no later workload can use it"
    if group.elastic:
        return "the node pool is elastic, and a later workload may have more pods than it has nodes"
    if shape.multi_host and not (group.whole or group.template.node_pool_affinity):
        return (
            "nothing keeps the pods of this slice on one node pool, so that pods like these may be "
            "spread over several idle node pools"
        )
    return ""
