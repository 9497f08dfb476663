"""The closed sets of verdicts and reasons. `docs/runbook.md` has one heading per reason."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Verdict(StrEnum):
    """What to do about one slice or pool."""

    CREATE = "create"  # create a node pool
    RESIZE = "resize"  # bound an elastic pool to more or fewer nodes
    DELETE = "delete"  # delete the pool, after one more look
    WAIT = "wait"  # something is in progress; a later look decides again
    KEEP = "keep"  # leave the pool as it is
    REFUSE = "refuse"  # create nothing for this demand; an Event tells its owner why
    NOTHING = "nothing"  # there is nothing to do


class Reason(StrEnum):
    """Why. A released value never changes, because dashboards and the runbook use it."""

    # what a demand gets
    POOL_ABSENT = "pool_absent"  # a slice has no node pool, so one is created
    POOL_IN_PROGRESS = "pool_in_progress"  # GKE creates or repairs the node pool
    POOL_CREATED = "pool_created"  # GKE has created the node pool
    POOL_GROWS = "pool_grows"  # GKE's autoscaler may give the elastic node pool more nodes
    CLAIM_UNBOUND = "claim_unbound"  # a volume claim of the pods is missing or not bound yet
    LIMIT_REACHED = "limit_reached"  # a limit of the operator leaves no room
    NO_OPERATION_SLOT = "no_operation_slot"  # GKE runs as many operations as it allows
    PAUSED = "paused"  # every way was tried; the next try comes after a pause
    POOL_GOES_FIRST = "pool_goes_first"  # the next node pool needs what a failed one still holds
    POOL_USELESS = "pool_useless"  # node pools helped no pod, so no further one is created
    STOPPED = "stopped"  # the label of a namespace stops this act

    # what a person should know of slices and pools
    SLICE_MIXED = "slice_mixed"  # the pods of one slice run on two node pools
    SLICE_DOUBLED = "slice_doubled"  # more slices have pods than the workload may have
    POOL_TAKEN = "pool_taken"  # only pods of other workloads use a node pool
    FOLLOWERS_WAIT = "followers_wait"  # a slice runs in part on node pools of others
    HOST_LOST = "host_lost"  # GKE has lost a host of a slice
    POD_UNPLACED = "pod_unplaced"  # a node pool runs, and the scheduler places no pod on it
    LIMIT_PASSED = "limit_passed"  # the node pools have more chips than a limit allows

    # why a creation failed
    POOL_FAILED = "pool_failed"  # for no cause that has a reason of its own
    STOCKOUT = "stockout"  # GKE has no capacity
    QUOTA_EXCEEDED = "quota_exceeded"  # the quota of the project is used up
    RESERVATION_UNFIT = "reservation_unfit"  # the reservation is missing, used up or does not fit
    ADDRESSES_EXHAUSTED = "addresses_exhausted"  # no free IP addresses
    ZONE_UNFIT = "zone_unfit"  # the zone does not offer the machine
    POLICY_VIOLATED = "policy_violated"  # an organisation policy forbids it
    REQUEST_INVALID = "request_invalid"  # GKE does not accept the request
    PERMISSION_DENIED = "permission_denied"  # the service account lacks a permission

    # there is no demand
    DEMAND_BOUND_ELSEWHERE = "demand_bound_elsewhere"  # the pod selects a node pool by its name
    DEMAND_OPTED_OUT = "demand_opted_out"  # a label or annotation opts out of this provisioner
    DEMAND_LEFT_TO_GKE = "demand_left_to_gke"  # GKE or another controller provides the nodes
    IDENTITY_MISMATCH = "identity_mismatch"  # the workload has no slice for this pod
    KIND_NOT_SERVED = "kind_not_served"  # the setting kinds does not list this kind

    # the demand is refused
    SHAPE_UNSUPPORTED = "shape_unsupported"  # no machine or topology fits the request
    RESOURCE_UNKNOWN = "resource_unknown"  # no new node has a resource that the pod asks for
    GPU_UNKNOWN = "gpu_unknown"  # the GPU type is missing or unknown
    SLICE_UNKNOWN = "slice_unknown"  # it is not clear which slice the pod belongs to
    POD_CONTRADICTS_SPEC = "pod_contradicts_spec"  # the pod differs from its workload's template
    OWNER_KIND_UNKNOWN = "owner_kind_unknown"  # the pod's controller is of no supported kind
    SLICES_MAY_MIX = "slices_may_mix"  # nothing keeps the pods of two slices on separate pools
    HOSTS_DIFFER = "hosts_differ"  # the workload creates more or fewer pods than a slice has hosts
    SELECTOR_UNSUPPORTED = "selector_unsupported"  # no node of ours can match the selector
    CAPACITY_CONFLICT = "capacity_conflict"  # GKE does not offer this combination of capacity
    REQUEST_NOT_ALLOWED = "request_not_allowed"  # a setting of the operator does not allow it
    NAME_UNFIT = "name_unfit"  # a name is too long for the node labels that name the workload
    MANIFEST_INVALID = "manifest_invalid"  # Kubernetes refuses the workload itself
    ZONE_MISSING = "zone_missing"  # neither the pod nor the settings name a zone

    # what becomes of a pool
    OWNER_GONE = "owner_gone"  # the workload no longer exists
    WORKLOAD_OVER = "workload_over"  # the workload completed or failed
    WORKLOAD_SUSPENDED = "workload_suspended"  # the workload is suspended
    POOL_SURPLUS = "pool_surplus"  # the workload is live and does not need the node pool
    POOL_SHRINKS = "pool_shrinks"  # GKE's autoscaler may give the node pool fewer nodes
    POOL_WARM = "pool_warm"  # the workload is over, and the node pool stays for the next one
    PARENT_OVER = "parent_over"  # the parent has ended but keeps the workload
    CLUSTER_UNPROVEN = "cluster_unproven"  # nothing proves that the API is this cluster's
    DELETIONS_OVER_CAP = "deletions_over_cap"  # more would go than deletions_per_minute_max

    # what Kueue's check is told
    CHECK_READY = "check_ready"  # every slice has its node pool
    CHECK_RETRY = "check_retry"  # not every slice got its node pool in time
    CHECK_REJECTED = "check_rejected"  # the workload can never be served

    # messages
    EVENT_MALFORMED = "event_malformed"  # the message cannot be read
    CLUSTER_UNKNOWN = "cluster_unknown"  # the message names a cluster that is not in the settings

    # what GKE or the cluster answered
    UNAVAILABLE = "unavailable"  # GKE or the cluster failed or did not answer
    THROTTLED = "throttled"  # too many requests; tried again later
    GKE_BUSY = "gke_busy"  # another operation of GKE is in progress
    OWNER_UNKNOWN = "owner_unknown"  # the workload could not be read
    VIEW_STALE = "view_stale"  # two answers of GKE contradict each other
    OUT_OF_TIME = "out_of_time"  # the time of the function is over before the work was done
    CLUSTER_NOT_FOUND = "cluster_not_found"  # GKE does not know this cluster
    INTERNAL_ERROR = "internal_error"  # an error in this provisioner


class Decision(Struct, frozen=True):
    """One verdict with its reason, and a sentence for the owner of the workload."""

    verdict: Verdict
    reason: Reason
    message: str


EVENTS = {
    Verdict.CREATE: "NodePoolCreationStarted",
    Verdict.RESIZE: "NodePoolResizeStarted",
    Verdict.DELETE: "NodePoolDeletionStarted",
    Verdict.WAIT: "NodePoolPending",
    Verdict.KEEP: "NodePoolKept",
    Verdict.REFUSE: "NodePoolRefused",
}
"""Reasons of Kubernetes Events. Those about creation and deletion are the Go TPU Provisioner's."""
CREATED, FAILED = "NodePoolCreationSucceeded", "NodePoolCreationFailed"
_MIXING = frozenset({Reason.SLICES_MAY_MIX, Reason.SLICE_MIXED})
FAILURE_REASONS = frozenset(
    {
        *(Reason.POOL_FAILED, Reason.QUOTA_EXCEEDED, Reason.REQUEST_INVALID, Reason.STOCKOUT),
        *(Reason.RESERVATION_UNFIT, Reason.ADDRESSES_EXHAUSTED, Reason.ZONE_UNFIT),
        Reason.POLICY_VIOLATED,
    }
)
"""Why a creation failed, whatever the verdict is."""


def find_event(decision: Decision) -> tuple[str, bool] | None:
    """Return the reason of the Event for a decision, and whether it warns; None for NOTHING."""
    reason, failed = EVENTS.get(decision.verdict), decision.reason in FAILURE_REASONS
    if failed or decision.reason == Reason.POOL_CREATED:
        reason = FAILED if failed else CREATED
    warns = failed or decision.verdict == Verdict.REFUSE or decision.reason in _MIXING
    return None if reason is None else (reason, warns)
