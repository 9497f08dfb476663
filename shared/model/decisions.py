"""The closed sets of verdicts and reasons. `docs/runbook.md` has one heading per reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What to do about one slice or pool."""

    CREATE = "create"
    """Create a node pool."""
    RESIZE = "resize"
    """Give an elastic pool more or fewer nodes."""
    DELETE = "delete"
    """Delete the pool, after one more look."""
    WAIT = "wait"
    """Something is in progress; a later look decides again."""
    KEEP = "keep"
    """Leave the pool as it is."""
    REFUSE = "refuse"
    """Create nothing for this demand; an Event tells its owner why."""
    NOTHING = "nothing"
    """There is nothing to do."""


class Reason(StrEnum):
    """Why. A released value never changes, because dashboards and the runbook use it."""

    # provision: there is a demand; the state of its pool
    POOL_ABSENT = "pool_absent"  # the slice has no node pool, so one is created
    POOL_IN_PROGRESS = "pool_in_progress"  # GKE creates or repairs the node pool
    POOL_IN_PROGRESS_DIFFERS = (
        "pool_in_progress_differs"  # GKE creates the node pool in a shape that is no longer needed
    )
    POOL_CREATED = "pool_created"  # GKE has created the node pool
    POOL_SERVES = "pool_serves"  # the node pool runs and fits
    POOL_GROWS = "pool_grows"  # the elastic node pool gets more nodes
    POOL_SHRINKS = "pool_shrinks"  # empty nodes of the elastic node pool are removed
    POOL_TAKEN = "pool_taken"  # pods of other workloads use the node pool
    POD_UNPLACED = (
        "pod_unplaced"  # the node pool runs, and the scheduler does not place the pod on it
    )
    POOL_DIFFERS = "pool_differs"  # the node pool does not have the shape that the pods need now
    POOL_DEGRADED = "pool_degraded"  # the node pool runs with errors
    POOL_FAILED = "pool_failed"  # GKE failed to create the node pool
    STOCKOUT = "stockout"  # the creation failed: GKE has no capacity
    RESERVATION_UNFIT = "reservation_unfit"  # the reservation is missing, used up or does not fit
    ADDRESSES_EXHAUSTED = "addresses_exhausted"  # the creation failed: no free IP addresses
    ZONE_UNFIT = "zone_unfit"  # the creation failed: the zone does not offer the machine
    POLICY_VIOLATED = "policy_violated"  # the creation failed: an organisation policy forbids it
    POOL_STOPPING = "pool_stopping"  # GKE deletes the node pool
    POOL_STUCK = "pool_stuck"  # the creation takes longer than creation_seconds_max
    STATUS_UNKNOWN = "status_unknown"  # GKE reports a status that this version does not know
    FOREIGN_LABELS = "foreign_labels"  # the node pool belongs to something else

    # provision: there is no demand
    DEMAND_GONE = "demand_gone"  # the pod no longer exists, has ended or is being deleted
    DEMAND_SCHEDULED = "demand_scheduled"  # the pod has a node
    DEMAND_NOT_UNSCHEDULABLE = (
        "demand_not_unschedulable"  # the scheduler does not report the pod as Unschedulable
    )
    DEMAND_NOMINATED = "demand_nominated"  # the scheduler is about to place the pod on a node
    DEMAND_BOUND_ELSEWHERE = "demand_bound_elsewhere"  # the pod selects a node pool by its name
    DEMAND_OPTED_OUT = "demand_opted_out"  # a label or annotation opts out of this provisioner
    DEMAND_LEFT_TO_GKE = "demand_left_to_gke"  # GKE or another controller provides the nodes
    NOT_A_LEADER = "not_a_leader"  # another pod is the leader of this slice
    NOT_AN_ACCELERATOR_DEMAND = "not_an_accelerator_demand"  # the pod needs no TPU and no GPU
    IDENTITY_MISMATCH = "identity_mismatch"  # the workload has no slice for this pod
    KIND_NOT_SERVED = "kind_not_served"  # the setting kinds does not list this kind

    # the demand is refused
    SHAPE_UNSUPPORTED = "shape_unsupported"  # no machine or topology fits the request
    GPU_UNKNOWN = "gpu_unknown"  # the GPU type is missing or unknown
    SLICE_UNKNOWN = "slice_unknown"  # it is not clear which slice the pod belongs to
    POD_CONTRADICTS_SPEC = (
        "pod_contradicts_spec"  # the pod differs from the pod template of its workload
    )
    OWNER_KIND_UNKNOWN = "owner_kind_unknown"  # the controller of the pod is not a supported kind
    SLICES_MAY_MIX = "slices_may_mix"  # nothing keeps the pods of two slices on separate pools
    HOSTS_DIFFER = (
        "hosts_differ"  # the workload creates more or fewer pods than the slice has hosts
    )
    SELECTOR_UNSUPPORTED = (
        "selector_unsupported"  # no node of this provisioner can match the selector
    )
    CAPACITY_CONFLICT = "capacity_conflict"  # GKE does not offer this combination of capacity
    REQUEST_NOT_ALLOWED = "request_not_allowed"  # a setting of the operator does not allow it
    LABELS_OVER_BUDGET = "labels_over_budget"  # GKE does not accept node labels this long
    NAME_UNFIT = "name_unfit"  # a name is too long for the node labels that name the workload
    ZONE_MISSING = "zone_missing"  # neither the pod nor the settings name a zone
    MODE_NO_CREATE = "mode_no_create"  # the mode is no-create
    MODE_REPORT_ONLY = "mode_report_only"  # the mode is report-only
    MODE_UNKNOWN = "mode_unknown"  # the label that sets the mode of the cluster is not understood
    LIMIT_REACHED = "limit_reached"  # a limit of the operator is reached
    LIMIT_PASSED = "limit_passed"  # the node pools have more chips than a limit allows
    SLICE_DOUBLED = "slice_doubled"  # the slice already runs; this pod is one too many

    # collect: the owner's state
    OWNER_LIVE = "owner_live"  # the workload is live
    OWNER_GONE = "owner_gone"  # the workload, or this slice of it, no longer exists
    POOL_SURPLUS = "pool_surplus"  # the workload is live and runs on its other node pools or nodes
    CLUSTER_UNPROVEN = (
        "cluster_unproven"  # nothing proves that the API that was read is this cluster's
    )
    OWNER_UNKNOWN = "owner_unknown"  # the workload could not be read
    PARENT_OVER = "parent_over"  # the parent has ended but keeps the workload
    WORKLOAD_OVER = "workload_over"  # the workload completed or failed
    WORKLOAD_SUSPENDED = "workload_suspended"  # the workload is suspended
    GRACE_NOT_OVER = "grace_not_over"  # suspended for less than grace_seconds
    PODS_STILL_BOUND = "pods_still_bound"  # pods of the workload are still terminating
    POOL_IN_USE = "pool_in_use"  # other accelerator pods run on the node pool
    POOL_WARM = "pool_warm"  # the workload is over, and the node pool stays idle for the next one
    POOL_LENT = "pool_lent"  # the workload is over, and others may use the node pool and do
    POOL_GONE = "pool_gone"  # there is no node pool
    DELETIONS_OVER_CAP = "deletions_over_cap"  # more than deletions_per_minute_max are due

    # a suspended workload that waits for its capacity
    GANG_INCOMPLETE = (
        "gang_incomplete"  # not all slices got their node pools in time, so all of them are deleted
    )

    # the plan
    CLAIM_UNBOUND = "claim_unbound"  # a volume claim of the pod is missing or not bound yet
    RESOURCE_UNKNOWN = "resource_unknown"  # no new node has a resource that the pod asks for
    PAUSED = "paused"  # every way was tried; the next try comes after a pause
    POOL_USELESS = (
        "pool_useless"  # three node pools in a row helped no pod, so no further one is created
    )
    POOL_GOES_FIRST = "pool_goes_first"  # the next node pool needs what a failed one still holds
    STOPPED = "stopped"  # a label of a namespace stops this act
    NO_OPERATION_SLOT = "no_operation_slot"  # GKE runs as many operations as it allows
    SLICE_MIXED = "slice_mixed"  # the pods of one slice run on two node pools
    FOLLOWERS_WAIT = "followers_wait"  # a slice runs in part on node pools that are not its owner's
    HOST_LOST = "host_lost"  # GKE has lost a host of the slice
    CHECK_READY = "check_ready"  # Kueue's check: every slice has its node pool
    CHECK_RETRY = "check_retry"  # Kueue's check: not every slice got its node pool in time
    CHECK_REJECTED = "check_rejected"  # Kueue's check: the workload can never be served

    # messages
    EVENT_MALFORMED = "event_malformed"  # the message cannot be read
    ENTRY_NOT_OURS = (
        "entry_not_ours"  # the audit log entry is about nothing that this deployment made
    )
    CLUSTER_UNKNOWN = "cluster_unknown"  # the message names a cluster that is not in the settings

    # what GKE or the cluster answered
    UNAVAILABLE = "unavailable"  # GKE or the cluster failed or did not answer
    THROTTLED = "throttled"  # too many requests; tried again later
    GKE_BUSY = "gke_busy"  # another operation of GKE is in progress
    VIEW_STALE = "view_stale"  # two answers of GKE contradict each other
    OUT_OF_TIME = "out_of_time"  # the time of the function is over before the work was done
    QUOTA_EXCEEDED = "quota_exceeded"  # the quota of the project is used up
    PERMISSION_DENIED = "permission_denied"  # the service account lacks a permission
    REQUEST_INVALID = "request_invalid"  # GKE does not accept the request
    CLUSTER_NOT_FOUND = "cluster_not_found"  # GKE does not know this cluster
    INTERNAL_ERROR = "internal_error"  # an error in this provisioner


