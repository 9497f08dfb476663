"""Reads a pod template: who serves it, what is refused of it, and which labels its nodes need.

What somebody else serves is no error: other parts of the workload get their pools all the same.
Keys with GKE's or Kubernetes' own prefixes are interpreted, never copied, since the API rejects or
overwrites them. A selector that no node would match is refused, because the pool would cost money
and never be used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import structs

from shared.model import labels
from shared.model.decisions import Decision, Verdict
from shared.model.errors import refuse
from shared.model.needs import Tier, Way
from shared.model.workloads import PodTemplate, Requirement, WorkloadView, is_own
from shared.settings import Settings, is_allowed
from shared.shapes.catalogue import TPUS, Shape
from shared.shapes.tpus import TOPOLOGY_FORM, count_chips

_FLAGS = (labels.DISABLE_AUTOPROVISIONING, labels.PARTIAL_SLICE)
"""Keys of true or false. The module that reads another key checks its values."""
_SLICE_OF_GKE = re.compile(r"cloud\.google\.com/gke-tpu-(slice|partition)(-.+)?")
"""Labels that GKE's slice controller gives to the nodes of a slice or of a part of one:
https://cloud.google.com/kubernetes-engine/docs/concepts/dynamic-slicing."""
_OF_GKE = (labels.COMPUTE_CLASS, labels.PROVISIONING_REQUEST)
_BY_QUEUE = (
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-slice-required-topology",
)
_OF_NETWORKS = "networking.gke.io*"  # GKE gives these resources to nodes with additional networks
_CUBE = 64  # chips of one node pool, 4x4x4, of which GKE joins several to a larger slice
_JOINED = frozenset(family.accelerator for family in TPUS.values() if family.joins_pools)
RESERVATION_PARTS = {
    "name": labels.RESERVATION_NAME,
    "project": labels.RESERVATION_PROJECT,
    "block": labels.RESERVATION_BLOCKS,
    "subblock": labels.RESERVATION_SUBBLOCKS,
}
_OF_ACCELERATOR = (
    *(labels.ACCELERATOR, labels.TOPOLOGY),
    *(labels.GPU_NODE, labels.GPU_ACCELERATOR, labels.GPU_PARTITION),
)
OF_TIER = frozenset(
    {
        *(labels.SPOT, labels.FLEX_START, labels.PROVISIONING, labels.PREEMPTIBLE),
        *(labels.MAX_RUN_DURATION, *RESERVATION_PARTS.values()),
    }
)
"""Node labels that follow from a pool's capacity; not read under ``force_on_demand``."""
_SHOWN = {
    *(labels.SPOT, labels.FLEX_START, labels.PROVISIONING, labels.RESERVATION_NAME),
    *(labels.INSTANCE_TYPE, labels.ZONE, labels.PLACEMENT_POLICY),
}
"""Of the labels that GKE sets, those that a listed pool shows with the selected value."""
_SET_BY_GKE = {
    *(*OF_TIER, *_SHOWN, *_OF_ACCELERATOR),
    *(labels.GPU_SHARING, labels.GPU_CLIENTS, labels.GPU_DRIVER, labels.MACHINE_FAMILY),
    *(labels.ARCHITECTURE, labels.OPERATING_SYSTEM, labels.OS_DISTRIBUTION),
    *(labels.METADATA_SERVER, labels.REGION, labels.RESERVATION_ZONE),
}
"""Node labels that GKE derives from the pool's fields."""
COPIED_FROM_SELECTORS = frozenset(
    {labels.ICI_RESILIENCY, labels.LOCATION_HINT, labels.POOL_GROUP_NAME, labels.WORKLOAD_TYPE}
)
"""GKE's own keys that GKE reads from the labels of a new pool."""
CHECKED_BY_GKE = COPIED_FROM_SELECTORS | {labels.PLACEMENT_POLICY}
"""Those of which only GKE can say whether a value is right."""
_COUNT, _MODELS = labels.ACCELERATOR_COUNT, (Tier.SPOT, Tier.FLEX_START)
_SENT = COPIED_FROM_SELECTORS | {_COUNT, labels.RESERVATION_AFFINITY}
"""With those that GKE does not set itself."""
_PLAIN = PodTemplate()


