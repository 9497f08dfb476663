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
from shared.core.identity.pool_index import PoolIndex
from shared.core.identity.pools import PoolStatus
from shared.core.kinds.table import find_kind_of_pod, may_swap
from shared.core.times import measure_seconds
from shared.perform.disk_zones import add_disks
from shared.perform.explain import explain
from shared.perform.gather import OwnerReader
from shared.perform.holders import judge_takers, judge_unplaced
from shared.perform.leave_pools import give_up_lost
from shared.perform.make_attempt import Turn
from shared.perform.outcome import Outcome, describe_claim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Ports
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.deletion_cap import DeletionCap
    from shared.perform.look import AnsweredClaims

    Known = dict[tuple[str, str, str], WorkloadView | None]

FOLLOWERS_MAX = 10_000
"""The most waiting followers that one sweep looks at."""
_LOG = logging.getLogger("followers")


def judge_followers(
    cluster: str,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot],
    answered: AnsweredClaims,
    cap: DeletionCap | None = None,
) -> Iterator[tuple[PodView, Outcome | Exception]]:
    """Yield one follower of each slice that has waited longer than the grace, with its outcome.

    An error that is no `ProvisionerError` takes the outcome's place. One of these is logged.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        ports: the outside world.
        pools: every pool of the cluster.
        answered: claims that were handled a moment ago. Such slices are skipped, and the claims of
            others are added.
        cap: how many pools the sweep may still delete; None outside a sweep.
    """
    known: Known = {}
    reader = OwnerReader(cluster, ports)
    try:
        followers = list(islice(ports.clusters[cluster].list_waiting_followers(), FOLLOWERS_MAX))
    except ProvisionerError as error:
        _LOG.warning("the waiting follower pods could not be read", extra={"object": cluster, "error": str(error)})
        return
    for pod in followers:
        outcome: Outcome | Exception | None
        try:
            outcome = _judge(pod, reader, pools=pools, answered=answered, known=known, cap=cap)
        except ProvisionerError as error:
            said = {"object": f"Pod {pod.namespace}/{pod.name}", "error": str(error)}
            _LOG.warning("a follower pod could not be answered", extra=said)
            continue
        except Exception as error:  # noqa: BLE001 -- the net of this pod
            outcome = error
        if outcome is not None:
            yield pod, outcome


def _judge(
    pod: PodView,
    reader: OwnerReader,
    *,
    pools: Sequence[PoolSnapshot],
    answered: AnsweredClaims,
    known: Known,
    cap: DeletionCap | None,
) -> Outcome | None:
    cluster, ports = reader.cluster, reader.ports
    kind, waited = find_kind_of_pod(pod), measure_seconds(pod.unschedulable_since, ports.clock.now())
    young = not pod.unschedulable or (waited is not None and waited < ports.settings.grace_seconds)
    if young or pod.deleting or kind is None or kind.name not in ports.settings.kinds:
        return None
    live, home = ports.clusters[cluster], (kind.name, pod.namespace, kind.find_owner(pod))
    if home not in known:
        known[home] = live.get_workload(*home)
    workload = known[home]
    claim = find_claim(cluster, pod, workload)
    if workload is None or claim is None or not answered.add(claim.hash):
        return None
    own = PoolIndex.of(pools).list_claimed(claim.hash)
    running = [pool for pool in own if pool.status == PoolStatus.RUNNING]
    name = next((pool.name for pool in (*running, *own)), "")
    decision = judge_takers(cluster, pod, ports, pools=pools, pool_name=name)
    if decision is None and may_swap(workload):
        decision = decide_shared(pod, *reader.read_use(workload, None, pools=pools))
    if decision is None:
        seen = add_disks(cluster, workload, ports)
        demand, looked_at = find_demand(cluster, pod, seen, ports.settings), ports.clock.now()
        decision = judge_unplaced(cluster, pod, ports, pools=pools, pool_name=name, demand=demand)
        if demand is not None and running and decision.verdict == Verdict.DELETE:
            turn = Turn(looked_at, cap, None, None, workload=workload)
            decision = give_up_lost(demand, pod, running[0], ports, turn).decision
    explain(live, decision, objects=(workload, pod))
    subject, facts = f"Pod {pod.namespace}/{pod.name}", {"claim": describe_claim(claim)}
    return Outcome(decision=decision, cluster=cluster, pool=name, subject=subject, facts=facts)
