"""Nodes of fake node pools that GKE keeps trying to make."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.identity.pools import PoolSnapshot


class MissingNodes:
    """The part of the fake node pools that lists them; those that were removed do not count."""

    calls: list[tuple[str, str]]
    removed: list[str]

    @functools.cached_property
    def missing(self) -> dict[str, list[str]]:
        """By pool."""
        return {}

    def list_missing(self, pool: PoolSnapshot) -> Sequence[str]:
        self.calls.append(("list_missing", pool.name))
        return [each for each in self.missing.get(pool.name, ()) if each not in self.removed]