def find_other_server(template: PodTemplate) -> Decision | None:
    """Return why the pods of a template are not for this provisioner; None if they are."""
    key = labels.DISABLE_AUTOPROVISIONING
    if "true" in (template.labels.get(key), template.annotations.get(key)):
        return _leave("opted_out_pod")
    by_request = any(each in template.annotations for each in labels.PROVISIONING_REQUESTS)
    if by_request or any(map(template.selects, _OF_GKE)):
        return _leave("class_of_gke")
    if template.selects(labels.QUEUED) and not template.selects(labels.NODE_POOL):
        return _leave("queued_by_kueue")
    dynamic = _find_dynamic_slice(template)
    return _leave("dynamic_slice", key=dynamic) if dynamic else None


def find_other_owner(workload: WorkloadView, template: PodTemplate) -> Decision | None:
    """Return why the pods of a spec are not for this provisioner; None if they are.

    A controller may name the pool of a leader to live pods, but a spec that names one has chosen
    it.
    """
    if template.selects(labels.NODE_POOL):
        return _leave("pool_by_name")
    if workload.marks.get(labels.DISABLE_AUTOPROVISIONING) == "true":
        return _leave("opted_out_workload", workload=workload)
    return _leave("managed_elsewhere", workload=workload) if workload.managed_elsewhere else None


def _leave(name: str, **facts: object) -> Decision:
    """Return why somebody else serves pods, which is no error of theirs."""
    return structs.replace(refuse(name, **facts).decision, verdict=Verdict.NOTHING)


def check_workload(workload: WorkloadView, template: PodTemplate, settings: Settings) -> None:
    """Accept a kind, a namespace and an accelerator that the settings list."""
    if workload.part_of:
        raise refuse("part_of_others", workload=workload)
    if workload.kind not in settings.kinds:
        raise refuse("kind_not_listed", workload.kind, kinds=settings.kinds)
    listed, field = settings.allowed_namespaces, "metadata.namespace"
    check_listed(workload.namespace, listed, "allowed_namespaces", field)
    key = labels.GPU_ACCELERATOR if template.gpus else labels.ACCELERATOR
    if accelerator := template.find_selector(key):
        check_listed(accelerator, settings.allowed_accelerators, "allowed_accelerators", key)


def check_listed(value: str, patterns: tuple[str, ...], setting: str, field: str) -> None:
    """Accept a value that the operator's setting lists."""
    if not is_allowed(value, patterns):
        raise refuse("not_listed", value, field=field, setting=setting, listed=patterns or "none")


def check_resources(template: PodTemplate, settings: Settings) -> None:
    """Accept extended resources that GKE or the operator's list gives to new nodes."""
    for resource in template.other_resources:
        if not is_allowed(resource, (_OF_NETWORKS, *settings.node_resources)):
            meant = labels.find_meant_resource(resource)
            hint = f": did you mean {meant}?" if meant else ""
            raise refuse("resource_of_others", resource=resource, hint=hint)


def check_own_keys(template: PodTemplate, workload: WorkloadView) -> None:
    """Accept our keys if they are known, have a valid value, and are on the right object."""
    of_pods = {**template.labels, **template.annotations}
    for key, value in {**workload.marks, **of_pods}.items():
        if key.startswith(labels.OWN_DOMAIN) and key not in labels.OWN_KEYS:
            what, valid = "key", ", ".join(sorted(labels.OWN_KEYS))
        elif key in _FLAGS and value not in ("", "true", "false"):
            what, valid = "value", "true, false"
        else:
            continue
        raise refuse("own_key_unknown", value, key=key, what=what, listed=valid)
    for key in sorted(labels.POD_KEYS & workload.marks.keys() - of_pods.keys()):
        raise refuse("own_key_misplaced", workload.marks[key], key=key, workload=workload)


