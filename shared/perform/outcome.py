"""What one question led to: the decision, with everything that a log record and a reader need beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.core.nodepool import describe_placement

if TYPE_CHECKING:
    from shared.core.decisions import Decision
    from shared.core.demand import Demand
    from shared.core.names import Claim, PoolOwner
    from shared.core.ports import Clock, Cluster, DeadLetters, NodePools
    from shared.core.settings import Settings


@dataclass(frozen=True, slots=True)
class Ports:
    """The outside world of one deployment."""

    settings: Settings
    pools: NodePools
    clusters: dict[str, Cluster]
    """By ``projects/P/locations/L/clusters/C``."""
    clock: Clock
    dead_letters: DeadLetters | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One decision that was carried out (or that needed nothing carried out)."""

    decision: Decision
    cluster: str
    pool: str = ""
    subject: str = ""
    """What was asked about, in words."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Claim, shape and tier, for the log record."""


def describe_demand(demand: Demand, settings: Settings) -> dict[str, Any]:
    """Return the facts of a demand for a log record."""
    return {
        "claim": describe_claim(demand.claim),
        "tier": str(demand.capacity.tier),
        "machine_type": demand.shape.machine_type,
        "node_count": demand.shape.node_count,
        "topology": demand.shape.topology,
        "placement": describe_placement(demand, settings),
        "reservation": demand.capacity.reservation_path,
        "zone": demand.zone,
    }


def describe_claim(claim: Claim) -> dict[str, str]:
    """Return a claim for a log record."""
    return {
        "cluster": claim.cluster,
        "kind": claim.kind,
        "namespace": claim.namespace,
        "name": claim.name,
        "owner_uid": claim.owner_uid,
        "slice": claim.slice_name,
    }


def describe_owner(cluster: str, owner: PoolOwner | None) -> dict[str, Any]:
    """Return a pool's owner for a log record; empty for a pool that is not ours."""
    if owner is None:
        return {}
    return {
        "claim": {
            "cluster": cluster,
            "kind": owner.kind,
            "namespace": owner.namespace,
            "name": owner.name,
            "owner_uid": owner.owner_uid,
            "slice": owner.slice_name,
        }
    }
