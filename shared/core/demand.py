"""From a live leader pod and its live JobSet to one demand, or to the reason why there is none.

Nothing is believed that a pod's author could have forged: the slice is the Job that controls the pod and that the
JobSet's own spec contains; free text is honoured only within the operator's allow-lists.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.core import labels
from shared.core.capacity import Capacity, read_capacity
from shared.core.decisions import Decision, Reason, Verdict
from shared.core.errors import NotAllowed, Rejected
from shared.core.names import Claim
from shared.core.selectors import read_node_labels, read_operator_labels, read_zone
from shared.core.settings import Settings, is_allowed
from shared.core.shapes import Shape, find_shape

if TYPE_CHECKING:
    from shared.core.workloads import JobSetView, PodTemplate, PodView, ReplicatedJobView

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
    pinned: bool
    """JobSet's node-selector strategy: the pool carries the job's label and taint."""

    @property
    def fingerprint(self) -> str:
        """Return a versioned hash of what the workload asked for; the operator's settings are not part of it.

        A new default of the operator must never make a healthy pool look different.
        """
        asked = (
            self.shape.machine_type,
            self.shape.topology,
            str(self.shape.node_count),
            str(self.capacity.tier),
            self.capacity.reservation_path,
            str(self.pinned),
            *(f"{key}={value}" for key, value in sorted(self.node_labels.items())),
        )
        digest = hashlib.sha256("\n".join(asked).encode()).digest()
        text = base64.b32encode(digest).decode().lower()[:_FINGERPRINT_CHARACTERS]
        return f"{FINGERPRINT_VERSION}-{text}"


def read_demand(cluster: str, pod: PodView, jobset: JobSetView | None, settings: Settings) -> Demand | Decision:
    """Return the demand of a leader pod, or the decision that there is none or that it is refused.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``.
        pod: the pod as it is now.
        jobset: its JobSet as it is now; None when there is none of that name.
        settings: the operator's settings.
    """
    stopped = _find_pod_obstacle(pod) or _find_owner_obstacle(pod, jobset)
    if stopped:
        return stopped
    if jobset is None:  # the obstacle above already said so; this tells the type checker
        return _nothing(Reason.OWNER_GONE, "the JobSet is gone")
    job = jobset.find_replicated_job(pod.controller_name)
    if job is None or pod.controller_kind != "Job":
        return _nothing(
            Reason.IDENTITY_MISMATCH,
            f"the pod is controlled by {pod.controller_kind or 'nothing'} {pod.controller_name}, "
            f"which is no Job of JobSet {jobset.name}",
        )
    claim = Claim(
        cluster=cluster,
        kind="JobSet",
        namespace=pod.namespace,
        name=jobset.name,
        owner_uid=jobset.uid,
        slice_key=f"{pod.namespace}/{pod.controller_name}",
    )
    try:
        return _resolve(claim, pod, jobset, job, settings)
    except Rejected as error:
        return Decision(Verdict.REFUSE, Reason(error.reason), str(error))


def _resolve(claim: Claim, pod: PodView, jobset: JobSetView, job: ReplicatedJobView, settings: Settings) -> Demand:
    template = pod.template
    _check_allowed(pod, template, settings)
    shape = find_shape(
        accelerator=template.find_selector(labels.ACCELERATOR),
        topology=template.topology,
        chips_per_pod=template.chips or _find_chips_of_peers(template, jobset),
        machine_type=template.find_selector(labels.INSTANCE_TYPE),
    )
    capacity = read_capacity(template, shape, settings)
    pinned = jobset.uses_node_selector_strategy(job)
    return Demand(
        claim=claim,
        shape=shape,
        capacity=capacity,
        zone=read_zone(template, claim.cluster, settings),
        node_labels=read_node_labels(template, shape, capacity, settings, pinned_job=_pinned_job(pinned, claim)),
        operator_labels=read_operator_labels(template, settings),
        networks=_read_networks(template, settings),
        node_service_account=_read_service_account(template, settings),
        pinned=pinned,
    )


def _find_pod_obstacle(pod: PodView) -> Decision | None:
    """Return why a pod is no demand as it stands; the order is from the surest to the most particular."""
    template = pod.template
    opted_out = "true" in (
        template.labels.get(labels.DISABLE_AUTOPROVISIONING),
        template.annotations.get(labels.DISABLE_AUTOPROVISIONING),
    )
    left_to_gke = (
        template.selects(labels.COMPUTE_CLASS)
        or template.selects(labels.PROVISIONING_REQUEST)
        or labels.PROVISIONING_REQUEST in template.annotations
    )
    rows = (
        (pod.deleting or pod.finished, Reason.DEMAND_GONE, "the pod is ending"),
        (bool(pod.node_name), Reason.DEMAND_SCHEDULED, f"the pod is bound to node {pod.node_name}"),
        (
            not template.wants_accelerator,
            Reason.NOT_AN_ACCELERATOR_DEMAND,
            "the pod neither selects nor requests TPUs",
        ),
        (opted_out, Reason.DEMAND_OPTED_OUT, f"the pod carries {labels.DISABLE_AUTOPROVISIONING}"),
        (left_to_gke, Reason.DEMAND_LEFT_TO_GKE, "a ComputeClass or ProvisioningRequest of GKE serves the pod"),
        (
            template.selects(labels.NODE_POOL),
            Reason.DEMAND_BOUND_ELSEWHERE,
            "the pod selects a node pool that exists or existed; a new pool would not help it",
        ),
        (not pod.is_leader, Reason.NOT_A_LEADER, "only the pod with completion index 0 speaks for its slice"),
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
    for holds, reason, message in rows:
        if holds:
            return _nothing(reason, message)
    return None


def _find_owner_obstacle(pod: PodView, jobset: JobSetView | None) -> Decision | None:
    if jobset is None or jobset.deleting:
        return _nothing(Reason.OWNER_GONE, "the JobSet of the pod is gone")
    uid = pod.template.labels.get(labels.JOBSET_UID_ON_POD, jobset.uid)
    if uid != jobset.uid:
        return _nothing(Reason.OWNER_GONE, f"the pod belongs to an earlier JobSet {jobset.name} (uid {uid})")
    if jobset.terminal:
        return _nothing(Reason.WORKLOAD_OVER, f"the JobSet is {jobset.terminal}")
    if jobset.suspended:
        return _nothing(Reason.WORKLOAD_SUSPENDED, "the JobSet is suspended")
    if jobset.managed_elsewhere:
        return _nothing(Reason.DEMAND_LEFT_TO_GKE, "another controller manages the JobSet")
    return None


def _check_allowed(pod: PodView, template: PodTemplate, settings: Settings) -> None:
    if not is_allowed(pod.namespace, settings.allowed_namespaces):
        raise NotAllowed(
            "node pools are not provisioned for this namespace",
            field="metadata.namespace",
            value=pod.namespace,
            valid=", ".join(settings.allowed_namespaces),
        )
    accelerator = template.find_selector(labels.ACCELERATOR)
    if accelerator and not is_allowed(accelerator, settings.allowed_accelerators):
        raise NotAllowed(
            "this accelerator is not allowed here",
            field=labels.ACCELERATOR,
            value=accelerator,
            valid=", ".join(settings.allowed_accelerators),
        )


def _find_chips_of_peers(template: PodTemplate, jobset: JobSetView) -> int:
    """Return the chips that the JobSet's other pods of the same shape ask for; 0 when none does.

    A leader without chips shares its slice with workers that come once it is bound (Pathways' co-located head).
    """
    wanted = (template.find_selector(labels.ACCELERATOR), template.topology)
    found = (
        job.template.chips
        for job in jobset.replicated_jobs
        if job.template.chips and (job.template.find_selector(labels.ACCELERATOR), job.template.topology) == wanted
    )
    return next(found, 0)


def _pinned_job(pinned: bool, claim: Claim) -> str:  # noqa: FBT001 -- private, one caller
    return f"{claim.namespace}_{claim.job_name}" if pinned else ""


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


def _nothing(reason: Reason, message: str) -> Decision:
    return Decision(Verdict.NOTHING, reason, message)
