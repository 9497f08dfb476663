"""From a live leader pod and its live workload to one demand, or to the reason why there is none.

Nothing is believed that a pod's author could have forged: the slice is one that the workload's own spec contains;
free text is honoured only within the operator's allow-lists. How a kind tells its slices stands in its entry.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.capacity import Capacity, read_capacity
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.elastic import find_slice, speaks
from shared.core.errors import NotAllowed, Rejected
from shared.core.kinds.table import find_kind_of_pod, get_kind
from shared.core.names import Claim
from shared.core.selectors import read_node_labels, read_operator_labels, read_zone
from shared.core.settings import Settings, is_allowed
from shared.core.wanted_shapes import find_wanted_shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.core.kinds.kind import Kind, SliceOfPod
    from shared.core.shapes import Shape
    from shared.core.workloads import PodTemplate, PodView, WorkloadView

FINGERPRINT_VERSION = "1"
_FINGERPRINT_CHARACTERS = 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one slice asks for, resolved: everything the pool's builder needs and nothing else."""

    claim: Claim
    shape: Shape
    capacity: Capacity
    zone: str
    node_labels: dict[str, str]
    """Labels that the pods select on or ask to be copied; never an owner label."""
    operator_labels: dict[str, str]
    """Labels that the operator's setting copies from the pods; no part of the fingerprint."""
    networks: tuple[str, ...]
    """``network:subnetwork`` pairs."""
    node_service_account: str
    elastic: bool = False
    """The pool serves all pods of one shape, and the shape's node count is what they need now: it changes."""
    pinned: bool
    """The workload's kind pins the pods to nodes of their slice: the pool carries its label and taint."""

    @property
    def fingerprint(self) -> str:
        """Return a versioned hash of what the workload asked for; the operator's settings are not part of it.

        A new default of the operator must never make a healthy pool look different.
        """
        asked = (
            self.shape.machine_type,
            self.shape.topology,
            "elastic" if self.elastic else str(self.shape.node_count),
            str(self.capacity.tier),
            self.capacity.reservation_path,
            str(self.pinned),
            *(f"{key}={value}" for key, value in sorted(self.node_labels.items())),
        )
        if self.shape.gpus:
            asked += (self.shape.accelerator, str(self.shape.gpus))
        digest = hashlib.sha256("\n".join(asked).encode()).digest()
        text = base64.b32encode(digest).decode().lower()[:_FINGERPRINT_CHARACTERS]
        return f"{FINGERPRINT_VERSION}-{text}"


def read_demand(
    cluster: str, pod: PodView, workload: WorkloadView | None, settings: Settings
) -> Demand | Decision:
    """Return the demand of a leader pod, or the decision that there is none or that it is refused.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pod: the pod as it is now.
        workload: its workload as it is now; None when there is none of that name.
        settings: the operator's settings.
    """
    kind = find_kind_of_pod(pod)
    stopped = _find_pod_obstacle(pod, kind) or _find_kind_obstacle(kind, settings)
    stopped = stopped or _find_owner_obstacle(kind, workload, pod=pod)
    if stopped:
        return stopped
    if workload is None or kind is None:  # the obstacles above already said so; this tells the type checker
        return _nothing(Reason.OWNER_GONE, "the workload is gone")
    try:
        found = find_slice(kind, pod, workload)
    except Rejected as error:
        return Decision(Verdict.REFUSE, Reason(error.reason), str(error))
    if found is None:
        return _nothing(
            Reason.IDENTITY_MISMATCH,
            f"the pod is controlled by {pod.controller_kind or 'nothing'} {pod.controller_name}, "
            f"which is no slice of {workload.kind} {workload.name}",
        )
    return _resolve(cluster, workload, found, pod.template, settings)


def read_planned_demand(
    cluster: str, workload: WorkloadView, of_spec: SliceOfPod, settings: Settings
) -> Demand | Decision:
    """Return the demand that a slice's leader will have once there is one; arguments as for `read_demand`.

    Args:
        cluster: see there.
        workload: see there.
        of_spec: one of the slices that `Kind.list_slices` returns.
        settings: see there.
    """
    kind, template = get_kind(workload.kind), of_spec.group.template
    stopped = _find_template_obstacle(template) or _find_kind_obstacle(kind, settings)
    stopped = stopped or _find_owner_obstacle(kind, workload, pod=None)
    return stopped or _resolve(cluster, workload, of_spec, template, settings)


def find_slice_name(pod: PodView, workload: WorkloadView | None) -> str:
    """Return the name of a pod's slice for people; the pod's controller, or the pod itself, when it has none."""
    kind = find_kind_of_pod(pod)
    try:
        found = find_slice(kind, pod, workload) if kind and workload and workload.kind == kind.name else None
    except Rejected:
        return pod.name
    return found.name if found else pod.controller_name or pod.name


