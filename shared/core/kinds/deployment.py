"""The Deployment, ``apps/v1``: pods that stand each on a host of its own, any host of their shape being as good.

Its pods name a ReplicaSet, whose name is the Deployment's with the hash of the pod template behind it, so no chain
of owners is followed. One pool serves all pods of a shape, and its size follows the spec: `shared.core.elastic`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shared.core.elastic import name_shape
from shared.core.errors import SliceUnknown
from shared.core.kinds.kind import Kind, KindText, SliceOfPod
from shared.core.kinds.objects import UnexpectedValue, read_identity, read_number, read_object, read_text
from shared.core.workloads import PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.kinds.kind import Json, TemplateReader

NAME = "Deployment"
API_VERSION = "apps/v1"
TEMPLATE_HASH = "pod-template-hash"
"""On every pod of a Deployment, and at the end of its ReplicaSet's name:
https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label."""
_SURGE_DEFAULT = "25%"


def _find_owner(pod: PodView) -> str:
    suffix = f"-{pod.template.labels.get(TEMPLATE_HASH, '')}"
    is_of_set = (pod.controller_kind, pod.controller_api_version) == ("ReplicaSet", API_VERSION)
    if not is_of_set or suffix == "-" or not pod.controller_name.endswith(suffix):
        return ""
    return pod.controller_name.removesuffix(suffix)


def _find_owner_uid(_pod: PodView) -> str:
    # A pod carries the UID of its ReplicaSet only.
    return ""


def _speaks(_pod: PodView) -> bool:
    return True


def _hint(pod: PodView) -> str:
    return name_shape(pod.template)


def _read(body: Json, read_template: TemplateReader) -> WorkloadView:
    template = read_template(read_object(body, "spec", "template"))
    replicas = read_number(body, "spec", "replicas", default=1)
    group = SliceGroup(name="", replicas=_count_pods(body, replicas), hosts=1, template=template, elastic=True)
    return WorkloadView(
        **read_identity(NAME, body),
        groups=(group,) if template.wants_accelerator else (),
        active=read_number(body, "status", "replicas"),
    )


def _count_pods(body: Json, replicas: int) -> int:
    """Return the spec's pods, and during a rollout those beyond them that its status shows, within maxSurge."""
    if replicas <= 0 or read_text(body, "spec", "strategy", "type") == "Recreate":
        return max(replicas, 0)
    shown = read_number(body, "status", "replicas")
    return max(replicas, min(shown, replicas + _read_surge(body, replicas)))


def _read_surge(body: Json, replicas: int) -> int:
    """Return how many pods a rollout may have beyond the spec's: a number, or a share that is rounded up."""
    said = read_object(body, "spec", "strategy", "rollingUpdate").get("maxSurge", _SURGE_DEFAULT)
    if isinstance(said, int) and not isinstance(said, bool):
        return max(said, 0)
    share = said.removesuffix("%") if isinstance(said, str) and said.endswith("%") else ""
    if not (share.isascii() and share.isdigit()):
        raise UnexpectedValue("spec.strategy.rollingUpdate.maxSurge", said, "a whole number or a percentage")
    return math.ceil(replicas * int(share) / 100)


def _find_slice(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    """Return None or say why: pods of a shape that the spec has are found before this is asked."""
    if _find_owner(pod) != workload.name:
        return None
    raise SliceUnknown(
        f"the pod asks for other nodes than the pods of {NAME} {workload.name} do now",
        field="spec.nodeSelector",
        value=", ".join(f"{key}={value}" for key, value in sorted(pod.template.node_selector.items())),
        valid="the shape in its template, with replicas above 0; a rollout replaces pods of earlier ones",
    )


def _list_slices(_workload: WorkloadView) -> Sequence[SliceOfPod]:
    return ()


def _has_slice(_workload: WorkloadView, _name: str, _pods: Sequence[PodView] | None) -> bool:
    return False


DEPLOYMENT = Kind(
    name=NAME,
    api_version=API_VERSION,
    plural="deployments",
    parent_kind="deployment",
    text=KindText(
        speakers="every pod; the exporter reports one at a time for each shape",
        slice="none: all pods of one shape share one pool, `<deployment>-any-<shape>`, with room for all replicas "
        "(and for the surge of a rollout)",
        over="never; it runs until it is deleted",
        released="replicas 0; a shape that is no longer in the template, once its pods are gone",
    ),
    pod_selector=TEMPLATE_HASH,
    mark=TEMPLATE_HASH,
    find_owner=_find_owner,
    find_owner_uid=_find_owner_uid,
    speaks=_speaks,
    speaks_rule="a pod of the Deployment speaks for its pool",
    slice_hint=_hint,
    read=_read,
    find_slice=_find_slice,
    list_slices=_list_slices,
    has_slice=_has_slice,
)
