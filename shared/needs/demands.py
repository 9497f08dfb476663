"""Turns a live pod, or a slice of the spec, into one `Demand`, or into the reason why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.kinds.table import get_kind
from shared.model import labels
from shared.model.decisions import Decision, Reason, Verdict
from shared.model.errors import Rejected
from shared.needs.demand import Demand, build_demand
from shared.needs.dynamic_slices import find_dynamic_slice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.kinds.kind import Kind, SliceOfPod
    from shared.model.workloads import PodTemplate, WorkloadView
    from shared.settings import Settings

Row = tuple[bool, Reason, str]
_DYNAMIC = (
    "{0} leaves the slice to GKE's dynamic slicing, which forms it from node pools that an operator creates; "
    f"for a node pool of its own, remove {{0}} and select {labels.TOPOLOGY}"
)


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
        or _decide_owner(kind, workload)
    )
    if stopped:
        return stopped
    try:
        return build_demand(cluster, workload, of_spec, template, settings)
    except Rejected as error:
        return refuse_rejected(error)


def decide_namespace(
    namespace: str, demand: Demand, namespace_labels: Mapping[str, str]
) -> Decision | None:
    """Return why no pool is created for a demand's namespace; None when a pool may be created.

    The label that opts one pod out also opts out a whole namespace. Its value ``gpu`` opts out only
    the pods that request GPUs.
    """
    value = namespace_labels.get(labels.DISABLE_AUTOPROVISIONING, "")
    label = f"the label {labels.DISABLE_AUTOPROVISIONING}={value} of namespace {namespace}"
    if value == "true" or (value == "gpu" and demand.shape.gpus):
        return _nothing(
            Reason.DEMAND_OPTED_OUT, f"{label} opts out of node pools from this provisioner"
        )
    if value in ("", "false", "gpu"):
        return None
    return _refuse(
        Reason.REQUEST_NOT_ALLOWED, f"{label} has an unknown value; valid: true, gpu, false"
    )


def refuse_rejected(error: Rejected) -> Decision:
    """Return the refusal of a demand; the error carries the reason and the text."""
    return _refuse(Reason(error.reason), str(error))


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


def _list_kind_obstacles(kind: Kind, settings: Settings) -> tuple[Row, ...]:
    served = kind.name in settings.kinds
    return ((not served, Reason.KIND_NOT_SERVED, f"the setting kinds does not list {kind.name}"),)


def _decide_owner(kind: Kind, workload: WorkloadView) -> Decision | None:
    """Return why a workload is not ours to serve. Whether it is over is the plan's to judge."""
    name = kind.name
    if workload.part_of:
        return _refuse(
            Reason.OWNER_KIND_UNKNOWN,
            f"the {name} is part of {workload.part_of}, which is not a supported kind of workload; valid: "
            f"a {name} without controller, or one that a supported kind creates",
        )
    return _find_first(
        (
            (
                workload.marks.get(labels.DISABLE_AUTOPROVISIONING) == "true",
                Reason.DEMAND_OPTED_OUT,
                f"the label or annotation {labels.DISABLE_AUTOPROVISIONING}=true of its {name} opts out",
            ),
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
