"""The bare pod, ``v1``, is a workload itself. It is the last kind in the table.

So it also matches every pod that no other kind matches: a pod with a controller of an unknown kind,
or with a pod as its controller. Such a pod is refused. DaemonSet and static pods are not
provisioned for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.kinds.kind import Kind
from shared.kinds.objects import read_flag, read_objects, read_text
from shared.model.errors import OwnerKindUnknown
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from shared.kinds.kind import Json

_OF_NODES = ("DaemonSet", "Node")
_OVER = ("Succeeded", "Failed")


class BarePod(Kind):
    """The pod without controller, and every pod whose controller is of no other kind."""

    name = "Pod"
    api_version = "v1"
    plural = "pods"
    watched = False

    def __init__(self, other_kinds: Sequence[Kind]) -> None:
        self._others = ", ".join(kind.name for kind in other_kinds)

    def find_owner(self, pod: PodView) -> str:
        """Return the pod's own name."""
        return "" if pod.controller_kind in _OF_NODES else pod.name

    def find_owner_uid(self, pod: PodView) -> str:
        """Return the pod's own UID."""
        return pod.uid

    def list_templates(self, body: Json) -> list[tuple[str, Json]]:
        """Return the pod itself, which has the metadata and the spec of a template."""
        return [("main", body)]

    def read_groups(self, body: Json, templates: Mapping[str, PodTemplate]) -> list[SliceGroup]:
        """Return one elastic pool of one node, for a pod without controller."""
        owners = read_objects(body, "metadata", "ownerReferences")
        if any(read_flag(each, "controller") for each in owners):
            return []
        (template,) = templates.values()
        return [SliceGroup(name="", hosts=1, template=template, elastic=True)]

    def find_ending(self, body: Json, _conditions: Collection[str]) -> str:
        """Return the phase of a pod that has ended."""
        phase = read_text(body, "status", "phase")
        return phase if phase in _OVER else ""

    def find_group(self, pod: PodView, workload: WorkloadView) -> SliceGroup | None:
        """Return the pod's group; one with a controller is refused."""
        if pod.controller_kind:
            raise OwnerKindUnknown(
                f"its controller {pod.controller_kind} {pod.controller_name} is not a supported "
                "kind of workload",
                field="metadata.ownerReferences",
                value=f"{pod.controller_api_version} {pod.controller_kind}".strip(),
                valid=f"a pod of {self._others}, or a pod without controller",
            )
        return super().find_group(pod, workload)
