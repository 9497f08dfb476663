"""Runs the functions' own code without any change: what would be decided now.

A create that would conflict conflicts here too, so the code takes the same path as in reality.
"""

from __future__ import annotations

import dataclasses
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shared.core.identity.pool_index import PoolIndex
from shared.engine.entries.answer_waiting import provision_pod
from shared.engine.looks.limit_holds import find_limits
from shared.engine.looks.limited_ports import OptionalReads
from shared.engine.looks.look import Look, RecentPools
from shared.engine.looks.pool_reads import Creations
from shared.engine.steps.release_pools import collect_pool
from shared.engine.steps.serving_pools import judge_followers

from shared.model.errors import AlreadyExists, Denied, KindAbsent, ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from shared.engine.tell import Outcome

    from shared.engine.outside import Cluster, Ledger, NodePools, Ports
    from shared.model.pools import PoolSnapshot
    from shared.model.readings import Notice
    from shared.model.workloads import PodView

T = TypeVar("T")
logging.getLogger("emergency_stop").addHandler(logging.NullHandler())
"""The stopped acts are in the rows. A log line would name those of other workloads too."""
ONE_REFUSED = (Denied, KindAbsent)
"""Errors of one read that say nothing about the others. Without an answer, no other read is tried,
because each may take a minute."""
SHOWN_MAX = 50
"""Of so many pools that have no nodes yet an operator is shown why: they are read one by one."""


class _Reads:
    """A port that reads."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        """Return a method of the port that reads."""
        if name.startswith(("get", "find_", "list", "measure", "read_")):
            return getattr(self._real, name)
        raise AttributeError(f"a rehearsal does not know how to do without {name}")


class RehearsedPools(_Reads):
    """`shared.model.ports.NodePools` that reads and never writes."""

    def create(self, cluster: str, node_pool: Mapping[str, Any]) -> None:
        """Accept a pool that GKE would accept as far as can be seen; nothing is sent."""
        name = str(node_pool["name"])
        if self._real.get(cluster, name) is not None:
            raise AlreadyExists(f"node pool {name} exists")

    def delete(self, cluster: str, name: str) -> None:
        """Accept a deletion; nothing is sent."""

    def resize(self, cluster: str, name: str, nodes: int) -> None:
        """Accept another size; nothing is sent."""

    def remove_nodes(self, pool: PoolSnapshot, names: Sequence[str]) -> None:
        """Accept that nodes go; nothing is sent."""


class RehearsedCluster(_Reads):
    """`shared.model.ports.Cluster` that reads and writes nothing."""

    def write_ledger(self, namespace: str, ledger: Ledger) -> Ledger:  # noqa: ARG002 -- as the port has it
        """Write nothing."""
        return ledger

    def mark_surplus(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Mark nothing."""

    def write_notice(self, notice: Notice) -> None:
        """Write nothing."""


def rehearse(ports: Ports) -> Ports:
    """Return ports by which nothing can be changed."""
    pools = OptionalReads(RehearsedPools(ports.pools), "read_machines", reads_max=SHOWN_MAX)
    return dataclasses.replace(
        ports,
        pools=cast("NodePools", pools),
        clusters={name: cast("Cluster", RehearsedCluster(each)) for name, each in ports.clusters.items()},
        reads_fillings=True,
    )


def open_rehearsal(cluster: str, pools: Sequence[PoolSnapshot] | ProvisionerError, ports: Ports) -> Look:
    """Return what a sweep would work with that has just listed these pools.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pools: every pool of it, or why they cannot be listed.
        ports: from `rehearse`.
    """

    def get_listed() -> PoolIndex:
        if isinstance(pools, ProvisionerError):
            raise pools
        return PoolIndex.of(pools)

    listed = RecentPools(get_listed, ports.clock)
    return Look(cluster=cluster, ports=ports, pools=listed, limits=find_limits(cluster, ports), sweeps=True)


def rehearse_leaders(look: Look) -> Iterator[tuple[PodView, Outcome | Exception]]:
    """Yield each waiting leader of a cluster with its decision, and each refused follower.

    A read that is refused for one stops no other.

    Raises:
        ProvisionerError: the leaders, or the pools, cannot be listed, or there is no answer.
    """
    look = dataclasses.replace(look, creations=Creations(look.cluster, look.ports))
    for pod in look.live.list_waiting_leaders():
        yield pod, _answer(partial(provision_pod, pod, look))
    yield from judge_followers(look, look.pools.list(), partial(provision_pod, leads=True))


def rehearse_pools(look: Look) -> Iterator[tuple[PoolSnapshot, Outcome | Exception]]:
    """Yield each pool of ours with its decision; a read that is refused for one stops no other.

    Raises:
        ProvisionerError: the pools cannot be listed, or there is no answer.
    """
    pools = look.pools.list()
    for pool in pools:
        if pool.owner is not None:
            yield pool, _answer(partial(collect_pool, look, pool, pools=pools))


def _answer(decide: Callable[[], T]) -> T | Exception:
    try:
        return decide()
    except ONE_REFUSED as error:
        return error
