"""The bare pod, ``v1``: nobody's but its author's, and itself the workload. The last in the table.

So it is also asked about every pod that no other kind knows: one with a controller of an unknown kind, or whose
controller is a pod, be it itself. Those are told so and get nothing. A DaemonSet's pods and the kubelet's own
belong to their node and never ask for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.errors import OwnerKindUnknown
from shared.core.kinds.kind import Kind, KindText, SliceOfPod
from shared.core.kinds.objects import read_flag, read_identity, read_objects, read_text
from shared.core.workloads import PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.core.kinds.kind import Json, TemplateReader

NAME = "Pod"
_OF_NODES = ("DaemonSet", "Node")
_OVER = ("Succeeded", "Failed")


def _find_owner(pod: PodView) -> str:
    return "" if pod.controller_kind in _OF_NODES else pod.name


def _find_owner_uid(pod: PodView) -> str:
    return pod.uid


def _speaks(_pod: PodView) -> bool:
    return True


def _read(body: Json, read_template: TemplateReader) -> WorkloadView:
    template = read_template(body)  # a pod has the metadata and the spec of a template
    controlled = any(read_flag(each, "controller") for each in read_objects(body, "metadata", "ownerReferences"))
    phase = read_text(body, "status", "phase")
    group = SliceGroup(name="", replicas=1, hosts=1, template=template, elastic=True)
    return WorkloadView(
        **read_identity(NAME, body),
        groups=(group,) if template.wants_accelerator and not controlled else (),
        terminal=phase if phase in _OVER else "",
    )


def make_pod(other_kinds: Sequence[str]) -> Kind:
    """Return the entry; the names of the other kinds are for those whose pod is of none of them."""

    def find_slice(pod: PodView, _workload: WorkloadView) -> SliceOfPod | None:
        """Return None or say why: a pod without controller is found before this is asked."""
        if not pod.controller_kind:
            return None
        raise OwnerKindUnknown(
            f"the pod is of {pod.controller_kind} {pod.controller_name}, and what that needs is not known here",
            field="metadata.ownerReferences",
            value=f"{pod.controller_api_version} {pod.controller_kind}".strip(),
            valid=f"a pod of {', '.join(other_kinds)}, or one without controller",
        )

    return Kind(
        name=NAME,
        api_version="v1",
        plural="pods",
        parent_kind="pod",
        text=KindText(
            speakers="every pod without controller; one whose controller is of no kind here is refused",
            slice="itself, on a single host: a pool of one node, `<pod>-any-<shape>`",
            over="phase `Succeeded` or `Failed`",
            released="nothing; its end or deletion is noticed by the next sweep",
        ),
        pod_selector="",
        watched=False,
        find_owner=_find_owner,
        find_owner_uid=_find_owner_uid,
        speaks=_speaks,
        speaks_rule="a pod without controller speaks for itself",
        read=_read,
        find_slice=find_slice,
        list_slices=_list_slices,
        has_slice=_has_slice,
    )


def _list_slices(_workload: WorkloadView) -> Sequence[SliceOfPod]:
    return ()


def _has_slice(_workload: WorkloadView, _name: str, _pods: Sequence[PodView] | None) -> bool:
    return False