def claim_slice(cluster: str, workload: WorkloadView, found: SliceOfPod) -> Claim:
    """Return the claim of one slice of a live workload."""
    return Claim(
        cluster=cluster,
        kind=workload.kind,
        namespace=workload.namespace,
        name=workload.name,
        owner_uid=workload.uid,
        slice_key=f"{workload.namespace}/{found.name}",
    )


def _resolve(
    cluster: str, workload: WorkloadView, found: SliceOfPod, template: PodTemplate, settings: Settings
) -> Demand | Decision:
    claim = claim_slice(cluster, workload, found)
    try:
        return _build_demand(claim, workload, found, template, settings)
    except Rejected as error:
        return Decision(Verdict.REFUSE, Reason(error.reason), str(error))


def _build_demand(
    claim: Claim, workload: WorkloadView, found: SliceOfPod, template: PodTemplate, settings: Settings
) -> Demand:
    _check_allowed(claim.namespace, template, settings)
    shape = find_wanted_shape(found, template, workload)
    capacity = read_capacity(template, shape, settings)
    pins = _read_pins(claim, found)
    return Demand(
        claim=claim,
        shape=shape,
        capacity=capacity,
        zone=read_zone(template, claim.cluster, settings),
        node_labels=read_node_labels(template, shape, capacity, settings, pins=pins),
        operator_labels=read_operator_labels(template, settings),
        networks=_read_networks(template, settings),
        node_service_account=_read_service_account(template, settings),
        elastic=found.group.elastic,
        pinned=found.group.pinned,
    )


def _find_pod_obstacle(pod: PodView, kind: Kind | None) -> Decision | None:
    """Return why a pod is no demand as it stands; the order is from the surest to the most particular."""
    return (
        _find_first(
            (pod.deleting or pod.finished, Reason.DEMAND_GONE, "the pod is ending"),
            (bool(pod.node_name), Reason.DEMAND_SCHEDULED, f"the pod is bound to node {pod.node_name}"),
        )
        or _find_template_obstacle(pod.template)
        or _find_first(
            (
                kind is not None and not speaks(kind, pod),
                Reason.NOT_A_LEADER,
                f"only {kind.speaks_rule if kind else ''}",
            ),
            (
                bool(pod.nominated_node),
                Reason.DEMAND_NOMINATED,
                f"the scheduler is about to place the pod on {pod.nominated_node}",
            ),
            (
                pod.gated or not pod.unschedulable,
                Reason.DEMAND_NOT_UNSCHEDULABLE,
                "the scheduler has not said Unschedulable",
            ),
        )
    )


def _find_template_obstacle(template: PodTemplate) -> Decision | None:
    opted_out = "true" in (
        template.labels.get(labels.DISABLE_AUTOPROVISIONING),
        template.annotations.get(labels.DISABLE_AUTOPROVISIONING),
    )
    left_to_gke = (
        template.selects(labels.COMPUTE_CLASS)
        or template.selects(labels.PROVISIONING_REQUEST)
        or any(key in template.annotations for key in labels.PROVISIONING_REQUESTS)
    )
    return _find_first(
        (
            not template.wants_accelerator,
            Reason.NOT_AN_ACCELERATOR_DEMAND,
            "the pod neither selects nor requests accelerators",
        ),
        (opted_out, Reason.DEMAND_OPTED_OUT, f"the pod carries {labels.DISABLE_AUTOPROVISIONING}"),
        (left_to_gke, Reason.DEMAND_LEFT_TO_GKE, "a ComputeClass or ProvisioningRequest of GKE serves the pod"),
        (
            template.selects(labels.NODE_POOL),
            Reason.DEMAND_BOUND_ELSEWHERE,
            "the pod selects a node pool that exists or existed; a new pool would not help it",
        ),
    )


def find_namespace_obstacle(demand: Demand, namespace_labels: Mapping[str, str]) -> Decision | None:
    """Return why nothing is bought for a demand's namespace, whose labels are given; None when something may be.

    The label of one pod does for a whole namespace too, with ``gpu`` for its GPUs only.
    """
    value = namespace_labels.get(labels.DISABLE_AUTOPROVISIONING, "")
    said = f"namespace {demand.claim.namespace} carries {labels.DISABLE_AUTOPROVISIONING}={value}"
    if value == "true" or (value == "gpu" and demand.shape.gpus):
        return _nothing(Reason.DEMAND_OPTED_OUT, f"{said}: others provision for it")
    if value in ("", "false", "gpu"):
        return None
    return _refuse(Reason.REQUEST_NOT_ALLOWED, f"{said}, which means nothing; valid: true, gpu, false")


