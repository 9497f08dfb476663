"""A pool as GKE reports it, reduced to what decisions need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from shared.core.names import PoolOwner, parse_owner


class PoolStatus(StrEnum):
    """``NodePool.Status`` of the GKE API; anything else is read as UNKNOWN and never acted upon.

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
    """Creation failed; the name stays taken until the pool is deleted."""


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
    """Return the status that a name or number stands for; UNKNOWN for any that we do not know."""
    if isinstance(value, int):
        return STATUS_NUMBERS[value] if 0 <= value < len(STATUS_NUMBERS) else PoolStatus.UNKNOWN
    return STATUS_BY_NAME.get(value or "", PoolStatus.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSnapshot:
    """One pool at one moment."""

    name: str
    status: PoolStatus
    labels: dict[str, str] = field(default_factory=dict)
    """The node labels of its configuration: all that we remember."""
    node_count: int = 0
    """As asked for at creation."""
    machine_type: str = ""
    topology: str = ""
    gpus_per_node: int = 0
    group_urls: tuple[str, ...] = ()
    """Of its managed instance groups, one per zone: only they know its present size."""
    error: str = ""
    """GKE's own words on what is wrong, for people."""

    def resized(self, node_count: int) -> PoolSnapshot:
        """Return the same pool with another number of nodes."""
        return replace(self, node_count=node_count)

    @property
    def owner(self) -> PoolOwner | None:
        """Return whose pool it is, or None when it is not ours."""
        return parse_owner(self.labels)

    def age_seconds(self, now: float) -> float:
        """Return the seconds since creation; infinite for a pool that does not say (the Go provisioner's)."""
        owner = self.owner
        if owner is None or owner.created_at is None:
            return float("inf")
        return max(0.0, now - owner.created_at)
