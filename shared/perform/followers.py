"""Explains why pods of a slice wait although its leader runs.

No pool is created for followers. Only a pool that has lost hosts for long, and has a list of
capacity, is deleted for them. An error of one is logged, or the caller gets it; the others go on.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from shared.core.decide.demands import find_claim, find_demand
from shared.core.decide.pool_use import decide_shared
from shared.core.decisions import Verdict
from shared.core.errors import ProvisionerError
from shared.core.identity.pools import PoolStatus
from shared.core.kinds.table import find_kind_of_pod, may_swap
from shared.core.times import measure_seconds
from shared.perform.disk_zones import add_disks
from shared.perform.explain import explain
from shared.perform.gather import OwnerReader
from shared.perform.look import Turn
from shared.perform.outcome import Outcome, describe_claim
from shared.perform.serving_pools import give_up_lost, judge_takers, judge_unplaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shared.core.identity.pool_index import PoolIndex
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.look import Look

Known = dict[tuple[str, str, str], "WorkloadView | None"]
FOLLOWERS_MAX = 10_000
"""The most waiting followers that one sweep looks at."""
_LOG = logging.getLogger("followers")


def judge_followers(look: Look, pools: PoolIndex) -> Iterator[tuple[PodView, Outcome | Exception]]:
    """Yield one follower of each slice that has waited longer than the grace, with its outcome.

    Slices that the look has answered are skipped. An error that is no `ProvisionerError` takes the
    outcome's place. One of these is logged.

    Args:
        look: of a sweep.
        pools: every pool of the cluster.
    """
    known, reader = Known(), OwnerReader(look)
    try:
        followers = list(islice(look.live.list_waiting_followers(), FOLLOWERS_MAX))
    except ProvisionerError as error:
        said = {"object": look.cluster, "error": str(error)}
        _LOG.warning("the waiting follower pods could not be read", extra=said)
        return
    for pod in followers:
        outcome: Outcome | Exception | None
        try:
            outcome = _judge(pod, reader, pools, known)
        except ProvisionerError as error:
            said = {"object": f"Pod {pod.namespace}/{pod.name}", "error": str(error)}
            _LOG.warning("a follower pod could not be answered", extra=said)
            continue
        except Exception as error:  # noqa: BLE001 -- the net of this pod
            outcome = error
        if outcome is not None:
            yield pod, outcome


def _judge(pod: PodView, reader: OwnerReader, pools: PoolIndex, known: Known) -> Outcome | None:
    look, kind = reader.look, find_kind_of_pod(pod)
    waited = measure_seconds(pod.unschedulable_since, look.now())
    young = not pod.unschedulable or (waited is not None and waited < look.settings.grace_seconds)
    if young or pod.deleting or kind is None or kind.name not in look.settings.kinds:
        return None
    home = (kind.name, pod.namespace, kind.find_owner(pod))
    if home not in known:
        known[home] = look.live.get_workload(*home)
    workload = known[home]
    claim = find_claim(look.cluster, pod, workload)
    if workload is None or claim is None or not look.answered.add(claim.hash):
        return None
    own = pools.list_claimed(claim.hash)
    running = [pool for pool in own if pool.status == PoolStatus.RUNNING]
    pool = next(iter((*running, *own)), None)
    decision = judge_takers(look, pod, pools, pool.name) if pool else None
    if decision is None and may_swap(workload):
        decision = decide_shared(pod, *reader.read_use(workload, None, pools=pools))
    if decision is None:
        demand = find_demand(look.cluster, pod, add_disks(look, workload), look.settings)
        looked_at = look.now()
        decision = judge_unplaced(look, pod, pool, demand=demand)
        if demand is not None and running and decision.verdict == Verdict.DELETE:
            turn = Turn(look=look, demand=demand, pools=pools, looked_at=looked_at, pod=pod, workload=workload)
            decision = give_up_lost(turn, pod, running[0]).decision
    explain(look.live, decision, objects=(workload, pod))
    subject, facts = f"Pod {pod.namespace}/{pod.name}", {"claim": describe_claim(claim)}
    name = pool.name if pool else ""
    return Outcome(decision=decision, cluster=look.cluster, pool=name, subject=subject, facts=facts)
