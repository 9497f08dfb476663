"""Builds the node pool of one slot of a need, in the JSON of the GKE API v1. Pure.

Fields: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from shared.model import labels
from shared.model.names import build_name, build_owner_labels
from shared.model.pools import ELASTIC_SLOT
from shared.model.priorities import NodeSource
from shared.needs import node_pool_body as nodepool

if TYPE_CHECKING:
    from shared.model.names import Claim, Try
    from shared.needs.demand import Demand
    from shared.plan.scene import Act
    from shared.settings import Settings

Json = dict[str, Any]


def build_body(
    demand: Demand,
    claim: Claim,
    act: Act,
    tried: Try,
    *,
    created_at: int,
    cluster_uid: str,
    on_channel: bool,
    settings: Settings,
) -> Json:
    """Return the ``nodePool`` of a CreateNodePool request.

    Raises:
        LabelBudgetExceeded: the node labels exceed GKE's 1,024 characters.
    """
    chosen = choose_way(demand, act)
    body = nodepool.build_node_pool(
        chosen,
        attempt=0,
        created_at=created_at,
        settings=settings,
        cluster_uid=cluster_uid,
        on_channel=on_channel,
    )
    owner = build_owner_labels(
        claim,
        tried,
        created_at=created_at,
        cluster_uid=cluster_uid,
        warm_seconds=demand.idle_seconds,
    )
    merged = demand.operator_labels | demand.node_labels | dict(act.labels) | owner
    nodepool.check_label_budget(merged)
    body["name"] = build_name(claim, tried.attempt, tried.useless)
    body["config"]["labels"] = merged
    if claim.slot == ELASTIC_SLOT:
        least = act.maximum if act.whole else 0
        body["initialNodeCount"] = least
        body["autoscaling"] = {"enabled": True, "minNodeCount": least, "maxNodeCount": act.maximum}
    return body


def choose_way(demand: Demand, act: Act) -> Demand:
    """Return the demand with the capacity and zone of the way that an act chose."""
    source = NodeSource.AUTOSCALER if act.empty else NodeSource.CREATION
    if not demand.candidates:
        return dataclasses.replace(demand, nodes_from=source)
    way = demand.candidates[act.candidate]
    return dataclasses.replace(
        demand,
        capacity=way.capacity,
        zone=way.zone,
        nodes_from=source,
        index=act.candidate,
        candidates=(),
    )


def is_copied(key: str) -> bool:
    """Return whether a label that a live pod selects may be written on the nodes of its pool."""
    return not labels.is_reserved(key) and not labels.is_owner_key(key)