def _find_dynamic_slice(template: PodTemplate) -> str:
    """Return the label or annotation that leaves the slice to GKE; empty if none does.

    The annotation of a topology alone leaves it to GKE only if the slice is larger than one pool:
    a pool can serve any other.
    """
    keys = [*template.selection, *(each.key for each in template.topology_terms)]
    keys += [template.annotations[key] for key in _BY_QUEUE if key in template.annotations]
    for key in keys:
        if _SLICE_OF_GKE.fullmatch(key):
            return key
    topology = template.annotations.get(labels.SLICE_TOPOLOGY, "")
    joined = TOPOLOGY_FORM.fullmatch(topology) and count_chips(topology) > _CUBE
    by_gke = _JOINED.intersection(template.selection.get(labels.ACCELERATOR, ()))
    return labels.SLICE_TOPOLOGY if joined and by_gke else ""


def list_required(template: PodTemplate, settings: Settings) -> frozenset[tuple[str, str]]:
    """Return the node labels by which a listed pool shows whether pods may run on it.

    What follows from its accelerators is compared as its shape.
    """
    hidden = (_SET_BY_GKE | _SENT) - _SHOWN | (OF_TIER if settings.force_on_demand else set())
    required = {(key, values[0]) for key, values in template.selection.items() if len(values) == 1}
    if (labels.PROVISIONING, Tier.SPOT) in required:
        required.add((labels.SPOT, "true"))
    return frozenset((key, value) for key, value in required if key not in hidden)


def read_node_labels(
    template: PodTemplate, shape: Shape, selected: Way, settings: Settings
) -> dict[str, str]:
    """Return the node labels that a pool needs besides owner labels.

    They are those that the setting ``copy_labels`` copies from the pods, those that the pods'
    annotation copies, and what the pods select.
    """
    node_labels = _copy_pod_labels(template, settings)
    for key in template.selection:
        if key in _SET_BY_GKE:
            continue
        value = template.find_selector(key)
        if value is not None:
            _check_key(key, value)
            node_labels[key] = str(shape.machine.chips) if key == _COUNT else value
    if selected.run_seconds and template.selects(labels.MAX_RUN_DURATION):
        node_labels[labels.MAX_RUN_DURATION] = str(selected.run_seconds)
    return node_labels


def _check_key(key: str, value: str) -> None:
    """Accept a selector whose label this provisioner can give to nodes."""
    if labels.rename(key) != key:  # the reader has renamed all others
        raise refuse("two_names_of_a_label", f"{key}={value}", present=labels.rename(key))
    reserved = labels.is_reserved(key) or key == labels.NETWORK_PROFILE
    if reserved and key not in _SENT:
        raise refuse("label_of_gke", f"{key}={value}")


def list_copied_labels(template: PodTemplate) -> dict[str, str]:
    """Return the pod's labels that its annotation copies to the nodes."""
    keys = [key.strip() for key in template.annotations.get(labels.COPY_LABELS, "").split(",")]
    return {key: template.labels.get(key, "") for key in keys if key}


def _copy_pod_labels(template: PodTemplate, settings: Settings) -> dict[str, str]:
    """Return the pod's labels that the setting or its annotation copies to the nodes."""
    of_operator = (key for key in settings.copy_labels if not key.startswith(labels.OWNER_KEYS))
    copied = list_copied_labels(template)
    for key in copied:
        if labels.is_reserved(key) or not is_allowed(key, settings.allowed_label_prefixes):
            raise refuse("label_not_copied", key)
    return {key: template.labels[key] for key in (*of_operator, *copied) if key in template.labels}