def _find_first(*rows: tuple[bool, Reason, str]) -> Decision | None:
    return next((_nothing(reason, message) for holds, reason, message in rows if holds), None)


def _find_kind_obstacle(kind: Kind | None, settings: Settings) -> Decision | None:
    if kind is None:
        return _nothing(Reason.OWNER_KIND_UNKNOWN, "the pod belongs to its node, and asks for no other")
    if kind.name not in settings.kinds:
        return _nothing(Reason.KIND_NOT_SERVED, f"the setting kinds leaves out {kind.name}")
    return None


def _find_owner_obstacle(
    kind: Kind | None, workload: WorkloadView | None, *, pod: PodView | None
) -> Decision | None:
    name = kind.name if kind else "workload"
    if workload is None:
        return _refuse(Reason.OWNER_GONE, f"the {name} of the pod is gone; delete the pod if nothing else does")
    uid = kind.find_owner_uid(pod) if kind and pod else ""
    if uid not in ("", workload.uid):
        return _refuse(Reason.OWNER_GONE, f"the pod belongs to an earlier {name} {workload.name} (uid {uid})")
    if workload.part_of:
        said = f"the {name} is a part of {workload.part_of}, which alone could say what it needs"
        return _refuse(Reason.OWNER_KIND_UNKNOWN, said)
    return _find_first(
        (workload.deleting, Reason.OWNER_GONE, f"the {name} of the pod is being deleted"),
        (bool(workload.terminal), Reason.WORKLOAD_OVER, f"the {name} is {workload.terminal}"),
        (workload.suspended, Reason.WORKLOAD_SUSPENDED, f"the {name} is suspended"),
        (workload.managed_elsewhere, Reason.DEMAND_LEFT_TO_GKE, f"another controller manages the {name}"),
    )


def _read_pins(claim: Claim, found: SliceOfPod) -> dict[str, str]:
    label = get_kind(claim.kind).pin_label
    if not label:
        return {}
    return {label: f"{claim.namespace}_{found.name}" if found.group.pinned else ""}


def _check_allowed(namespace: str, template: PodTemplate, settings: Settings) -> None:
    if not is_allowed(namespace, settings.allowed_namespaces):
        raise NotAllowed(
            "node pools are not provisioned for this namespace",
            field="metadata.namespace",
            value=namespace,
            valid=", ".join(settings.allowed_namespaces),
        )
    accelerator = template.find_selector(labels.GPU_ACCELERATOR if template.gpus else labels.ACCELERATOR)
    if accelerator and not is_allowed(accelerator, settings.allowed_accelerators):
        raise NotAllowed(
            "this accelerator is not allowed here",
            field=labels.GPU_ACCELERATOR if template.gpus else labels.ACCELERATOR,
            value=accelerator,
            valid=", ".join(settings.allowed_accelerators),
        )


def _read_networks(template: PodTemplate, settings: Settings) -> tuple[str, ...]:
    text = template.annotations.get(labels.ADDITIONAL_NODE_NETWORKS, "")
    if not text.strip():
        return settings.node_additional_networks
    pairs = tuple(pair.strip().replace(" ", "") for pair in text.split(",") if pair.strip())
    for pair in pairs:
        if pair.count(":") != 1 or not all(pair.split(":")):
            raise NotAllowed(
                "not a network and subnetwork",
                field=f"annotation {labels.ADDITIONAL_NODE_NETWORKS}",
                value=pair,
                valid="network:subnetwork, comma-separated",
            )
        _check_listed(
            pair, settings.allowed_node_networks, labels.ADDITIONAL_NODE_NETWORKS, "allowed_node_networks"
        )
    return pairs


def _read_service_account(template: PodTemplate, settings: Settings) -> str:
    named = template.annotations.get(labels.NODE_SERVICE_ACCOUNT, "")
    if not named or named == settings.node_service_account:
        return settings.node_service_account
    _check_listed(
        named, settings.allowed_node_service_accounts, labels.NODE_SERVICE_ACCOUNT, "allowed_node_service_accounts"
    )
    return named


def _check_listed(value: str, patterns: tuple[str, ...], annotation: str, setting: str) -> None:
    if not is_allowed(value, patterns):
        raise NotAllowed(
            f"the operator's setting {setting} does not list this",
            field=f"annotation {annotation}",
            value=value,
            valid=", ".join(patterns) or "none",
        )


def _refuse(reason: Reason, message: str) -> Decision:
    return Decision(Verdict.REFUSE, reason, message)


def _nothing(reason: Reason, message: str) -> Decision:
    return Decision(Verdict.NOTHING, reason, message)
