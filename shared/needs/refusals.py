"""Why the pods of a template get no node pool from this provisioner, before anything is looked up.

What somebody else serves is no error: other parts of the workload get their pools all the same.
"""

from __future__ import annotations

import re

from msgspec import structs

from shared.model import labels
from shared.model.decisions import Decision, Verdict
from shared.model.errors import refuse
from shared.model.workloads import PodTemplate, WorkloadView
from shared.settings import Settings, is_allowed
from shared.shapes.catalogue import TPUS
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