@dataclass(frozen=True, slots=True)
class Decision:
    """One verdict with its reason, and a sentence for the owner of the workload."""

    verdict: Verdict
    reason: Reason
    message: str


class EventReason(StrEnum):
    """Reasons of Kubernetes Events. The first four are those of the Go TPU Provisioner."""

    CREATION_STARTED = "NodePoolCreationStarted"
    CREATION_SUCCEEDED = "NodePoolCreationSucceeded"
    CREATION_FAILED = "NodePoolCreationFailed"
    DELETION_STARTED = "NodePoolDeletionStarted"
    RESIZE_STARTED = "NodePoolResizeStarted"
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
"""The Event on the workload and its leader pod; NOTHING writes none."""

WARNING_VERDICTS = frozenset({Verdict.REFUSE})
FAILURE_REASONS = frozenset(
    {
        Reason.POOL_FAILED,
        Reason.POOL_STUCK,
        Reason.QUOTA_EXCEEDED,
        Reason.REQUEST_INVALID,
        Reason.STOCKOUT,
        Reason.RESERVATION_UNFIT,
        Reason.ADDRESSES_EXHAUSTED,
        Reason.ZONE_UNFIT,
        Reason.POLICY_VIOLATED,
    }
)
"""With these the Event is ``NodePoolCreationFailed`` for every verdict."""
LACKING_REASONS = FAILURE_REASONS | frozenset(
    {
        Reason.POOL_ABSENT,
        Reason.POOL_IN_PROGRESS,
        Reason.POOL_IN_PROGRESS_DIFFERS,
        Reason.POOL_GROWS,
        Reason.POOL_STOPPING,
        Reason.POOL_DEGRADED,
        Reason.PERMISSION_DENIED,
        Reason.GKE_BUSY,
        Reason.DELETIONS_OVER_CAP,
    }
)
"""A leader that is answered with one of them has no running pool, and waits for GKE."""
IDLE_REASONS = frozenset(
    {
        Reason.POOL_SERVES,
        Reason.POD_UNPLACED,
        Reason.GRACE_NOT_OVER,
        Reason.PARENT_OVER,
        Reason.POOL_WARM,
        *(Reason.MODE_REPORT_ONLY, Reason.MODE_UNKNOWN),
        Reason.DELETIONS_OVER_CAP,
        Reason.GKE_BUSY,
    }
)
"""The leader waits beside its running pool (the first two), or the pool's workload is over."""
EVENTS_OF_REASONS = {
    **dict.fromkeys(FAILURE_REASONS, EventReason.CREATION_FAILED),
    Reason.POOL_CREATED: EventReason.CREATION_SUCCEEDED,
}
"""The Event of a reason that has one of its own, for every verdict."""


def find_event_reason(decision: Decision) -> EventReason | None:
    """Return the reason of the Kubernetes Event for a decision, or None when none is written."""
    return EVENTS_OF_REASONS.get(decision.reason, EVENT_REASONS.get(decision.verdict))


def is_warning(decision: Decision) -> bool:
    """Return whether the Event of a decision is a Warning."""
    return decision.verdict in WARNING_VERDICTS or decision.reason in FAILURE_REASONS
