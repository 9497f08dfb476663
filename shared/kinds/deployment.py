"""The Deployment, ``apps/v1``: each pod can run on any host of its shape.

Its pods name a ReplicaSet, whose name is that of the Deployment and the hash of the pod template,
so no chain of owners is read. One pool is for all pods of a shape, and its size follows the spec
(see `shared.kinds.elastic`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.kinds.elastic import name_shape
from shared.kinds.kind import Kind, SliceOfPod
from shared.kinds.objects import UnexpectedValue, read_identity, read_number, read_object, read_text
from shared.model.counts import bound_count, take_percent
from shared.model.errors import SliceUnknown
from shared.model.workloads import PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from shared.kinds.kind import Json, TemplateReader

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


def _hint(pod: PodView) -> str:
    return name_shape(pod.template)


def _read(body: Json, read_template: TemplateReader) -> WorkloadView:
    template = read_template(read_object(body, "spec", "template"))
    replicas = read_number(body, "spec", "replicas", default=1)
    group = SliceGroup(
        name="", replicas=_count_pods(body, replicas), hosts=1, template=template, elastic=True
    )
    return WorkloadView(
        **read_identity(NAME, body),
        groups=(group,) if template.wants_accelerator else (),
        templates={"": template},
    )


def _count_pods(body: Json, replicas: int) -> int:
    """Return the number of pods: the spec's, and in a rollout the status's, up to maxSurge more."""
    if replicas <= 0 or read_text(body, "spec", "strategy", "type") == "Recreate":
        return max(replicas, 0)
    shown = read_number(body, "status", "replicas")
    return max(replicas, min(shown, replicas + _read_surge(body, replicas)))


def _read_surge(body: Json, replicas: int) -> int:
    """Return maxSurge, the additional pods of a rollout; a percentage is rounded up."""
    given = read_object(body, "spec", "strategy", "rollingUpdate").get("maxSurge", _SURGE_DEFAULT)
    if isinstance(given, int) and not isinstance(given, bool):
        return max(bound_count(given), 0)
    surge = take_percent(replicas, given) if isinstance(given, str) else None
    if surge is None:
        raise UnexpectedValue(
            "spec.strategy.rollingUpdate.maxSurge", given, "a whole number or a percentage"
        )
    return surge


def _find_slice(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    """Refuse the pod: pods of a shape of the spec are found before this is called."""
    if _find_owner(pod) != workload.name:
        return None
    raise SliceUnknown(
        f"the pod needs other nodes than the pod template of {NAME} {workload.name}",
        field="spec.nodeSelector",
        value=", ".join(
            f"{key}={value}" for key, value in sorted(pod.template.node_selector.items())
        ),
        valid="the selectors of the template, with replicas above 0; a rollout replaces older pods",
    )


DEPLOYMENT = Kind(
    name=NAME,
    api_version=API_VERSION,
    plural="deployments",
    pod_selector=TEMPLATE_HASH,
    mark=TEMPLATE_HASH,
    find_owner=_find_owner,
    slice_hint=_hint,
    read=_read,
    find_slice=_find_slice,
)
