"""Turns a live pod, or a slice of the spec, into one `Demand`, or into the reason why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.kinds.elastic import find_slice, is_leader, merge_requests
from shared.kinds.table import find_kind_of_pod, get_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected
from shared.model.pools import PoolStatus
from shared.needs.demand import Demand, build_demand, claim_slice
from shared.needs.dynamic_slices import find_dynamic_slice
from shared.needs.spec_agreement import check_pod, check_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.kinds.kind import Kind, SliceOfPod
    from shared.model.names import SliceClaim
    from shared.model.pools import PoolSnapshot
    from shared.model.workloads import PodTemplate, PodView, WorkloadView
    from shared.settings import Settings

Row = tuple[bool, Reason, str]
_DYNAMIC = (
    "{0} leaves the slice to GKE's dynamic slicing, which forms it from node pools that an operator creates; "
    f"for a node pool of its own, remove {{0}} and select {labels.TOPOLOGY}"
)
_MADE = (PoolStatus.RUNNING, PoolStatus.RECONCILING)


def decide_demand(
    cluster: str,
    pod: PodView,
    workload: WorkloadView | None,
    settings: Settings,
    *,
    leads: bool = False,
) -> Demand | Decision:
    """Return the demand of a leader pod, or the decision why it has none or why it is refused.

    The pod and its workload are as they are now; the workload is None if there is none. Its spec
    decides what the slice is, and the pod may only add to it. If it `leads`, no leader is needed.
    """
    kind = find_kind_of_pod(pod)
    stopped = (
        _find_first(_list_pod_obstacles(pod, None if leads else kind))
        or _find_first(_list_kind_obstacles(kind, settings))
        or _decide_owner(kind, workload, pod=pod)
    )
    if stopped:
        return stopped
    if workload is None or kind is None:  # the rows above cover this; it is for the type checker
        return _nothing(Reason.OWNER_GONE, "the workload no longer exists")
    spec = kind.find_template(pod, workload)
    try:
        if spec is not None:
            check_pod(pod.template, spec, workload, settings)
        found = find_slice(kind, pod, workload)
        if found is not None and not found.group.elastic:
            kind.check_index(pod, workload)
    except Rejected as error:
        return refuse_rejected(error)
    if found is None or spec is None:
        return _nothing(
            Reason.IDENTITY_MISMATCH,
            f"{workload.kind} {workload.name} has no slice for this pod, "
            f"whose controller is {pod.controller_kind or 'none'} {pod.controller_name}".rstrip(),
        )
    template = (
        merge_requests(pod.template, found.group.template) if found.group.elastic else pod.template
    )
    try:
        demand = build_demand(cluster, workload, found, template, settings)
        check_size(demand.shape, found, template, spec, workload, settings.room)
    except Rejected as error:
        return refuse_rejected(error)
    return demand


def decide_planned_demand(
    cluster: str, workload: WorkloadView, of_spec: SliceOfPod, settings: Settings
) -> Demand | Decision:
    """Return the demand that a slice's leader will have when it exists, or why it will have none.

    The slice is one of those that `Kind.list_slices` returns.
    """
    kind, template = get_kind(workload.kind), of_spec.group.template
    stopped = (
        _find_first(_list_template_obstacles(template))
        or _find_first(_list_kind_obstacles(kind, settings))
        or _decide_owner(kind, workload, pod=None)
    )
    if stopped:
        return stopped
    try:
        return build_demand(cluster, workload, of_spec, template, settings)
    except Rejected as error:
        return refuse_rejected(error)


def decide_namespace(demand: Demand, namespace_labels: Mapping[str, str]) -> Decision | None:
    """Return why no pool is created for a demand's namespace; None when a pool may be created.

    The label that opts one pod out also opts out a whole namespace. Its value ``gpu`` opts out only
    the pods that request GPUs.
    """
    value = namespace_labels.get(labels.DISABLE_AUTOPROVISIONING, "")
    label = (
        f"the label {labels.DISABLE_AUTOPROVISIONING}={value} of namespace {demand.claim.namespace}"
    )
    if value == "true" or (value == "gpu" and demand.shape.gpus):
        return _nothing(
            Reason.DEMAND_OPTED_OUT, f"{label} opts out of node pools from this provisioner"
        )
    if value in ("", "false", "gpu"):
        return None
    return _refuse(
        Reason.REQUEST_NOT_ALLOWED, f"{label} has an unknown value; valid: true, gpu, false"
    )


def decide_absent_pod(pod: str) -> Decision:
    """Return the decision for a message about a pod that no longer exists."""
    return _nothing(Reason.DEMAND_GONE, f"{pod} no longer exists")


def decide_no_leader(workload: str) -> Decision:
    """Return the decision for a message about a workload that is gone, or needs nothing now."""
    return _nothing(
        Reason.DEMAND_GONE, f"no leader pod of {workload} waits for nodes, or for its capacity"
    )


def decide_answered_slice() -> Decision:
    """Return the decision for one more leader of a slice that was handled a moment ago."""
    return _nothing(Reason.NOT_A_LEADER, "this slice was already handled for another of its pods")


def refuse_rejected(error: Rejected) -> Decision:
    """Return the refusal of a demand; the error carries the reason and the text."""
    return _refuse(Reason(error.reason), str(error))


def find_slice_name(pod: PodView, workload: WorkloadView | None) -> str:
    """Return the name of a pod's slice; else the name of its controller, else that of the pod."""
    kind = find_kind_of_pod(pod)
    try:
        found = (
            find_slice(kind, pod, workload)
            if kind and workload and workload.kind == kind.name
            else None
        )
    except Rejected:
        return pod.name
    return found.name if found else pod.controller_name or pod.name


