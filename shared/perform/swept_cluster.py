"""One cluster in one sweep: its look, its report, and the time of each step."""

from __future__ import annotations

import dataclasses
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypeVar, cast

from shared.core.identity.pool_index import PoolIndex
from shared.perform.creation_list import Creations
from shared.perform.limited_ports import OptionalReads, RestingPools
from shared.perform.look import Look, RecentPools
from shared.perform.reservations import find_limits
from shared.perform.sweep_report import DeletionCap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shared.core.ports import Cluster, NodePools, Ports
    from shared.perform.sweep_report import SweepReport

T = TypeVar("T")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SweptCluster:
    """What the steps of one sweep of one cluster have in common."""

    look: Look
    """What is read once serves the whole sweep, but for an act: `Look.unshared`."""
    report: SweepReport
    cap: DeletionCap
    """That of the look."""

    def within_half(self) -> SweptCluster:
        """Return the same for one step, which may use half of the time that is left."""
        ports, now = self.look.ports, self.look.now()
        ports = dataclasses.replace(ports, until=now + (ports.until - now) / 2)
        return dataclasses.replace(self, look=dataclasses.replace(self.look, ports=ports))

    def for_each(self, task: Callable[[T], R], objects: Sequence[T]) -> Iterable[tuple[T, R | Exception]]:
        """Return each object with the result of its task, or the error that it raised."""
        return zip(objects, self.look.run([partial(task, each) for each in objects]), strict=True)


def open_sweep(cluster: str, ports: Ports, report: SweepReport) -> SweptCluster:
    """Return what one sweep of a cluster begins with. Nothing is read yet."""
    resting, live = RestingPools(ports.pools, ports.clock), ports.clusters[cluster]
    ports = dataclasses.replace(
        ports,
        pools=cast("NodePools", OptionalReads(resting, "read_machines", apart=ports.pools)),
        clusters=ports.clusters | {cluster: cast("Cluster", OptionalReads(live, "list_scale_ups"))},
        reads_fillings=True,
    )
    most, chance = ports.settings.sweep_deletions_max, Random(ports.clock.now())  # noqa: S311 -- no secret
    cap = DeletionCap(most, reserved=(most + chance.randrange(2)) // 2, nodes=most)
    look = Look(
        cluster=cluster,
        ports=ports,
        pools=RecentPools(lambda: PoolIndex(ports.pools.list(cluster)), ports.clock),
        limits=find_limits(cluster, ports),
        cap=cap,
        creations=Creations(cluster, ports),
        sweeps=True,
    )
    return SweptCluster(look=look.shared(), report=report, cap=cap)
