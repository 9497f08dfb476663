"""What GKE's list of operations says of pools that were created and do not exist.

The pause after a failure follows from it where no failed pool is left. An error is logged and stops
nothing: then one try is made without the pause.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from shared.core.errors import ProvisionerError
from shared.core.identity.names import HASH_CHARACTERS, parse_pool_name
from shared.perform.shared_reads import OneRead

if TYPE_CHECKING:
    from shared.core.identity.creations import Creation
    from shared.core.identity.names import Claim
    from shared.core.ports import Ports

PERMISSION = "container.operations.list"  # assumes: permissions, operations-kept
"""https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.operations/list"""
_LOG = logging.getLogger("creations")


class Creations:
    """The creations of one cluster's pools, which one sweep lists at most once."""

    def __init__(self, cluster: str, ports: Ports) -> None:
        """Prepare; nothing is read yet."""
        self._cluster, self._ports = cluster, ports
        self._listed = OneRead(self._list, ports.clock.now())

    def find_newest(self, claim: Claim) -> Creation | None:
        """Return the latest creation of a claim, of any attempt; None if GKE has or tells none."""
        return (self._get() or {}).get(claim.hash[:HASH_CHARACTERS])

    def is_first(self, claim: Claim) -> bool:
        """Return whether GKE tells of no creation of a claim; False if it could not be asked."""
        listed = self._get()
        return listed is not None and claim.hash[:HASH_CHARACTERS] not in listed

    def _get(self) -> dict[str, Creation] | None:
        return cast("dict[str, Creation] | None", self._listed.get())

    def _list(self) -> dict[str, Creation] | None:
        try:
            listed = self._ports.pools.list_creations(self._cluster)
        except ProvisionerError as error:
            said = {"object": self._cluster, "error": str(error), "permission": PERMISSION}
            _LOG.warning("the operations of GKE could not be listed", extra=said)
            return None
        found: dict[str, Creation] = {}
        for each in sorted(listed, key=lambda each: each.began_at or 0):
            name = parse_pool_name(each.pool)
            if name is not None:
                succeeded = each.ended and not each.error
                before = found[name.hash].failed if name.hash in found and not succeeded else ()
                found[name.hash] = replace(each, failed=before + (name.attempt,) * bool(each.error))
        return found
