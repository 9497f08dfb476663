"""Every change of node pools, nodes and workloads, and what is read right before it.

The guards come in one order: proof of the cluster, limits, the emergency stop, the age of the look.
Between them and the call comes only what must be as young as possible: the slice's pools before a
create, the pool itself before its deletion, and the machines of one that is left for another.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, TypeVar

from shared.core.decide.attempts import find_newest
from shared.core.decide.capacity_first import decide_mode
from shared.core.decide.cluster_proof import decide_unproven, is_contradicted, judge_nodes, list_witnesses
from shared.core.decide.collect import decide_over_cap
from shared.core.decide.failures import decide_failure
from shared.core.decide.freshness import LOOKS_MAX, TURN_SECONDS, is_fresh
from shared.core.decide.mode_label import decide_stop, read_mode_label
from shared.core.decisions import Decision, Verdict
from shared.core.errors import (
    Denied,
    InvalidRequest,
    NoCapacity,
    OldLook,
    ProvisionerError,
    StaleView,
    Throttled,
    Unavailable,
)
from shared.perform.tell import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from shared.core.decide.mode_label import Stop
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import Cluster, Ports
    from shared.core.workloads import WorkloadView
    from shared.perform.look import Look, Turn
    from shared.perform.reservations import Reserved

T = TypeVar("T")
_LOG = logging.getLogger("emergency_stop")
_REFUSED = (NoCapacity, InvalidRequest, Denied, Throttled, OldLook)
"""With these GKE has surely created nothing: it refused, or was not asked."""


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


def look_again_if_old(look_and_act: Callable[[], T]) -> T:
    """Look and act, `LOOKS_MAX` times if each look but the last one took too long to act on.

    Raises:
        OldLook: the last one took too long, too.
    """
    for _ in range(LOOKS_MAX - 1):
        with contextlib.suppress(OldLook):
            return look_and_act()
    return look_and_act()


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
    if (judged := _judge(look.live, look.list_pools())) is not None:
        return judged
    said = pool.owner.cluster_uid if pool.owner else ""
    return bool(said) and said == read_cluster_uid(look.live)


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


def create_pool(turn: Turn, decision: Decision, body: Mapping[str, Any]) -> Decision:
    """Create a pool within the limits; return what came of it.

    A pool that has a number needs a look of just now: the number may be used up. What was read
    before may be some seconds old, and another function may have acted since.

    Args:
        turn: of its slice, on the attempt of the pool.
        decision: to create it.
        body: the pool, as GKE's API takes it.

    Raises:
        StaleView: too many processes reserve at the same time, or something has changed or took
            too long since it was read. Nothing was created.
        Retryable: something could not be read, or what the port raises.
    """
    look, demand, name = turn.look, turn.demand, str(body["name"])

    def submit() -> None:
        if not demand.elastic or demand.choices > 1:
            _read_again(turn, name)
            if not 0 <= look.now() - turn.looked_at <= TURN_SECONDS:
                raise OldLook(f"node pool {name} was not created, because the look at its slice took too long")
        if look.ports.places:
            look.ports.places.send(create, look.cluster, name, turn.pools, now=look.now())
        else:
            create()

    def create() -> None:
        look.ports.pools.create(look.cluster, body)

    return _act_within_limits(turn, name, decision, submit)


def resize_pool(turn: Turn, name: str, decision: Decision, *, looked_at: float) -> Decision:
    """Give an elastic pool as many nodes as its demand has; see `create_pool`.

    Raises:
        OldLook: its size was measured at `looked_at`, in unix seconds, and that is too long ago.
    """
    look = turn.look

    def resize() -> None:
        expect_fresh(look, looked_at, f"node pool {name} was not resized")
        look.ports.pools.resize(look.cluster, name, turn.demand.shape.node_count)

    return _act_within_limits(turn, name, decision, resize)


def _act_within_limits(turn: Turn, name: str, decision: Decision, act: Callable[[], None]) -> Decision:
    """Do an act that gives a pool nodes, unless a limit or the emergency stop forbids it."""
    look, limits = turn.look, turn.look.limits
    reserved = limits.reserve(turn.demand, name, instead_of=turn.replaced) if limits else None
    if isinstance(reserved, Decision):
        return reserved
    if turn.make_room and (gone := turn.make_room()).verdict != Verdict.DELETE:
        _give_back(look, reserved)
        return gone
    looked_at = look.now()
    if stopped := find_stop(look, decision):
        _give_back(look, reserved)
        return stopped
    expect_fresh(look, looked_at, f"node pool {name} got no nodes")
    if reserved and not 0 <= look.now() - reserved.made_at <= TURN_SECONDS:
        raise StaleView(f"the limits were counted too long ago for node pool {name}; they are counted again")
    try:
        act()
    except _REFUSED:
        _give_back(look, reserved)
        raise
    return decision


def _give_back(look: Look, reserved: Reserved | None) -> None:
    if look.limits and reserved:
        look.limits.give_back(reserved)


def _read_again(turn: Turn, name: str) -> None:
    """Read what the pool's number follows from; the create must come promptly after this.

    The emergency stop and the limits were read just before, and this must not make them old.

    Raises:
        OldLook: it has changed, could not be read, or the read took too long.
    """
    began = turn.look.now()
    try:
        if turn.demand.choices > 1:
            expect_no_other(turn.look, turn.demand, name, turn.own)  # GKE may have refused this one before
        else:
            _expect_last(turn, name)
    except Unavailable as error:
        raise OldLook(f"node pool {name} was not created: its slice's pools cannot be read: {error}") from error
    expect_fresh(turn.look, began, f"node pool {name} was not created")


def expect_no_other(look: Look, demand: Demand, name: str, known: Sequence[PoolSnapshot] = ()) -> None:
    """List the pools again: another attempt may have one by now.

    Raises:
        OldLook: another pool of the claim exists than those that are known.
    """
    expected = {name, *(pool.name for pool in known)}
    own = look.list_pools().list_claimed(demand.claim.hash)
    if other := next((pool.name for pool in own if pool.name not in expected), ""):
        raise OldLook(f"node pool {name} was not created, because {other} of its slice was listed since the look")


def _expect_last(turn: Turn, name: str) -> None:
    """Read the last pool of the claim again, from which the number of the next attempt follows.

    A function that does not find that pool, or not its labels, begins with the first number. Then
    two functions would create pools of two names at the same time.

    Raises:
        OldLook: that pool does not exist any more, or has other labels.
    """
    last = find_newest(turn.own)
    if last is None or last.name == name:
        return
    found = turn.look.get_pool(last.name)
    if found is None or found.labels != last.labels:
        raise OldLook(f"node pool {name} was not created: {last.name} before it is gone or changed since the look")


def delete_pool(
    look: Look,
    pool: PoolSnapshot,
    decision: Decision,
    *,
    looked_at: float,
    limited: bool = True,
    last_look: Callable[[], Decision] | None = None,
) -> Decision:
    """Submit the deletion of a pool that was looked at just now; return what came of it.

    Args:
        look: with unshared reads.
        pool: as the look found it.
        decision: why it is deleted.
        looked_at: when the first read of the look began, in unix seconds.
        limited: it counts against the cap of a sweep.
        last_look: decides again from what neither pool nor pods show, by the last read before it.

    Raises:
        OldLook: the look is too old, or the pool has changed since; nothing was deleted.
        Retryable: GKE could not be asked, or another operation holds the pool.
    """
    cap = look.cap if limited else None
    if not is_proven(look, pool):
        return decide_unproven(pool.name)
    if stopped := find_stop(look, decision):
        return stopped
    if expect_owner(look, pool).status != pool.status:
        raise OldLook(f"node pool {pool.name} was not deleted, because its status has changed since the look")
    if last_look is not None and (now := last_look()).verdict != Verdict.DELETE:
        return now
    expect_fresh(look, looked_at, f"node pool {pool.name} was not deleted", objects=pool.node_count)
    if cap is not None and not cap.take():
        return decide_over_cap(pool.name, look.settings)
    try:
        look.ports.pools.delete(look.cluster, pool.name)
    except ProvisionerError as error:
        if cap is not None and not isinstance(error, Unavailable):
            cap.give_back()  # GKE has surely not begun
        raise
    return decision


def remove_nodes(
    look: Look, pool: PoolSnapshot, names: Sequence[str], decision: Decision, *, looked_at: float, objects: int = 0
) -> Decision:
    """Remove nodes of a pool, or give up nodes that GKE has not made; return what came of it.

    Raises:
        OldLook: the look, whose first read began at `looked_at` and read so many objects one by
            one, is too old, or the pool is another's now; nothing was removed.
        Retryable: GKE could not be asked.
    """
    if stopped := find_stop(look, decision):
        return stopped
    expect_owner(look, pool)
    expect_fresh(look, looked_at, f"node pool {pool.name} gave no nodes up", objects=objects)
    look.ports.pools.remove_nodes(pool, names)
    return decision


def mark_nodes(
    look: Look,
    pool: PoolSnapshot,
    marks: Mapping[str, tuple[float | None, bool]],
    decision: Decision,
    *,
    looked_at: float,
) -> Decision:
    """Write our marks on nodes of a pool; return what came of it.

    `marks` has by the name of a node since when it is not needed, in unix seconds, or None to
    remove the mark; and whether it is closed to new pods. The first read of the nodes began at
    `looked_at`, in unix seconds.

    Raises:
        OldLook: the look is too old, or the pool is another's now; nothing was written.
        Retryable: a node could not be read or written, or another process changed it.
        Denied: the permission to change nodes is missing.
    """
    if stopped := find_stop(look, decision):
        return stopped
    expect_owner(look, pool)
    expect_fresh(look, looked_at, f"the nodes of node pool {pool.name} were not marked", objects=pool.node_count)
    for node, (since, closed) in marks.items():
        look.live.mark_surplus(node, since, closed=closed)
    return decision


def change_workload(
    look: Look,
    workload: WorkloadView,
    decision: Decision,
    marks: Mapping[str, str | None],
    *,
    suspended: bool | None = None,
) -> WorkloadView | Decision:
    """Change a workload in place of what was read; return it, or the mode that forbids it.

    Raises:
        StaleView: it has changed since it was read; nothing was changed.
        Denied: the permission to change it is missing. The workload is told.
    """
    if stopped := decide_mode(decision, workload.namespace, look.settings) or find_stop(look, decision):
        return stopped
    try:
        return look.live.change_workload(workload, marks, suspended=suspended)
    except Denied as error:
        explain(look.live, decide_failure("the workload cannot be changed", error), objects=(workload,))
        raise


def expect_owner(look: Look, pool: PoolSnapshot) -> PoolSnapshot:
    """Read a pool again: a list may be minutes old, and a person may have removed our labels since.

    Raises:
        OldLook: the pool is gone, or its labels name another owner, or none.
    """
    found = look.get_pool(pool.name)
    if found is None or found.owner != pool.owner:
        raise OldLook(f"the labels of node pool {pool.name} have changed since they were read")
    return found
