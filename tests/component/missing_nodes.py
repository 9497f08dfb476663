"""What fake node pools tell besides themselves: nodes that GKE keeps trying to make, a channel."""

import functools
from collections.abc import Sequence
from typing import Any

from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.core.ports import FillError, Machines
from shared.core.workloads import PodView


class MissingNodes:
    """The part of the fake node pools that lists them; those that were removed do not count."""

    calls: list[tuple[str, str]]
    removed: list[str]
    begin: Any

    @functools.cached_property
    def without_channel(self) -> set[str]:
        """The clusters that no release channel upgrades."""
        return set()

    @functools.cached_property
    def missing(self) -> dict[str, list[str]]:
        """By pool."""
        return {}

    @functools.cached_property
    def machines(self) -> dict[str, Machines]:
        """By pool; a test sets what its instance groups report."""
        return {}

    def find_channel(self, cluster: str) -> str:
        self.begin("find_channel")
        return "" if cluster in self.without_channel else "REGULAR"

    def read_machines(self, pool: PoolSnapshot) -> Machines:
        self.calls.append(("read_machines", pool.name))
        self.begin("read_machines")
        runs = pool.status == PoolStatus.RUNNING and not pool.autoscaled
        return self.machines.get(pool.name, Machines(made=pool.node_count if runs else 0))

    def list_missing(self, pool: PoolSnapshot) -> Sequence[str]:
        self.calls.append(("list_missing", pool.name))
        return [each for each in self.missing.get(pool.name, ()) if each not in self.removed]


class ScaleUps:
    """The part of the fake cluster that has the Events of GKE's autoscaler."""

    begin: Any

    @functools.cached_property
    def scale_ups(self) -> dict[str, list[FillError]]:
        """By the UID of the pod."""
        return {}

    def list_scale_ups(self, pod: PodView) -> Sequence[FillError]:
        self.begin("list_scale_ups")
        return self.scale_ups.get(pod.uid, [])
