"""Says why a slice that has begun is not whole: its first pod landed, and others' pods hold the rest of its pool.

Followers ask for nothing and get nothing; they are read to explain only, so an error is logged and stops nothing.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING

from shared.core.demand import claim_slice
from shared.core.elastic import find_slice
from shared.core.errors import ProvisionerError, Rejected
from shared.core.kinds.table import find_kind_of_pod
from shared.core.pools import PoolStatus
from shared.perform.explain import explain
from shared.perform.occupancy import judge_takers
from shared.perform.outcome import Outcome, describe_owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.core.kinds.kind import Kind
    from shared.core.names import Claim
    from shared.core.pools import PoolSnapshot
    from shared.core.workloads import PodView, WorkloadView
    from shared.perform.outcome import Ports

    Known = dict[tuple[str, str, str], WorkloadView | None]

FOLLOWERS_MAX = 10_000
"""Waiting followers that one sweep looks at."""
_LOG = logging.getLogger("followers")


def judge_followers(
    cluster: str, ports: Ports, *, pools: Sequence[PoolSnapshot], answered: set[str]
) -> Iterator[tuple[PodView, Outcome]]:
    """Yield one follower of each slice whose running pool others hold, with what was said on it and its workload.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        ports: the outside world.
        pools: every pool of the cluster.
        answered: hashes of claims that were answered a moment ago; such slices are passed over, and others added.
    """
    known: Known = {}
    try:
        followers = list(islice(ports.clusters[cluster].list_waiting_followers(), FOLLOWERS_MAX))
    except ProvisionerError as error:
        _LOG.warning("the followers that wait could not be read", extra={"object": cluster, "error": str(error)})
        return
    for pod in followers:
        try:
            outcome = _judge(cluster, pod, ports, pools=pools, answered=answered, known=known)
        except ProvisionerError as error:
            said = {"object": f"Pod {pod.namespace}/{pod.name}", "error": str(error)}
            _LOG.warning("a follower's workload could not be read", extra=said)
            continue
        if outcome is not None:
            yield pod, outcome


def _judge(
    cluster: str,
    pod: PodView,
    ports: Ports,
    *,
    pools: Sequence[PoolSnapshot],
    answered: set[str],
    known: Known,
) -> Outcome | None:
    since, kind = pod.unschedulable_since, find_kind_of_pod(pod)
    young = since is None or ports.clock.now() - since < ports.settings.grace_seconds
    if young or pod.deleting or kind is None or kind.name not in ports.settings.kinds:
        return None
    live, home = ports.clusters[cluster], (kind.name, pod.namespace, kind.find_owner(pod))
    if home not in known:
        known[home] = live.get_workload(*home)
    workload = known[home]
    claim = _find_claim(cluster, kind, pod, workload)
    if claim is None or claim.hash in answered:
        return None
    answered.add(claim.hash)
    for pool in pools:
        if pool.owner and pool.owner.claim_hash == claim.hash and pool.status == PoolStatus.RUNNING:
            decision = judge_takers(cluster, pod, ports, pools=pools, pool_name=pool.name)
            if decision is not None:
                explain(live, decision, objects=(workload, pod))
                subject = f"Pod {pod.namespace}/{pod.name}"
                facts = describe_owner(cluster, pool.owner)
                return Outcome(decision=decision, cluster=cluster, pool=pool.name, subject=subject, facts=facts)
    return None


def _find_claim(cluster: str, kind: Kind, pod: PodView, workload: WorkloadView | None) -> Claim | None:
    """Return whose slice a follower is of; None where that cannot be told."""
    if workload is None or kind.find_owner_uid(pod) not in ("", workload.uid):
        return None
    try:
        found = find_slice(kind, pod, workload)
    except Rejected:
        return None
    return claim_slice(cluster, workload, found) if found else None
