"""What a decision tells: the facts for its log record, and Kubernetes Events that say why.

If an Event cannot be written, that is logged; it never undoes or repeats what was done. The same
Event again is counted up at most every ten minutes (`shared.edges.kubernetes_cluster`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

from shared.core.decide.pool_use import decide_foreign_pods
from shared.core.decisions import Decision, Reason, find_event_reason, is_warning
from shared.core.errors import Broken, ProvisionerError, Retryable
from shared.core.messages import ObjectName
from shared.core.nodepool import describe_placement
from shared.core.ports import Cluster, Notice
from shared.core.times import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from shared.core.decide.attempts import AttemptDecision
    from shared.core.demand.demand import Demand
    from shared.core.identity.names import PoolOwner, SliceClaim
    from shared.core.identity.pools import PoolSnapshot
    from shared.core.ports import BoundPod
    from shared.core.settings import Settings
    from shared.core.workloads import Parent, PodView, WorkloadView

    _Pod = PodView | ObjectName
    _Object = WorkloadView | Parent | _Pod

T = TypeVar("T")
_LENGTH_MAX = 600
_LOG = logging.getLogger("explain")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One decision, after what it orders was done."""

    decision: Decision
    cluster: str
    pool: str = ""
    subject: str = ""
    """The object of the question, in words."""
    demand: Demand | None = None
    """What the pool is for; None if there is no demand, or the question is about a pool."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Claim, shape and tier, for the log record."""


def describe_demand(demand: Demand, settings: Settings) -> dict[str, Any]:
    """Return the facts of a demand for a log record."""
    return {
        "claim": describe_claim(demand.claim.cluster, demand.claim),
        "tier": str(demand.capacity.tier),
        "accelerator": demand.shape.accelerator,
        "chips": demand.shape.chips,
        "machine_type": demand.shape.machine_type,
        "node_count": demand.shape.node_count,
        "topology": demand.shape.topology,
        "placement": describe_placement(demand, settings),
        "reservation": demand.capacity.reservation_path,
        "zone": demand.zone,
        "labels": demand.node_labels | demand.operator_labels,
        "elastic": demand.elastic,
    } | _leave_out_empty(candidate=demand.candidate_mark, idle_seconds=demand.idle_seconds)


def describe_attempt(made: AttemptDecision) -> dict[str, Any]:
    """Return the attempt for a log record; of the failure that it follows: class, words, pause."""
    if made.failure is None:
        return {"attempt": made.attempt}
    failed = {"failure": str(made.failure), "error": made.error, "next_try": format_time(made.next_at)}
    return {"attempt": made.attempt} | {key: value for key, value in failed.items() if value}


def describe_claim(cluster: str, named: SliceClaim | PoolOwner) -> dict[str, str]:
    """Return a claim, or the owner of a pool, for a log record."""
    return {
        "cluster": cluster,
        "kind": named.kind,
        "namespace": named.namespace,
        "name": named.name,
        "owner_uid": named.owner_uid,
        "slice": named.slice_name,
    }


def describe_pool_outcome(cluster: str, pool: PoolSnapshot, decision: Decision) -> Outcome:
    """Return the outcome of a decision about one pool, with the pool's owner for the log record."""
    facts: dict[str, Any] = {}
    if owner := pool.owner:
        facts = {"claim": describe_claim(cluster, owner)} | _leave_out_empty(idle_seconds=owner.idle_seconds)
    subject = f"node pool {pool.name}"
    return Outcome(decision=decision, cluster=cluster, pool=pool.name, subject=subject, facts=facts)


def _leave_out_empty(**fields: str | int) -> dict[str, str | int]:
    return {key: value for key, value in fields.items() if value}


def name_error(error: Exception, claim: dict[str, str] | None = None) -> ProvisionerError:
    """Return an error as it is reported, with its claim; an unexpected one is `Broken`."""
    found = error
    if not isinstance(found, ProvisionerError):
        found = Broken(f"{type(error).__name__}: {error}"[:_LENGTH_MAX])
        found.__cause__ = error
    found.claim = found.claim or claim
    return found


