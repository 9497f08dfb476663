"""The bare pod, ``v1``, is a workload itself. It is the last kind in the table.

So it also matches every pod that no other kind matches: a pod with a controller of an unknown kind,
or with a pod as its controller. Such a pod is refused. DaemonSet and static pods are not
provisioned for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.kinds.kind import Kind, SliceOfPod
from shared.kinds.objects import read_flag, read_identity, read_objects, read_text
from shared.model.errors import OwnerKindUnknown
from shared.model.workloads import PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.kinds.kind import Json, TemplateReader

NAME = "Pod"
_OF_NODES = ("DaemonSet", "Node")
_OVER = ("Succeeded", "Failed")


def _find_owner(pod: PodView) -> str:
    return "" if pod.controller_kind in _OF_NODES else pod.name


def _read(body: Json, read_template: TemplateReader) -> WorkloadView:
    template = read_template(body)  # a pod has the metadata and the spec of a template
    controlled = any(
        read_flag(each, "controller") for each in read_objects(body, "metadata", "ownerReferences")
    )
    phase = read_text(body, "status", "phase")
    group = SliceGroup(name="", replicas=1, hosts=1, template=template, elastic=True)
    return WorkloadView(
        **read_identity(NAME, body),
        groups=(group,) if template.wants_accelerator and not controlled else (),
        templates={"": template},
        terminal=phase if phase in _OVER else "",
    )


def make_pod(other_kinds: Sequence[str]) -> Kind:
    """Return the entry; its refusals name the other kinds."""

    def find_slice(pod: PodView, _workload: WorkloadView) -> SliceOfPod | None:
        """Refuse the pod: a pod without controller is found before this is called."""
        if not pod.controller_kind:
            return None
        raise OwnerKindUnknown(
            f"its controller {pod.controller_kind} {pod.controller_name} is not a supported kind "
            "of workload",
            field="metadata.ownerReferences",
            value=f"{pod.controller_api_version} {pod.controller_kind}".strip(),
            valid=f"a pod of {', '.join(other_kinds)}, or a pod without controller",
        )

    return Kind(
        name=NAME,
        api_version="v1",
        plural="pods",
        pod_selector="",
        watched=False,
        find_owner=_find_owner,
        find_owner_uid=lambda pod: pod.uid,
        read=_read,
        find_slice=find_slice,
    )
