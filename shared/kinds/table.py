"""The table of kinds, and the bare pod, which takes what no other kind does.

A new kind of workload is a class in its own module, and a name in `_CONTROLLED`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from shared.kinds import read
from shared.kinds.job import JOB
from shared.kinds.jobset import JOBSET
from shared.kinds.kind import Json, Kind
from shared.kinds.leaderworkerset import LEADERWORKERSET
from shared.kinds.raycluster import RAYCLUSTER, RAYJOB, judge_rayjob
from shared.kinds.replicas import DEPLOYMENT, STATEFULSET
from shared.model.errors import refuse
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

_CONTROLLED = (JOBSET, RAYCLUSTER, LEADERWORKERSET, JOB, DEPLOYMENT, STATEFULSET)
_OF_NODES = ("DaemonSet", "Node")
_OVER = ("Succeeded", "Failed")


class BarePod(Kind):
    """The pod without controller, and every pod whose controller is of no other kind.

    One with a controller is refused. DaemonSet and static pods are not provisioned for.
    """

    name = "Pod"
    api_version = "v1"
    plural = "pods"
    watched = False

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
        if read.controller(body):
            return []
        (template,) = templates.values()
        return [SliceGroup(name="", hosts=1, template=template, elastic=True)]

    def find_ending(self, body: Json, _conditions: Collection[str]) -> str:
        """Return the phase of a pod that has ended."""
        phase = read.text(body, "status", "phase")
        return phase if phase in _OVER else ""

    def find_group(self, pod: PodView, workload: WorkloadView) -> SliceGroup | None:
        """Return the pod's group; one with a controller is refused."""
        if pod.controller_kind:
            others = ", ".join(kind.name for kind in _CONTROLLED)
            raise refuse(
                "controller_unknown",
                f"{pod.controller_api_version} {pod.controller_kind}".strip(),
                pod=pod,
                others=others,
            )
        return super().find_group(pod, workload)


KINDS: tuple[Kind, ...] = (*_CONTROLLED, BarePod())
"""In the order in which a pod is matched: a kind comes before any kind whose objects it creates."""
PARENT, judge_parent = RAYJOB, judge_rayjob
"""The kind that makes workloads of another kind, and what it keeps after its own end: read for an
Event, for no decision."""
KIND_NAMES = tuple(kind.name for kind in KINDS)
_BY_NAME = {kind.name: kind for kind in KINDS}
find_kind = _BY_NAME.get  # return the kind of a name, or None
get_kind = _BY_NAME.__getitem__  # return the kind of a name; KeyError if the table does not have it


def find_kind_of_pod(pod: PodView) -> Kind | None:
    """Return the first kind in the table whose workload the pod belongs to, or None."""
    return next((kind for kind in KINDS if kind.find_owner(pod)), None)


def select_pods(kind: Kind) -> str:
    """Return the label selector of the pods that may be leaders of this kind only."""
    return ",".join(filter(None, (kind.pod_selector, *select_unmarked(kind))))


def select_pods_of(workload: WorkloadView) -> str:
    """Return the label selector of a workload's pods; see `is_pod_of`."""
    kind = get_kind(workload.kind)
    return f"{kind.name_label}={workload.name}" if kind.name_label else select_pods(kind)


def is_pod_of(workload: WorkloadView, pod: PodView) -> bool:
    """Return whether a pod that `select_pods_of` selects is one of the workload.

    No label of a Deployment's or StatefulSet's pods has its name, so others of its kind are
    selected too.
    """
    kind = get_kind(workload.kind)
    return bool(kind.name_label) or (
        find_kind_of_pod(pod) is kind and kind.find_owner(pod) == workload.name
    )


def select_unmarked(kind: Kind) -> list[str]:
    """Return the terms of a label selector: of objects that no earlier kind created."""
    return [f"!{earlier.mark}" for earlier in KINDS[: KINDS.index(kind)] if earlier.mark]


def choose_kinds(names: Collection[str]) -> tuple[Kind, ...]:
    """Return the kinds of these names, in the table's order, without unknown names."""
    return tuple(kind for kind in KINDS if kind.name in names)
