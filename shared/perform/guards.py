"""What every write needs: the emergency stop, the proof of the cluster, and a young look."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shared.core.decide.cluster_proof import is_contradicted, judge_nodes, list_witnesses
from shared.core.decide.freshness import is_fresh
from shared.core.decide.mode_label import decide_stop, read_mode_label
from shared.core.errors import OldLook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.decide.mode_label import Stop
    from shared.core.decisions import Decision
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Cluster, Ports
    from shared.perform.look import Look

_LOG = logging.getLogger("emergency_stop")


def expect_fresh(look: Look, looked_at: float, act: str, *, objects: int = 0) -> None:
    """Expect that a look is young enough for an act.

    Args:
        look: has the clock.
        looked_at: when its first read began, in unix seconds.
        act: what is not done otherwise, as ``node pool x was not deleted``.
        objects: how many objects were read one by one.

    Raises:
        OldLook: it took too long.
    """
    if not is_fresh(looked_at, now=look.now(), objects=objects):
        raise OldLook(f"{act}, because the look at it took too long")


def find_stop(look: Look, act: Decision) -> Decision | None:
    """Return the decision that replaces an act which the cluster's mode label stops; else None.

    Raises:
        Retryable: the label could not be read, so the act must not be done.
        Denied: the permission to read the label is missing, so the act must not be done.
    """
    stopped = decide_stop(act, read_stop(look.cluster, look.ports))
    if stopped is not None:
        fields = {"cluster": look.cluster, "decision": str(stopped.verdict), "reason": str(stopped.reason)}
        _LOG.warning("%s", stopped.message, extra=fields)
    return stopped


def read_stop(cluster: str, ports: Ports) -> Stop | None:
    """Return what the label of the provisioner's own namespace stops now; None: nothing.

    Raises:
        Retryable: the namespace could not be read.
        Denied: the permission to read it is missing.
    """
    name = ports.settings.own_namespace
    return read_mode_label(name, ports.clusters[cluster].get_namespace(name))


def is_proven(look: Look, pool: PoolSnapshot) -> bool:
    """Return whether the API surely shows what runs on a pool; asked before each deletion.

    A node of the pool is enough, because its pods are seen there. Else a node of any other pool of
    the cluster shows that this one has no nodes. Only if no node tells, the label of the pool does.

    Raises:
        Retryable: something could not be read.
        Denied: a permission to read is missing.
    """
    if look.live.find_pools_of_nodes([pool.name], some=True):
        return True
    judged = _judge(look.live, look.list_pools())
    if judged is None:
        said = pool.owner.cluster_uid if pool.owner else ""
        return bool(said) and said == read_cluster_uid(look.live)
    return judged


def is_other(live: Cluster, pools: Sequence[PoolSnapshot]) -> bool:
    """Return whether an API is surely not that of the cluster whose pools these all are.

    Raises:
        Retryable: something could not be read.
        Denied: a permission to read is missing.
    """
    judged = _judge(live, pools)
    return is_contradicted(pools, read_cluster_uid(live)) if judged is None else not judged


def _judge(live: Cluster, pools: Sequence[PoolSnapshot]) -> bool | None:
    witnesses = list_witnesses(pools)
    return judge_nodes(witnesses, live.find_pools_of_nodes(witnesses.names, some=True))


def read_cluster_uid(live: Cluster) -> str:
    """Return the UID of the namespace ``kube-system``; empty if there is none.

    Raises:
        Retryable: it could not be read.
        Denied: the permission to read it is missing.
    """
    found = live.get_namespace("kube-system")
    return found.uid if found else ""
