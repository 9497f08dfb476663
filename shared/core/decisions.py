"""The closed set of decisions and of the reasons they carry. `docs/runbook.md` has one heading per reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What is to be done about one slice or pool."""

    CREATE = "create"
    """Submit a node pool."""
    RESIZE = "resize"
    """Give an elastic pool more or fewer nodes."""
    DELETE = "delete"
    """Remove the pool, after one more look."""
    WAIT = "wait"
    """Something is under way; the next wake-up looks again."""
    KEEP = "keep"
    """The pool serves, or may not be touched yet."""
    REFUSE = "refuse"
    """The demand cannot be satisfied as it is; its owner is told."""
    NOTHING = "nothing"
    """There is no demand any more."""


class Reason(StrEnum):
    """Why. A value is never changed once released: dashboards and the runbook rely on it."""

    # provision: there is a demand, and this is its pool
    POOL_ABSENT = "pool_absent"
    POOL_IN_PROGRESS = "pool_in_progress"
    POOL_IN_PROGRESS_DIFFERS = "pool_in_progress_differs"
    POOL_SERVES = "pool_serves"
    POOL_GROWS = "pool_grows"
    POOL_SHRINKS = "pool_shrinks"
    POOL_TAKEN = "pool_taken"
    POOL_DIFFERS = "pool_differs"
    POOL_DEGRADED = "pool_degraded"
    POOL_FAILED = "pool_failed"
    POOL_STOPPING = "pool_stopping"
    POOL_STUCK = "pool_stuck"
    STATUS_UNKNOWN = "status_unknown"
    FOREIGN_LABELS = "foreign_labels"

    # provision: there is no demand (any more)
    DEMAND_GONE = "demand_gone"
    DEMAND_SCHEDULED = "demand_scheduled"
    DEMAND_NOT_UNSCHEDULABLE = "demand_not_unschedulable"
    DEMAND_NOMINATED = "demand_nominated"
    DEMAND_BOUND_ELSEWHERE = "demand_bound_elsewhere"
    DEMAND_OPTED_OUT = "demand_opted_out"
    DEMAND_LEFT_TO_GKE = "demand_left_to_gke"
    NOT_A_LEADER = "not_a_leader"
    NOT_AN_ACCELERATOR_DEMAND = "not_an_accelerator_demand"
    IDENTITY_MISMATCH = "identity_mismatch"
    KIND_NOT_SERVED = "kind_not_served"

    # the demand is refused
    SHAPE_UNSUPPORTED = "shape_unsupported"
    GPU_UNKNOWN = "gpu_unknown"
    SLICE_UNKNOWN = "slice_unknown"
    OWNER_KIND_UNKNOWN = "owner_kind_unknown"
    SLICES_MAY_MIX = "slices_may_mix"
    HOSTS_DIFFER = "hosts_differ"
    SELECTOR_UNSUPPORTED = "selector_unsupported"
    CAPACITY_CONFLICT = "capacity_conflict"
    REQUEST_NOT_ALLOWED = "request_not_allowed"
    LABELS_OVER_BUDGET = "labels_over_budget"
    ZONE_MISSING = "zone_missing"
    MODE_NO_CREATE = "mode_no_create"
    MODE_REPORT_ONLY = "mode_report_only"
    LIMIT_REACHED = "limit_reached"
    SLICE_DOUBLED = "slice_doubled"

    # collect: the owner's state
    OWNER_LIVE = "owner_live"
    OWNER_GONE = "owner_gone"
    OWNER_UNKNOWN = "owner_unknown"
    PARENT_OVER = "parent_over"
    WORKLOAD_OVER = "workload_over"
    WORKLOAD_SUSPENDED = "workload_suspended"
    GRACE_NOT_OVER = "grace_not_over"
    PODS_STILL_BOUND = "pods_still_bound"
    POOL_IN_USE = "pool_in_use"
    POOL_GONE = "pool_gone"
    SWEEP_OVER_CAP = "sweep_over_cap"

    # messages
    EVENT_MALFORMED = "event_malformed"
    CLUSTER_UNKNOWN = "cluster_unknown"

    # what GKE or the cluster answered
    UNAVAILABLE = "unavailable"
    THROTTLED = "throttled"
    GKE_BUSY = "gke_busy"
    VIEW_STALE = "view_stale"
    QUOTA_EXCEEDED = "quota_exceeded"
    PERMISSION_DENIED = "permission_denied"
    REQUEST_INVALID = "request_invalid"
    CLUSTER_NOT_FOUND = "cluster_not_found"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True, slots=True)
class Decision:
    """One verdict with its reason, and a sentence for the person who owns the job."""

    verdict: Verdict
    reason: Reason
    message: str


class EventReason(StrEnum):
    """Reasons of Kubernetes Events. The first five are the Go TPU Provisioner's; dashboards keep working."""

    CREATION_STARTED = "NodePoolCreationStarted"
    CREATION_SUCCEEDED = "NodePoolCreationSucceeded"
    CREATION_FAILED = "NodePoolCreationFailed"
    RESIZE_STARTED = "NodePoolResizeStarted"
    DELETION_STARTED = "NodePoolDeletionStarted"
    DELETION_FAILED = "NodePoolDeletionFailed"
    PENDING = "NodePoolPending"
    KEPT = "NodePoolKept"
    REFUSED = "NodePoolRefused"


EVENT_REASONS = {
    Verdict.CREATE: EventReason.CREATION_STARTED,
    Verdict.RESIZE: EventReason.RESIZE_STARTED,
    Verdict.DELETE: EventReason.DELETION_STARTED,
    Verdict.WAIT: EventReason.PENDING,
    Verdict.KEEP: EventReason.KEPT,
    Verdict.REFUSE: EventReason.REFUSED,
}
"""The Event that a decision leaves on the job and its leader pod; NOTHING leaves none."""

WARNING_VERDICTS = frozenset({Verdict.REFUSE})
FAILURE_REASONS = frozenset({Reason.POOL_FAILED, Reason.POOL_STUCK, Reason.QUOTA_EXCEEDED, Reason.REQUEST_INVALID})
"""With these the Event says ``NodePoolCreationFailed``, whatever is done next."""


def find_event_reason(decision: Decision) -> EventReason | None:
    """Return the reason of the Kubernetes Event for a decision, or None when none is written."""
    if decision.reason in FAILURE_REASONS:
        return EventReason.CREATION_FAILED
    return EVENT_REASONS.get(decision.verdict)


def is_warning(decision: Decision) -> bool:
    """Return whether the Event of a decision is a Warning."""
    return decision.verdict in WARNING_VERDICTS or decision.reason in FAILURE_REASONS
