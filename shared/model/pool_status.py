"""A pool as GKE reports it, reduced to what decisions need."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from shared.core.identity.names import PoolOwner, parse_owner

if TYPE_CHECKING:
    from collections.abc import Iterable


class PoolStatus(StrEnum):
    """``NodePool.Status`` of the GKE API; every other value is read as UNKNOWN.

    https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
    """

    UNKNOWN = "STATUS_UNSPECIFIED"
    PROVISIONING = "PROVISIONING"
    """Being created; cannot be deleted yet."""
    RUNNING = "RUNNING"
    RUNNING_WITH_ERROR = "RUNNING_WITH_ERROR"
    """Exists and is partly usable."""
    RECONCILING = "RECONCILING"
    """Being updated, upgraded or repaired."""
    STOPPING = "STOPPING"
    """Being deleted; cannot be revived."""
    ERROR = "ERROR"
    """Creation failed; the name stays in use until the pool is deleted."""


BROKEN = (PoolStatus.ERROR, PoolStatus.RUNNING_WITH_ERROR)
RUNNING = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)
LOST = (PoolStatus.STOPPING, PoolStatus.ERROR)
"""The status of pools on which no pod will run any more."""
UNDER_WAY = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING, PoolStatus.STOPPING)
"""The status of pools on which GKE runs an operation."""
PAID = frozenset({PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR, PoolStatus.RECONCILING})
STATUS_BY_NAME = {str(status): status for status in PoolStatus}
STATUS_NUMBERS = (
    PoolStatus.UNKNOWN,
    PoolStatus.PROVISIONING,
    PoolStatus.RUNNING,
    PoolStatus.RUNNING_WITH_ERROR,
    PoolStatus.RECONCILING,
    PoolStatus.STOPPING,
    PoolStatus.ERROR,
)
"""The enum's numbers, for answers with ``enum-encoding=int``."""


def parse_status(value: str | int | None) -> PoolStatus:
    """Return the status of a name or number; UNKNOWN for any other value."""
    if isinstance(value, int):
        return STATUS_NUMBERS[value] if 0 <= value < len(STATUS_NUMBERS) else PoolStatus.UNKNOWN
    return STATUS_BY_NAME.get(value or "", PoolStatus.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSnapshot:
    """One pool at one moment."""

    name: str
    status: PoolStatus
    labels: dict[str, str] = field(default_factory=dict)
    """The node labels of its configuration."""
    node_count: int = 0
    """As requested at creation."""
    machine_type: str = ""
    topology: str = ""
    gpus_per_node: int = 0
    group_urls: tuple[str, ...] = ()
    """URLs of its managed instance groups, one per zone, which have its present size."""
    error: str = ""
    """GKE's own description of what is wrong."""
    deployment: str = ""
    """Which deployment created it, if a label of its machines names one."""
    reserved: bool = False
    """It takes its machines from a reservation, and may hold a part of it even without nodes."""
    spot: bool = False
    flex_start: bool = False
    autoscaled: bool = False
    """It begins without nodes, and GKE's autoscaler adds and removes them. So that it runs says
    nothing about nodes."""
    owner: PoolOwner | None = field(init=False, repr=False, compare=False)
    """The owner of the pool, read once from its labels; None when it is not ours."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "owner", parse_owner(self.labels))

    def resized(self, node_count: int) -> PoolSnapshot:
        """Return the same pool with another number of nodes."""
        return replace(self, node_count=node_count)

    def age_seconds(self, now: float) -> float | None:
        """Return the seconds since creation; None without that label (the Go provisioner's)."""
        created_at = self.owner.created_at if self.owner else None
        return None if created_at is None else max(0.0, now - created_at)

    def is_older(self, seconds: float, now: float) -> bool:
        """Return whether the pool is known to be at least so old; a pool of unknown age is not."""
        age_seconds = self.age_seconds(now)
        return age_seconds is not None and age_seconds >= seconds


def sort_oldest_first(pools: Iterable[PoolSnapshot]) -> list[PoolSnapshot]:
    """Return pools by creation; those that do not say when (the Go provisioner's) are first."""
    return sorted(pools, key=lambda pool: (pool.owner and pool.owner.created_at) or 0)


def sort_for_cap(pools: Iterable[PoolSnapshot], cap: int, *, now: float) -> list[PoolSnapshot]:
    """Return pools in the order in which they may use up what is left of a cap: the oldest first.

    A tenth of it, at least one, is for other pools, which are different ones at each time
    `now`. So pools whose deletion never succeeds cannot use up the cap of every sweep.
    """
    found = sort_oldest_first(pools)
    sure = max(0, cap - max(1, cap // 10))
    others = sorted(found[sure:], key=lambda pool: hashlib.sha256(f"{now} {pool.name}".encode()).digest())
    return found[:sure] + others