def find_claim(cluster: str, pod: PodView, workload: WorkloadView | None) -> SliceClaim | None:
    """Return the claim of the slice of any pod of a workload; None if the slice is not clear."""
    kind = find_kind_of_pod(pod)
    if kind is None or workload is None or kind.find_owner_uid(pod) not in ("", workload.uid):
        return None
    try:
        found = find_slice(kind, pod, workload)
    except Rejected:
        return None
    return claim_slice(cluster, workload, found) if found else None


def find_demand(
    cluster: str, pod: PodView, workload: WorkloadView, settings: Settings
) -> Demand | None:
    """Return the demand of the slice of any pod of a workload; None if unclear or refused."""
    kind = find_kind_of_pod(pod)
    try:
        found = find_slice(kind, pod, workload) if kind else None
    except Rejected:
        return None
    planned = decide_planned_demand(cluster, workload, found, settings) if found else None
    return planned if isinstance(planned, Demand) else None


def _list_pod_obstacles(pod: PodView, kind: Kind | None) -> tuple[Row, ...]:
    """Return the reasons why a pod may have no demand, the most certain first."""
    return (
        (pod.deleting or pod.finished, Reason.DEMAND_GONE, "the pod has ended or is being deleted"),
        (bool(pod.node_name), Reason.DEMAND_SCHEDULED, f"the pod is bound to node {pod.node_name}"),
        *_list_template_obstacles(pod.template),
        (
            kind is not None and not is_leader(kind, pod),
            Reason.NOT_A_LEADER,
            f"this pod is not the leader of its slice; the leader is {kind.leader_rule if kind else ''}",
        ),
        (
            bool(pod.nominated_node),
            Reason.DEMAND_NOMINATED,
            f"the scheduler is about to place the pod on {pod.nominated_node}",
        ),
        (
            bool(pod.gates) or not pod.unschedulable,
            Reason.DEMAND_NOT_UNSCHEDULABLE,
            f"the scheduling gate {' and '.join(pod.gates)} holds the pod; what set the gate must remove it"
            if pod.gates
            else "the scheduler does not report the pod as Unschedulable",
        ),
    )


def _list_template_obstacles(template: PodTemplate) -> tuple[Row, ...]:
    opted_out = "true" in (
        template.labels.get(labels.DISABLE_AUTOPROVISIONING),
        template.annotations.get(labels.DISABLE_AUTOPROVISIONING),
    )
    left_to_gke = (
        template.selects(labels.COMPUTE_CLASS)
        or template.selects(labels.PROVISIONING_REQUEST)
        or any(key in template.annotations for key in labels.PROVISIONING_REQUESTS)
    )
    dynamic = find_dynamic_slice(template)
    return (
        (
            not template.wants_accelerator,
            Reason.NOT_AN_ACCELERATOR_DEMAND,
            "the pod neither selects nor requests accelerators",
        ),
        (
            opted_out,
            Reason.DEMAND_OPTED_OUT,
            f"the pod's label or annotation {labels.DISABLE_AUTOPROVISIONING}=true opts out",
        ),
        (
            left_to_gke,
            Reason.DEMAND_LEFT_TO_GKE,
            "the pod uses a ComputeClass or a ProvisioningRequest; GKE provides its nodes itself",
        ),
        (bool(dynamic), Reason.DEMAND_LEFT_TO_GKE, _DYNAMIC.format(dynamic)),
        (
            template.selects(labels.NODE_POOL),
            Reason.DEMAND_BOUND_ELSEWHERE,
            f"the pod selects a node pool by its name; remove the selector {labels.NODE_POOL} to get a new one",
        ),
    )


