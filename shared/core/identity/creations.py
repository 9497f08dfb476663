"""The creation of a pool, as GKE's list of operations has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """One operation of GKE that creates a pool.

    https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.operations
    """

    pool: str
    """The name of the pool."""
    ended: bool
    error: str = ""
    """GKE's own words about what failed; empty for an operation that succeeded or still runs."""
    code: int = 0
    """``google.rpc.Code`` of the error; 0 without one."""
    began_at: float | None = None
    """Unix seconds; None when unknown."""
    ended_at: float | None = None
    """Unix seconds; None while it runs, and when unknown."""
    failed: tuple[int, ...] = ()
    """The attempts of the claim that have failed since one succeeded; empty if it was not read."""
