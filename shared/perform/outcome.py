"""The result of one question: the decision, with the facts for its log record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.core.errors import Broken, ProvisionerError
from shared.core.nodepool import describe_placement
from shared.core.times import format_time

if TYPE_CHECKING:
    from shared.core.decide.attempts import AttemptDecision
    from shared.core.decisions import Decision
    from shared.core.demand.demand import Demand
    from shared.core.identity.names import Claim, PoolOwner
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.settings import Settings

_LENGTH_MAX = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One decision, after what it orders was done."""

    decision: Decision
    cluster: str
    pool: str = ""
    subject: str = ""
    """The object of the question, in words."""
    demand: Demand | None = None
    """What the pool is for; None if there is no demand, or the question is about a pool."""
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
    } | _leave_out_empty(candidate=demand.candidate_mark, idle_seconds=demand.idle_seconds)


def describe_attempt(made: AttemptDecision) -> dict[str, Any]:
    """Return the attempt for a log record; of the failure that it follows: class, words, pause."""
    if made.failure is None:
        return {"attempt": made.attempt}
    failed = {"failure": str(made.failure), "error": made.said, "next_try": format_time(made.next_at)}
    return {"attempt": made.attempt} | {key: value for key, value in failed.items() if value}


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


def describe_pool_outcome(cluster: str, pool: PoolSnapshot, decision: Decision) -> Outcome:
    """Return the outcome of a decision about one pool, with the pool's owner for the log record."""
    return Outcome(
        decision=decision,
        cluster=cluster,
        pool=pool.name,
        subject=f"node pool {pool.name}",
        facts=describe_owner(cluster, pool.owner)
        | _leave_out_empty(idle_seconds=pool.owner.idle_seconds if pool.owner else 0),
    )


def _leave_out_empty(**fields: str | int) -> dict[str, str | int]:
    return {key: value for key, value in fields.items() if value}


def name_error(error: Exception) -> ProvisionerError:
    """Return an error as it is reported: an unexpected one is `Broken`, caused by it."""
    if isinstance(error, ProvisionerError):
        return error
    broken = Broken(f"{type(error).__name__}: {error}"[:_LENGTH_MAX])
    broken.__cause__ = error
    return broken