def _list_kind_obstacles(kind: Kind | None, settings: Settings) -> tuple[Row, ...]:
    served = kind is None or kind.name in settings.kinds
    return (
        (
            kind is None,
            Reason.OWNER_KIND_UNKNOWN,
            "DaemonSet and static pods are not provisioned for",
        ),
        (
            not served,
            Reason.KIND_NOT_SERVED,
            f"the setting kinds does not list {kind.name if kind else ''}",
        ),
    )


def _decide_owner(
    kind: Kind | None, workload: WorkloadView | None, *, pod: PodView | None
) -> Decision | None:
    name = kind.name if kind else "workload"
    if workload is None:
        return _refuse(
            Reason.OWNER_GONE, f"its {name} no longer exists; delete this pod if it stays"
        )
    uid = kind.find_owner_uid(pod) if kind and pod else ""
    if uid not in ("", workload.uid):
        return _refuse(
            Reason.OWNER_GONE,
            f"the pod belongs to an earlier {name} {workload.name} (uid {uid}), which no longer exists; "
            "delete this pod if it stays",
        )
    if workload.part_of:
        return _refuse(
            Reason.OWNER_KIND_UNKNOWN,
            f"the {name} is part of {workload.part_of}, which is not a supported kind of workload; valid: "
            f"a {name} without controller, or one that a supported kind creates",
        )
    return _find_first(
        (
            (workload.deleting, Reason.OWNER_GONE, f"its {name} is being deleted"),
            (
                bool(workload.terminal),
                Reason.WORKLOAD_OVER,
                f"its {name} has ended: {workload.terminal}",
            ),
            (
                workload.marks.get(labels.DISABLE_AUTOPROVISIONING) == "true",
                Reason.DEMAND_OPTED_OUT,
                f"the label or annotation {labels.DISABLE_AUTOPROVISIONING}=true of its {name} opts out",
            ),
            (workload.suspended, Reason.WORKLOAD_SUSPENDED, f"its {name} is suspended"),
            (
                workload.managed_elsewhere,
                Reason.DEMAND_LEFT_TO_GKE,
                f"another controller manages its {name} (spec.managedBy)",
            ),
        )
    )


def _find_first(rows: tuple[Row, ...]) -> Decision | None:
    return next((_nothing(reason, message) for holds, reason, message in rows if holds), None)


def _refuse(reason: Reason, message: str) -> Decision:
    return Decision(Verdict.REFUSE, reason, message)


def _nothing(reason: Reason, message: str) -> Decision:
    return Decision(Verdict.NOTHING, reason, message)


def decide_succeeded(pool: PoolSnapshot | None) -> Decision | None:
    """Return what to tell the owner of a pool whose creation is said to have succeeded.

    It is None when the pool, as it is now, does not bear that out: then the leader that waits for
    it is answered, as after any other end.
    """
    if pool is None or pool.owner is None or pool.status not in _MADE:
        return None
    nodes = (
        f"; its autoscaler adds {pool.node_count} nodes when there is capacity"
        if pool.autoscaled
        else ""
    )
    return Decision(
        Verdict.KEEP, Reason.POOL_CREATED, f"GKE has created node pool {pool.name}{nodes}"
    )


def decide_left(pool_name: str) -> Decision:
    """Return the decision about a slice without a pool: only the sweep reads what GKE created."""
    message = f"node pool {pool_name} does not exist; the next sweep creates it, or waits if its creation failed"
    return Decision(Verdict.WAIT, Reason.POOL_GONE, message)


def decide_unrelated(what: str) -> Decision:
    """Return the decision about an entry of the log that concerns no pool of this deployment."""
    return Decision(Verdict.NOTHING, Reason.ENTRY_NOT_OURS, f"{what}; nothing was looked up")


def decide_unclaimed(pool_name: str) -> Decision:
    """Return the decision when no leader pod waits for the pool whose operation has ended."""
    return Decision(
        Verdict.NOTHING, Reason.DEMAND_GONE, f"no leader pod waits for node pool {pool_name}"
    )
