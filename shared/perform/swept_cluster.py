"""One cluster in one sweep: the ports of the sweep, its report, and what its answers share."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from shared.perform.act_within_limits import find_limits
from shared.perform.cluster_figures import ClusterFigures
from shared.perform.creation_list import Creations
from shared.perform.deletion_cap import DeletionCap
from shared.perform.fillings import OptionalReads
from shared.perform.resting_pools import RestingPools
from shared.perform.shared_reads import share_reads
from shared.perform.side_by_side import CALLS_AT_ONCE, get_runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shared.core.ports import Cluster, NodePools, Ports
    from shared.perform.act_within_limits import Limits
    from shared.perform.shared_reads import SharedReads
    from shared.perform.sweep_report import SweepReport

T = TypeVar("T")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SweptCluster:
    """What the steps of one sweep of one cluster have in common."""

    name: str
    """``projects/P/locations/L/clusters/C``."""
    report: SweepReport
    live: Ports
    """For looks that a deletion rests on."""
    shared: Ports
    """For everything else: what is read once serves the whole sweep."""
    reads: SharedReads
    """It holds the Events that are written at the end of the sweep."""
    cap: DeletionCap
    limits: Limits | None
    creations: Creations
    figures: ClusterFigures

    @property
    def cluster(self) -> Cluster:
        """Return the cluster's port, whose reads are shared."""
        return self.shared.clusters[self.name]

    def now(self) -> float:
        """Return the time, in unix seconds."""
        return self.live.clock.now()

    def within_half(self) -> SweptCluster:
        """Return the same for one step, which may use half of the time that is left."""
        until = self.now() + (self.live.until - self.now()) / 2
        live, shared = (dataclasses.replace(each, until=until) for each in (self.live, self.shared))
        return dataclasses.replace(self, live=live, shared=shared)

    def for_each(self, task: Callable[[T], R], objects: Sequence[T]) -> Iterable[tuple[T, R | Exception]]:
        """Return each object with the result of its task, or the error that it raised."""
        tasks = [partial(task, each) for each in objects]
        done = get_runner(self.live)(tasks, at_once=CALLS_AT_ONCE, until=self.live.until)
        return zip(objects, done, strict=True)


def open_sweep(cluster: str, ports: Ports, report: SweepReport) -> SweptCluster:
    """Return what one sweep of a cluster begins with. Nothing is read yet."""
    resting, live = RestingPools(ports.pools, ports.clock), ports.clusters[cluster]
    told = cast("Cluster", OptionalReads(live, "list_scale_ups"))
    ports = dataclasses.replace(
        ports,
        pools=cast("NodePools", OptionalReads(resting, "read_machines", apart=ports.pools)),
        clusters=ports.clusters | {cluster: told},
        reads_fillings=True,
    )
    shared, reads = share_reads(cluster, ports)
    deletions_max = ports.settings.sweep_deletions_max
    return SweptCluster(
        name=cluster,
        report=report,
        live=ports,
        shared=dataclasses.replace(ports, clusters=ports.clusters | {cluster: shared}),
        reads=reads,
        cap=DeletionCap(deletions_max, reserved=deletions_max // 2),
        limits=find_limits(cluster, ports),
        creations=Creations(cluster, ports),
        figures=ClusterFigures(),
    )
