"""The watches, made from the table of kinds (`shared.kinds`): pods and workloads of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from exporter.observed_objects import ObservedPods, ObservedQueues, ObservedWorkloads, WatchedPod
from shared.edges.kueue import API_VERSION, read_queued
from shared.edges.pods import read_template
from shared.kinds.table import select_pods, select_unmarked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exporter.observed_objects import ObservedObjects
    from shared.kinds.kind import Kind
    from shared.model.kueue import QueuedWorkload
    from shared.model.workloads import WorkloadView

T = TypeVar("T")
_BODY = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedKind(Generic[T]):
    """One list of the Kubernetes API and what its objects mean to us."""

    name: str
    """The name in logs, metrics and health."""
    path: str
    shape: type[Any]
    """What the API's objects are decoded to; `msgspec.Raw` leaves that to `read`, one object at a
    time."""
    read: Callable[[Any], T]
    """Turns a decoded object into what the memory take; raises `UnexpectedValue`."""
    observed: Callable[[str], ObservedObjects[T, Any]]
    """Builds the memory for one cluster."""
    operator: str
    """What must be installed for this list to exist."""
    optional: bool = False
    """Whether a cluster that does not know the list is as it should be."""
    params: dict[str, str] = field(default_factory=dict)
    """Selectors that the server applies."""
    role: str = ""
    """The folder of the optional role that allows it, without which the exporter is ready too;
    empty if the base allows it."""


def watch_pods(kind: Kind) -> WatchedKind[WatchedPod]:
    """Return the watch of the pods of one kind that may lead a slice and have no node.

    ``spec.nodeName`` is the one indexed selector: the API server wakes this watch only for events
    of unbound pods
    (https://github.com/kubernetes/kubernetes/blob/master/pkg/registry/core/pod/strategy.go).
    """
    return WatchedKind(
        name=f"pods of {kind.plural}" if kind.watched else "bare pods",
        path="/api/v1/pods",
        shape=WatchedPod,
        read=lambda pod: pod,
        observed=partial(ObservedPods, kind=kind),
        operator=kind.name,
        params={"labelSelector": select_pods(kind), "fieldSelector": "spec.nodeName="},
    )


def watch_workloads(kind: Kind) -> WatchedKind[WorkloadView]:
    """Return the watch of the workloads of one kind."""
    selector = ",".join(select_unmarked(kind))
    return WatchedKind(
        name=kind.plural,
        path=kind.path,
        shape=msgspec.Raw,
        read=partial(_read, kind),
        observed=partial(ObservedWorkloads, kind=kind),
        operator=kind.name,
        optional=not kind.install,
        params={"labelSelector": selector} if selector else {},
    )


def watch_queues() -> WatchedKind[QueuedWorkload]:
    """Return the watch of Kueue's Workloads. No selector tells which of them have quota."""
    return WatchedKind(
        name="Kueue's workloads",
        path=f"/apis/{API_VERSION}/workloads",
        shape=msgspec.Raw,
        read=_read_queued,
        observed=ObservedQueues,
        operator="Kueue",
        optional=True,
        role="the chart infra/helm with kueue=true",
    )


def list_watched(kinds: Iterable[Kind], *, queues: bool = False) -> tuple[WatchedKind[Any], ...]:
    """Return the two watches of each kind, or one where the pods are the workloads.

    With `queues`, Kueue's Workloads too.
    """
    listed = tuple(kinds)
    workloads = (watch_workloads(kind) for kind in listed if kind.watched)
    return (*map(watch_pods, listed), *workloads, *([watch_queues()] if queues else ()))


def _read(kind: Kind, raw: msgspec.Raw) -> WorkloadView:
    return kind.read(_BODY.decode(raw), read_template)


def _read_queued(raw: msgspec.Raw) -> QueuedWorkload:
    return read_queued(_BODY.decode(raw))
