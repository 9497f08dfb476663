"""Defines one kind of workload: how its pods and slices are found, and when they are over.

An entry is one `Kind` in its own module. Exporter, functions and CLI use only the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

Json = Mapping[str, Any]
TemplateReader = Callable[[Json], PodTemplate]
"""Reads the JSON of a PodTemplateSpec; passed in by edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOfPod:
    """One slice of a live workload."""

    name: str
    """Unique within its namespace and kind; the same for replaced pods; a valid label value."""
    group: SliceGroup


def find_controller_uid(find_owner: Callable[[PodView], str], pod: PodView) -> str:
    """Return the UID of the controller, for a kind that is the controller of its pods."""
    return pod.controller_uid if find_owner(pod) else ""


def _find_nothing(*_of: object) -> None:
    """Return None, where a kind has nothing of its own to find or to refuse."""


def _find_only_template(_pod: PodView, workload: WorkloadView) -> PodTemplate | None:
    return workload.templates.get("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The API path of the objects of a kind."""

    name: str
    """The API's kind, as in ``kind:`` of a manifest."""
    api_version: str
    """Group and version, as in a manifest."""
    plural: str
    """As in the API's paths."""
    other_versions: tuple[str, ...] = ()
    """Further versions that the API serves, with the same fields."""

    @property
    def group(self) -> str:
        """Return the API group, without the version."""
        return self.api_version.rpartition("/")[0]

    @property
    def versions(self) -> tuple[str, ...]:
        """Return every version that the API serves, without the group."""
        return (self.api_version.rpartition("/")[2], *self.other_versions)

    @property
    def root(self) -> str:
        """Return the path of its API in its version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    @property
    def path(self) -> str:
        """Return the path of the list of all namespaces."""
        return f"{self.root}/{self.plural}"

    def path_of(self, namespace: str, name: str) -> str:
        """Return the path of one object."""
        return f"{self.root}/namespaces/{namespace}/{self.plural}/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Resource):
    """One kind of workload. Every function is pure and accepts any object that the API accepts."""

    pod_selector: str
    """Label selector, for the server, of the pods that may be leaders; see `table.select_pods`."""
    find_owner: Callable[[PodView], str]
    """Return the workload's name, by the pod; empty if the pod is not of this kind."""
    find_owner_uid: Callable[[PodView], str] = lambda _pod: ""
    """Return the workload's UID, by the pod; empty if the pod does not have it."""
    is_leader: Callable[[PodView], bool] = lambda _pod: True
    """Return whether the pod is the leader of its slice. If the pods do not show it, all are
    leaders."""
    is_whole: Callable[[PodView], bool] = lambda _pod: False
    """Return whether the pod is one of several that need their own pool (`SliceGroup.whole`)."""

    read: Callable[[Json, TemplateReader], WorkloadView]
    """Return a workload from the API's JSON; raises `shared.kinds.objects.UnexpectedValue`."""
    find_slice: Callable[[PodView, WorkloadView], SliceOfPod | None]
    """Return the slice of a pod; None if the live workload does not have it (a forged or stale
    pod). Raises `shared.model.errors.SliceUnknown` if the slice is not clear."""
    find_group: Callable[[PodView, WorkloadView], SliceGroup | None] = _find_nothing
    """Return the group of the spec that a pod belongs to, if groups of slices and of elastic pods
    may exist side by side; None for any other kind, and if the spec has no such group."""
    find_template: Callable[[PodView, WorkloadView], PodTemplate | None] = _find_only_template
    """Return the template of the spec for a pod, even one without accelerators; None if the spec
    has no such pods. The pod may be forged."""
    check_index: Callable[[PodView, WorkloadView], None] = _find_nothing
    """Accept a pod that may get a new pool. Raises `shared.model.errors.SliceUnknown` if its index
    is beyond the spec, for a kind whose `find_slice` also knows pods that run beyond it."""
    list_slices: Callable[[WorkloadView], Sequence[SliceOfPod]] = lambda _workload: ()
    """Return all slices of the spec; each group has the template that the pods of the slice will
    have. Raises `shared.model.errors.Rejected` as `find_slice` does."""
    name_label: str = ""
    """Label on all pods of a workload, whose value is its name; empty if no label has it."""
    pod_sets: Callable[[Json], list[tuple[str, Json]]] | None = None
    """Return the pod templates of an object by the names that Kueue gives its pod sets. None for a
    kind that gets no node pools before it has pods."""

    parents: tuple[Resource, ...] = ()
    """Kinds that create such workloads and may keep them; read for an Event, for no decision."""
    watched: bool = True
    """Whether the exporter watches the workloads too. For bare pods only the tick reads them."""
    mark: str = ""
    """Label on everything that the kind's controller creates, so that the lists of later kinds in
    the table leave it out."""
    pin_label: str = ""
    """Node label by which the kind's controller pins a slice's pods; its value is
    ``namespace_slice``."""
    pin_taint: str = ""
    """Taint on the nodes of a pinned slice, which its pods tolerate."""
    install: str = ""
    """Command that installs the kind, if every cluster needs it; else empty."""
