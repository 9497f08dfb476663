"""Reads what GKE's list of pools does not have: pools that are gone, and present sizes.

The pause after a failure follows from a creation where no failed pool is left. If the creations
cannot be listed, the error is logged and stops nothing: then one try is made without the pause.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from shared.core.errors import ProvisionerError
from shared.core.identity.names import HASH_CHARACTERS, parse_pool_name
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import BROKEN, PoolStatus
from shared.engine.looks.shared_reads import OneRead
from shared.engine.looks.side_by_side import CALLS_AT_ONCE, get_runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.core.identity.creations import Creation
    from shared.core.identity.names import SliceClaim
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports

PERMISSION = "container.operations.list"  # assumes: permissions, operations-kept
"""https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.operations/list"""
_LOG = logging.getLogger("creations")


class Creations:
    """The creations of one cluster's pools, which one sweep lists at most once."""

    def __init__(self, cluster: str, ports: Ports) -> None:
        """Prepare; nothing is read yet."""
        self._cluster, self._ports = cluster, ports
        self._listed = OneRead(self._list, ports.clock)

    def find_newest(self, claim: SliceClaim) -> Creation | None:
        """Return the latest creation of a claim, of any attempt; None if GKE has or tells none."""
        return (self._get() or {}).get(claim.hash[:HASH_CHARACTERS])

    def is_first(self, claim: SliceClaim) -> bool:
        """Return whether GKE tells of no creation of a claim; False if it could not be asked."""
        listed = self._get()
        return listed is not None and claim.hash[:HASH_CHARACTERS] not in listed

    def _get(self) -> dict[str, Creation] | None:
        return cast("dict[str, Creation] | None", self._listed.get())

    def _list(self) -> dict[str, Creation] | None:
        try:
            listed = self._ports.pools.list_creations(self._cluster)
        except ProvisionerError as error:
            fields = {"object": self._cluster, "error": str(error), "permission": PERMISSION}
            _LOG.warning("the operations of GKE could not be listed", extra=fields)
            return None
        found: dict[str, Creation] = {}
        for each in sorted(listed, key=lambda each: each.began_at or 0):
            name = parse_pool_name(each.pool)
            if name is not None:
                succeeded = each.ended and not each.error
                before = found[name.hash].failed if name.hash in found and not succeeded else ()
                found[name.hash] = replace(each, failed=before + (name.attempt,) * bool(each.error))
        return found


def measure_elastic(
    pools: Sequence[PoolSnapshot], ports: Ports, *, autoscaled: bool = False
) -> tuple[PoolIndex, dict[str, Exception]]:
    """Return the pools, elastic pools with the size that they have now, read side by side.

    An elastic pool is measured in every status in which it may have grown since it was created.
    Autoscaled pools keep the size that they may grow to, unless `autoscaled` asks for theirs. A
    pool that cannot be measured keeps the size that it was created with; its error is returned by
    its name.
    """
    found, errors = {pool.name: pool for pool in pools}, dict[str, Exception]()
    elastic = [pool for pool in pools if _may_have_grown(pool) or (autoscaled and pool.autoscaled)]
    tasks = [partial(ports.pools.measure, pool) for pool in elastic]
    done = get_runner(ports)(tasks, at_once=CALLS_AT_ONCE, until=ports.until)
    for pool, size in zip(elastic, done, strict=True):
        if isinstance(size, Exception):
            errors[pool.name] = size
        else:
            found[pool.name] = pool.resized(size)
    return PoolIndex(list(found.values())), errors


def measure_pools(pools: Iterable[PoolSnapshot], ports: Ports) -> dict[str, int]:
    """Return how many nodes GKE keeps in each pool.

    Of one that it creates, those that are asked count, and of one whose creation failed those that
    are made.
    """
    return {each.name: _measure(each, ports) for each in pools}


def _measure(pool: PoolSnapshot, ports: Ports) -> int:
    if pool.status == PoolStatus.PROVISIONING:
        return pool.node_count
    size = ports.pools.measure(pool)
    missing = ports.pools.list_missing(pool) if size and pool.status == PoolStatus.ERROR else ()
    return max(0, size - len(missing))


def _may_have_grown(pool: PoolSnapshot) -> bool:
    created = pool.status not in (PoolStatus.PROVISIONING, PoolStatus.STOPPING)
    return pool.owner is not None and pool.owner.elastic and created


def is_resizable(pool: PoolSnapshot) -> bool:
    """Return whether a pool is an elastic pool of ours that may have nodes, with errors too."""
    return pool.owner is not None and pool.owner.elastic and pool.status in (PoolStatus.RUNNING, *BROKEN)
