"""What one kind of workload answers: how a pod leads to it, which slice the pod is of, and when that is over.

An entry is one `Kind` in a module of its own. Everything else (exporter, functions, CLI) works over the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core import labels
from shared.core.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

Json = Mapping[str, Any]
TemplateReader = Callable[[Json], PodTemplate]
"""Reads the JSON of a PodTemplateSpec; passed in by edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOfPod:
    """One slice of a live workload."""

    name: str
    """Unique within its namespace and kind, the same for the pods that replace its pods; a legal label value."""
    group: SliceGroup


@dataclass(frozen=True, slots=True)
class KindText:
    """What people read of a kind, in `docs/kinds.md`; plain words without line breaks."""

    speakers: str
    """Which pods speak for their slice."""
    slice: str
    """What one slice is, and its name."""
    over: str
    """When the workload is over."""
    released: str
    """What else releases a slice's pool."""


def _hint_nothing(pod: PodView) -> str:
    return pod.uid


def _is_never_whole(_pod: PodView) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Where the API has the objects of a kind."""

    name: str
    """The API's kind, for example the one in ``kind:`` of a manifest."""
    api_version: str
    """Group and version, as in a manifest."""
    plural: str
    """As in the API's paths."""

    @property
    def group(self) -> str:
        """Return the API group, without the version."""
        return self.api_version.rpartition("/")[0]

    @property
    def path(self) -> str:
        """Return the path of the list of all namespaces."""
        return f"/apis/{self.api_version}/{self.plural}"

    def path_of(self, namespace: str, name: str) -> str:
        """Return the path of one object."""
        return f"/apis/{self.api_version}/namespaces/{namespace}/{self.plural}/{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentKind(Resource):
    """A kind whose objects make workloads of a kind of the table, and may keep them when they have ended."""

    judge: Callable[[Json], str]
    """Return from its JSON how it ended, that it keeps its workload and what would release that; empty where it
    has not ended or is about to let go. Raises `shared.core.kinds.objects.UnexpectedValue`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Resource):
    """One kind of workload. Every function is pure and accepts whatever a stranger may write."""

    text: KindText

    pod_selector: str
    """Label selector, applied by the server, of the pods that may speak for a slice; see `table.select_pods`."""
    member_selector: str = ""
    """Label selector of all pods of its slices, where not all of them speak; empty where every pod does."""
    find_owner: Callable[[PodView], str]
    """Return the workload's name as the pod says it; empty if the pod is not of this kind."""
    find_owner_uid: Callable[[PodView], str]
    """Return the workload's UID where the pod says it, else empty."""
    speaks: Callable[[PodView], bool]
    """Return whether this is the one pod that speaks for its slice. Where a pod cannot know, all of them do."""
    speaks_rule: str
    """The same in words, after "only", for those who wonder about a pod that does not."""
    slice_hint: Callable[[PodView], str] = _hint_nothing
    """Return what the pod alone says of its slice, to tell its pods from those of other slices of the same
    workload; the pod's UID when it cannot say."""

    is_whole: Callable[[PodView], bool] = _is_never_whole
    """Return whether a pod says that it is one of several that need a pool of their own (`SliceGroup.whole`)."""

    read: Callable[[Json, TemplateReader], WorkloadView]
    """Return a workload from the API's JSON; raises `shared.core.kinds.objects.UnexpectedValue`."""
    find_slice: Callable[[PodView, WorkloadView], SliceOfPod | None]
    """Return the slice of a pod; None when the live workload knows no such slice (a forged or stale pod). Raises
    `shared.core.errors.SliceUnknown`, with what its owner can do, when the pod's slice cannot be told."""
    list_slices: Callable[[WorkloadView], Sequence[SliceOfPod]]
    """Return all that the spec wants; each group's template is as the pods of that slice will have it. Raises
    `shared.core.errors.Rejected` as `find_slice` does."""
    has_slice: Callable[[WorkloadView, str, Sequence[PodView] | None], bool]
    """Return whether the slice of this name is still wanted. The third are the workload's live pods; None where
    `pods_of` names none."""
    pods_of: Callable[[WorkloadView], str] | None = None
    """Return the label selector of all the accelerator pods of a workload, where it must be seen which slice is on
    which pool; empty for a workload of which that does not matter. None where it never does."""
    reshapes: bool = False
    """Whether the shape of a slice may change while its workload lives."""

    parents: tuple[ParentKind, ...] = ()
    """What makes such workloads and may keep them without use; read to explain only, never to decide."""
    watched: bool = True
    """Whether the exporter watches the workloads too; where they are all the cluster's pods, only sweeps look."""
    mark: str = ""
    """Label that stands on everything that the kind's controller makes, so that lists of kinds that come later in
    the table leave it out."""
    parent_kind: str
    """Value of the pool's label ``google.com/tpu-provisioner-parent-kind``."""
    name_label: str = labels.WORKLOAD_NAME
    """Label of a pool that carries the workload's name, where older pools carry another than ours."""
    namespace_label: str = ""
    """A further label that carries its namespace, likewise."""
    pin_label: str = ""
    """Node label by which the kind's controller pins a slice's pods; its value is ``namespace_slice``."""
    pin_taint: str = ""
    """Taint that the nodes of a pinned slice carry, which its pods tolerate."""
    pin_advice: str = ""
    """What in a workload would make its slices pinned, for its author; empty where nothing does."""
    install: str = ""
    """Command that installs the kind, where a cluster without it is a mistake; empty where it is a choice."""

    @property
    def group(self) -> str:
        """Return the API group, without the version."""
        return self.api_version.rpartition("/")[0]

    @property
    def path(self) -> str:
        """Return the path of the list of all namespaces."""
        return f"{self._root}/{self.plural}"

    def path_of(self, namespace: str, name: str) -> str:
        """Return the path of one workload."""
        return f"{self._root}/namespaces/{namespace}/{self.plural}/{name}"

    @property
    def _root(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
