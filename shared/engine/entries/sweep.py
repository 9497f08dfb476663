"""The sweep: checks all of our pools and all waiting leaders, without exporter or messages.

Clusters are swept at the same time, and so are the workloads of one cluster. An error of one object
is reported with its name, and the sweep continues with the others.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from shared.core.decisions import Verdict
from shared.engine.entries.sweep_leaders import answer_leaders
from shared.engine.entries.sweep_pools import act_on_pools, judge_pools
from shared.engine.looks.limited_ports import bound_ports
from shared.engine.looks.look import open_sweep
from shared.engine.looks.side_by_side import CLUSTERS_AT_ONCE, get_runner
from shared.engine.looks.sweep_report import SweepReport
from shared.engine.steps.admit_workloads import answer_queues

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared.core.ports import Ports
    from shared.engine.looks.look import Look
    from shared.engine.steps.admit_workloads import Answered


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
    pools = swept.look.pools.list()
    swept.look.figures.note_listed(pools)
    try:
        answers = answer_leaders(swept.within_half(), pools)
        if any(each.decision.verdict == Verdict.DELETE for each in report.outcomes):
            swept.look.pools.forget()  # no workload is resumed with a pool that this sweep has deleted
        _add_answers(report, f"Kueue's workloads of {cluster}", answer_queues, swept.within_half().look)
        swept.cap.free()
        act_on_pools(swept, judge_pools(swept, pools), listed=pools)
        answers.finish(swept)
    finally:
        report.over_cap = swept.cap.over
        swept.look.write_notices()


def _add_answers(report: SweepReport, about: str, answer: Callable[[Look], Answered], look: Look) -> None:
    """Report what each workload was answered, or the error of its answer or of their list."""
    try:
        answered = answer(look)
    except Exception as error:  # noqa: BLE001 -- the net of these lists
        report.add_error(about, error)
        return
    for workload, done in answered:
        if isinstance(done, Exception):
            report.add_error(workload, done)
        else:
            report.outcomes.extend(done)
