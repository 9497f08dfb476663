"""The table of what is watched. A further kind of workload is a further row, with its sightings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from exporter.resources import JobSet, Pod
from exporter.sightings import JobSetSightings, PodSightings
from shared.core import labels as label_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from exporter.sightings import Sightings

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedKind(Generic[T]):
    """One list of the Kubernetes API and what its objects mean to us."""

    name: str
    """How logs, metrics and health speak of it."""
    path: str
    shape: type[T]
    """The fields that are read."""
    sightings: Callable[[str], Sightings[T]]
    """Builds the memory for one cluster."""
    params: dict[str, str] = field(default_factory=dict)
    """Selectors that the server applies."""


LEADER_PODS = WatchedKind(
    name="pods",
    path="/api/v1/pods",
    shape=Pod,
    sightings=PodSightings,
    # First pods of JobSet Jobs that are not bound to a node. ``spec.nodeName`` is the one indexed selector: the
    # API server wakes this watch only for events of unbound pods
    # (https://github.com/kubernetes/kubernetes/blob/master/pkg/registry/core/pod/strategy.go).
    params={
        "labelSelector": f"{label_keys.JOB_KEY},{label_keys.COMPLETION_INDEX}=0",
        "fieldSelector": "spec.nodeName=",
    },
)
JOBSETS = WatchedKind(
    name="jobsets",
    path="/apis/jobset.x-k8s.io/v1alpha2/jobsets",
    shape=JobSet,
    sightings=JobSetSightings,
)
WATCHED: tuple[WatchedKind[Any], ...] = (LEADER_PODS, JOBSETS)
