"""What is asked right before a delete: is the API the cluster's, and how many went already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.model.decisions import Decision, Reason, Verdict
from shared.model.pools import PoolStatus

if TYPE_CHECKING:
    from shared.engine.look import Look, Memory
    from shared.engine.outside import Ports
    from shared.model.pools import NodePool
    from shared.plan.scene import Act

UID_SECONDS = 60.0
"""How long the UID of a cluster is not read again."""
KUBE_SYSTEM = "kube-system"


def read_cluster_uid(cluster: str, ports: Ports, memory: Memory) -> str:
    """Return the UID of the namespace ``kube-system``; empty if there is none."""
    now = ports.clock.now()
    uid, read_at = memory.uids.get(cluster, ("", now))
    if not uid or not 0 <= now - read_at <= UID_SECONDS:
        seen = ports.clusters[cluster].get_namespace(KUBE_SYSTEM)
        uid = seen.uid if seen else ""
        memory.uids[cluster] = uid, now
    return uid


def find_obstacle(act: Act, look: Look, ports: Ports) -> Decision | None:
    """Return why a pool is not deleted now: the API is not proven, or too many went without a word.

    What the owner itself says needs no bound. Many absent owners or failed pools at once are more
    often a mistake, for example a list that is wrongly empty, than true.
    """
    pool, cluster = look.pools[act.pool], look.key.cluster
    if not _is_proven(pool, look, ports):
        text = f"node pool {act.pool} is kept: nothing proves that its cluster's API was read"
        return Decision(Verdict.KEEP, Reason.CLUSTER_UNPROVEN, text)
    if _rests_on_absence(pool, look) and not ports.budget.take_deletion(
        cluster, act.pool, ports.clock.now()
    ):
        text = (
            f"node pool {act.pool} is left to a later tick: more than "
            f"{ports.settings.deletions_per_minute_max} would go in a minute without a word of "
            "their owners"
        )
        return Decision(Verdict.KEEP, Reason.DELETIONS_OVER_CAP, text)
    return None


def _rests_on_absence(pool: NodePool, look: Look) -> bool:
    """Return whether a delete rests on what is not there: the owner, or machines."""
    if look.workload is None:
        return True
    said = look.workload.deleting or look.workload.terminal or look.workload.suspended
    return not said and (pool.status == PoolStatus.ERROR or not look.nodes.get(pool.name))


def _is_proven(pool: NodePool, look: Look, ports: Ports) -> bool:
    """Return whether the API that was read is that of the pool's cluster.

    A pool without the label of its cluster, as those of the Go program, is proven by a node of its
    own; a failed one without nodes by a node of any other pool.
    """
    label = pool.owner.cluster_uid if pool.owner else ""
    if label:
        return label == look.cluster_uid
    if look.nodes.get(pool.name):
        return True
    live = ports.clusters[look.key.cluster]
    return pool.status == PoolStatus.ERROR and bool(live.list_nodes(list(look.inventory.pools)))
