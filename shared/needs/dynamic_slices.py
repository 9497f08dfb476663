"""Recognises a pod whose slice GKE itself forms out of existing node pools.

Dynamic slicing (tpu7x) joins pools of 4x4x4 chips to slices, or parts them:
https://cloud.google.com/kubernetes-engine/docs/concepts/dynamic-slicing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shared.model import labels
from shared.shapes.tpus import TOPOLOGY_FORM, count_chips

if TYPE_CHECKING:
    from shared.model.workloads import PodTemplate

_NODE_LABEL = re.compile(r"cloud\.google\.com/gke-tpu-(slice|partition)(-.+)?")
"""Labels that GKE's slice controller gives to the nodes of a slice or of a part of one."""
_BY_QUEUE = (
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-slice-required-topology",
)
_CUBE = 64
"""Chips of one node pool, 4x4x4; a larger slice has several pools."""


def find_dynamic_slice(template: PodTemplate) -> str:
    """Return the label or annotation that leaves the slice to GKE; empty if none does.

    The annotation of a topology alone leaves it to GKE only if the slice is larger than one pool:
    a pool can serve any other.
    """
    asked = [
        *template.node_selector,
        *template.node_affinity,
        *(each.key for each in template.topology_terms),
    ]
    asked += [template.annotations[key] for key in _BY_QUEUE if key in template.annotations]
    for key in asked:
        if _NODE_LABEL.fullmatch(key):
            return key
    topology = template.annotations.get(labels.SLICE_TOPOLOGY, "")
    joined = TOPOLOGY_FORM.fullmatch(topology) and count_chips(topology) > _CUBE
    return (
        labels.SLICE_TOPOLOGY
        if joined and "tpu7x" in template.list_values(labels.ACCELERATOR)
        else ""
    )