def get_results(done: Sequence[T | Exception], claims: Sequence[dict[str, str]] = ()) -> list[T]:
    """Return what all tasks returned, or raise the worst of their errors with its claim."""
    errors = [name_error(each, claim) for each, claim in zip_longest(done, claims) if isinstance(each, Exception)]
    if errors:  # an error that a person must repair comes before one that a retry repairs
        raise min(errors, key=lambda each: isinstance(each, Retryable))
    return [each for each in done if not isinstance(each, Exception)]


def try_to_read(what: str, read: Callable[[], T], *, of: str) -> T | None:
    """Return what was read of an object; None if it could not be, which is logged."""
    try:
        return read()
    except ProvisionerError as error:
        _LOG.warning("%s could not be read", what, extra={"object": of, "error": str(error)})
        return None


def find_parent(cluster: Cluster, workload: WorkloadView) -> Parent | None:
    """Return the parent of a workload, and whether it keeps the workload; None without parent.

    It is used for Events only, so an error is logged and stops nothing.
    """
    if workload.parent is None:
        return None
    read = partial(cluster.get_parent, workload.parent)
    return try_to_read("the parent of a workload", read, of=str(workload.parent))


def list_told(decision: Decision, workload: WorkloadView | None, *pods: _Pod | None) -> list[_Object]:
    """Return the objects that get an Event: the workload and the pods that a decision is about.

    - The workload gets none if the decision is about an earlier workload of its name.
    - The parent gets one if it keeps the workload after its end.
    """
    told = None if decision.reason == Reason.OWNER_GONE else workload
    parent = told.parent if told and decision.reason == Reason.PARENT_OVER else None
    # A pod without controller is its own workload: it gets one Event.
    return list({each.uid: each for each in (told, parent, *pods) if each}.values())


def explain(cluster: Cluster, decision: Decision, workload: WorkloadView | None, *pods: _Pod | None) -> None:
    """Write one Event for each of `list_told` that still exists; none for the verdict NOTHING."""
    reason = find_event_reason(decision)
    if reason is None:
        return
    for found in list_told(decision, workload, *pods):
        notice = Notice(
            kind=getattr(found, "kind", "Pod"),
            namespace=found.namespace,
            name=found.name,
            uid=found.uid,
            reason=str(reason),
            message=f"{decision.message} [{decision.reason}]",
            warning=is_warning(decision),
        )
        try:
            cluster.write_notice(notice)
        except Exception as error:  # noqa: BLE001 -- the net of this object
            note_unwritten(notice, error)


def note_unwritten(notice: Notice, error: Exception) -> None:
    """Log that an Event could not be written."""
    fields = {"object": f"{notice.kind} {notice.namespace}/{notice.name}", "error": str(error)}
    _LOG.warning("the Event could not be written on the object", extra=fields)


def tell_foreign_pods(
    live: Cluster, pool: PoolSnapshot, others: Sequence[BoundPod], *, kinds: Collection[str]
) -> None:
    """Write an Event on other workloads that have accelerator pods on a pool, and on the pods.

    The pool's own workload needs it no more. Only workloads of these kinds are read. An error is
    logged and stops nothing.
    """
    for decision, workload, pods in decide_foreign_pods(pool, others):
        named = [ObjectName(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid) for pod in pods]
        found = _find_workload(live, *workload) if workload[0] in kinds else None
        explain(live, decision, found, *named)


def _find_workload(live: Cluster, kind: str, namespace: str, name: str) -> WorkloadView | None:
    try:
        return live.get_workload(kind, namespace, name)
    except Exception as error:  # noqa: BLE001 -- the net of this workload
        fields = {"object": f"{kind} {namespace}/{name}", "error": str(error)}
        _LOG.warning("the workload that keeps a node pool could not be read", extra=fields)
        return None
