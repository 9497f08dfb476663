"""The sweep: checks all of our pools and all waiting leaders, without exporter or messages.

Clusters are swept at the same time, and so are the workloads of one cluster. An error of one object
is reported with its name, and the sweep continues with the others.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decisions import Verdict
from shared.core.identity.pool_index import PoolIndex
from shared.perform.admit_workloads import Admission
from shared.perform.bounded_ports import bound_ports
from shared.perform.explain import note_unwritten
from shared.perform.look import RecentPools
from shared.perform.resume_workloads import SweepShare, answer_asking
from shared.perform.side_by_side import CLUSTERS_AT_ONCE, get_runner
from shared.perform.sweep_leaders import answer_leaders
from shared.perform.sweep_pools import act_on_pools, judge_pools
from shared.perform.sweep_report import SweepReport
from shared.perform.swept_cluster import open_sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.core.ports import Ports
    from shared.perform.admit_workloads import Answered
    from shared.perform.swept_cluster import SweptCluster


def sweep(ports: Ports) -> SweepReport:
    """Look at every cluster once. An error about one cluster, pool or pod is never raised.

    With more clusters than run side by side, each has its share of the time.
    """
    reports = {cluster: SweepReport() for cluster in ports.clusters}
    rounds = math.ceil(len(reports) / CLUSTERS_AT_ONCE)
    share_seconds = (ports.until - ports.clock.now()) / max(rounds, 1)
    tasks = [partial(_sweep_cluster, name, ports, report, share_seconds) for name, report in reports.items()]
    done = get_runner(ports)(tasks, at_once=CLUSTERS_AT_ONCE, until=ports.until)
    for (name, report), result in zip(reports.items(), done, strict=True):
        if isinstance(result, Exception):
            report.add_error(name, result)
    total = SweepReport()
    total.merge(reports.values())
    return total


def _sweep_cluster(cluster: str, ports: Ports, report: SweepReport, share_seconds: float) -> None:
    """Sweep one cluster; an error of its list of pools is raised."""
    swept = open_sweep(cluster, bound_ports(ports, ports.clock.now() + share_seconds), report)
    recent = RecentPools(lambda: PoolIndex(swept.live.pools.list(cluster)), ports.clock)
    pools = recent.list()
    swept.figures.note_listed(pools)
    try:
        answers = answer_leaders(swept.within_half(), pools, recent)
        if any(each.decision.verdict == Verdict.DELETE for each in report.outcomes):
            recent.forget()  # no workload is resumed with a pool that this sweep has deleted
        _add_answers(swept.within_half(), f"Kueue's workloads of {cluster}", partial(_answer_queues, recent))
        _add_answers(swept.within_half(), f"suspended workloads of {cluster}", partial(_answer_asking, recent))
        swept.cap.free()
        act_on_pools(swept, judge_pools(swept, pools), listed=pools)
        answers.finish(swept)
    finally:
        report.over_cap = swept.cap.over
        for notice, error in swept.reads.flush():
            note_unwritten(notice, error)


def _add_answers(swept: SweptCluster, about: str, answer: Callable[[SweptCluster], Answered]) -> None:
    """Report what each workload was answered, or the error of its answer or of their list."""
    try:
        answered = answer(swept)
    except Exception as error:  # noqa: BLE001 -- the net of these lists
        swept.report.add_error(about, error)
        return
    for workload, done in answered:
        if isinstance(done, Exception):
            swept.report.add_error(workload, done)
        else:
            swept.report.outcomes.extend(done)


def _answer_queues(recent: RecentPools, swept: SweptCluster) -> Answered:
    """Answer Kueue's workloads that wait for capacity, if that is switched on."""
    queues = swept.shared.queues.get(swept.name)
    if queues is None:
        return []
    admission = Admission(
        cluster=swept.name,
        queues=queues,
        ports=swept.shared,
        cap=swept.cap,
        limits=swept.limits,
        creations=swept.creations,
    )
    return admission.run(recent.list())


def _answer_asking(recent: RecentPools, swept: SweptCluster) -> Answered:
    """Answer the suspended workloads that wait for their capacity, if the setting is on."""
    share = SweepShare(
        list_pools=recent.list,
        cap=swept.cap,
        limits=swept.limits,
        creations=swept.creations,
        figures=swept.figures,
    )
    return answer_asking(swept.name, swept.live, share)
