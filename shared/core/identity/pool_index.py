"""The pools of one cluster, found by name, owner or claim without a look at each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, overload

if TYPE_CHECKING:
    from shared.core.identity.names import PoolOwner
    from shared.core.identity.pools import PoolSnapshot

T = TypeVar("T")


class PoolIndex(Sequence["PoolSnapshot"]):
    """A list of pools with indexes, so that work about all of them grows with their number only."""

    def __init__(self, pools: Sequence[PoolSnapshot]) -> None:
        self._pools = tuple(pools)
        self._sums: dict[Callable[[PoolSnapshot], int], Counter[str]] = {}
        self._chosen: dict[Callable[[PoolSnapshot], bool], PoolIndex] = {}

    @cached_property
    def _by_name(self) -> dict[str, PoolSnapshot]:
        return {pool.name: pool for pool in self._pools}

    @cached_property
    def _by_owner(self) -> dict[str, list[PoolSnapshot]]:
        return self._group(lambda owner: owner.owner_uid)

    @cached_property
    def _by_claim(self) -> dict[str, list[PoolSnapshot]]:
        return self._group(lambda owner: owner.claim_hash)

    @cached_property
    def _by_home(self) -> dict[tuple[str, str, str], PoolIndex]:
        return {home: PoolIndex(found) for home, found in self._group(lambda owner: owner.home).items()}

    def _group(self, name: Callable[[PoolOwner], T]) -> dict[T, list[PoolSnapshot]]:
        found: dict[T, list[PoolSnapshot]] = {}
        for pool in self._pools:
            if pool.owner is not None:
                found.setdefault(name(pool.owner), []).append(pool)
        return found

    @classmethod
    def of(cls, pools: Sequence[PoolSnapshot]) -> PoolIndex:
        """Return the index of some pools; an index itself costs nothing."""
        return pools if isinstance(pools, PoolIndex) else cls(pools)

    def find(self, name: str) -> PoolSnapshot | None:
        """Return the pool of a name, or None."""
        return self._by_name.get(name)

    def list_owned(self, owner_uid: str) -> list[PoolSnapshot]:
        """Return our pools whose labels name the workload with this UID."""
        return self._by_owner.get(owner_uid, [])

    def list_claimed(self, claim_hash: str) -> list[PoolSnapshot]:
        """Return our pools of one claim."""
        return self._by_claim.get(claim_hash, [])

    def list_named(self, kind: str, namespace: str, name: str) -> PoolIndex:
        """Return our pools of workloads of this name, of whichever UID."""
        return self._by_home.get((kind, namespace, name)) or PoolIndex(())

    def sum_by_namespace(self, count: Callable[[PoolSnapshot], int]) -> Counter[str]:
        """Return the sums of a count over our pools by namespace; each count is made once."""
        if count not in self._sums:
            found = Counter[str]()
            for pool in self._pools:
                if pool.owner is not None:
                    found[pool.owner.namespace] += count(pool)
            self._sums[count] = found  # whole, because other threads read it
        return self._sums[count]

    @property
    def names(self) -> list[str]:
        """Return the names of all pools."""
        return list(self._by_name)

    def select(self, test: Callable[[PoolSnapshot], bool]) -> PoolIndex:
        """Return the pools that pass a test; each is tested once."""
        if test not in self._chosen:
            self._chosen[test] = PoolIndex([pool for pool in self._pools if test(pool)])
        return self._chosen[test]

    def __iter__(self) -> Iterator[PoolSnapshot]:
        return iter(self._pools)

    @overload
    def __getitem__(self, at: int) -> PoolSnapshot: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[PoolSnapshot, ...]: ...
    def __getitem__(self, at: int | slice) -> PoolSnapshot | tuple[PoolSnapshot, ...]:
        return self._pools[at]

    def __len__(self) -> int:
        return len(self._pools)