def check_affinity(template: PodTemplate, spec: PodTemplate = _PLAIN) -> None:
    """Accept pods whose required affinity, beside their spec's, names labels of new nodes."""
    for term in template.topology_terms:
        absent = is_own(term.key) and not template.selection.get(term.key)
        if absent and term not in spec.topology_terms:
            raise refuse("topology_label_absent", term.key, term=term)


def check_nodes(template: PodTemplate, offered: Mapping[str, str]) -> None:
    """Accept nodes on which the node selector and the required node affinity let the pods run.

    They have what the pods select, and labels that are certain before a pool exists, empty where
    its nodes lack them. Other labels of Google, of Kubernetes and of software refuse nothing.
    """
    # An own label of the author may have an empty value.
    present = {key: value for key, value in offered.items() if value or not labels.is_reserved(key)}
    terms = _list_terms(template, offered)
    unmet = [[each for each in term if not each.holds(present)] for term in terms]
    if not all(unmet):
        return
    key, text = unmet[0][0].key, str(unmet[0][0])
    valid = f"{present[key]}, as these nodes have it" if key in present else "no such selector"
    raise refuse("nodes_not_accepted", text, key=key, wanted=valid)


def _list_terms(template: PodTemplate, offered: Mapping[str, str]) -> list[list[Requirement]]:
    """Return what the pods require of labels that are certain: all of one of these terms."""
    selected = [
        Requirement(key, "In" if values else "Exists", values)
        for key, values in template.selection.items()
    ]
    terms = [(*selected, *term) for term in template.node_terms or ((),)]
    return [[each for each in term if each.key in offered or is_own(each.key)] for term in terms]


def list_offered_labels(shape: Shape, way: Way, settings: Settings) -> dict[str, str]:
    """Return labels of the nodes of a pool; empty for those that GKE does not give to them."""
    accelerator = shape.family.accelerator
    of_shape = {labels.ACCELERATOR: accelerator, labels.TOPOLOGY: shape.topology}
    if shape.gpus is not None:
        of_shape = {
            labels.GPU_ACCELERATOR: accelerator,
            labels.GPU_NODE: "true",
            labels.GPU_PARTITION: shape.gpus.partition,
        }
    offered = dict.fromkeys(_OF_ACCELERATOR, "") | of_shape
    offered |= {
        labels.MANAGER: labels.MANAGER_VALUE,
        labels.REGION: way.zone.rpartition("-")[0],
        labels.INSTANCE_TYPE: shape.machine.name,
        labels.MACHINE_FAMILY: shape.machine.name.split("-")[0],
        labels.OPERATING_SYSTEM: "linux",
        labels.OS_DISTRIBUTION: "cos",
        labels.ARCHITECTURE: shape.family.architecture,
        labels.METADATA_SERVER: "true" * settings.node_workload_identity,
    }
    if settings.force_on_demand:  # a webhook may remove the tier, and Kueue may choose the zone
        return offered
    reservation = structs.asdict(way.reservation)
    return offered | {
        labels.ZONE: way.zone,
        labels.RESERVATION_ZONE: way.zone,
        labels.SPOT: "true" * (way.tier == Tier.SPOT),
        labels.FLEX_START: "true" * (way.tier == Tier.FLEX_START),
        labels.PREEMPTIBLE: "",
        labels.PROVISIONING: way.tier if way.tier in _MODELS else "standard",
        labels.RESERVATION_AFFINITY: "specific" * (way.tier == Tier.RESERVATION),
        **{key: reservation[part] for part, key in RESERVATION_PARTS.items()},
    }


def list_tiers(template: PodTemplate) -> list[Tier]:
    """Return the tiers that a template names, of which GKE can give one."""
    select = template.selects
    selected = {
        Tier.SPOT: select(labels.SPOT),
        Tier.FLEX_START: select(labels.FLEX_START),
        Tier.RESERVATION: select(labels.RESERVATION_NAME) or select(labels.RESERVATION_AFFINITY),
    }
    model = template.find_selector(labels.PROVISIONING)
    return [tier for tier, named in selected.items() if named or tier == model]
