"""What is watched, and the events that follow from what a watch shows, each fact once.

Pure: no I/O, no clock. One small entry per object that matters, dropped when it leaves the watch or
when a listing no longer shows it. Losing the memory is harmless: what is true then is reported
once more. The rules of one kind of workload are in its entry of `shared.kinds`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from shared.edges.kubernetes import ObjectMeta, Record, decoder_of
from shared.edges.kueue import API_VERSION, read_queued
from shared.edges.pods import Pod, PodSpec, PodStatus, find_refusal, read_template, view_pod
from shared.kinds.kind import Kind, is_leader
from shared.kinds.table import find_kind, find_kind_of_pod, select_pods, select_unmarked
from shared.model.labels import DISABLE_AUTOPROVISIONING
from shared.model.messages import Event, EventType
from shared.model.names import ObjectName
from shared.model.times import format_time
from shared.model.workloads import PodView, QueuedWorkload, WorkloadView

Seen = TypeVar("Seen", bound="WatchedPod | ObjectName")
Entry = TypeVar("Entry")
_NOTHING: Mapping[str, str] = {}
_SPEC = decoder_of(PodSpec)
_BODY = msgspec.json.Decoder(dict[str, Any])


class WatchedPod(Record):
    """A pod whose spec stays undecoded until its status makes it a demand: most are none."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def uid(self) -> str:
        """Return the UID of the pod."""
        return self.metadata.uid


_POD = msgspec.json.Decoder(WatchedPod)


class ObservedObjects(ABC, Generic[Seen, Entry]):
    """One list of the Kubernetes API, what its watch tells, and the events that follow from it.

    One entry by UID for each object in the watch of which something may still follow, and which of
    them a listing has not shown. An object that leaves is forgotten, and nothing is reported of it
    unless a subclass does.
    """

    name: str  # in logs, metrics and health
    path: str
    operator: str  # what must be installed for this list to exist
    optional: bool = False  # whether a cluster that does not know the list is as it should be
    params: Mapping[str, str] = {}  # selectors that the server applies
    role: str = ""
    """The folder of the optional role that allows it, without which the exporter is ready too;
    empty if the base allows it."""

    def __init__(self, cluster: str, read: Callable[[msgspec.Raw], Seen]) -> None:
        """Begin empty; `read` decodes one object, and may raise anything for one that is odd."""
        self.read, self._cluster = read, cluster
        self._entries: dict[str, Entry] = {}
        self._unseen: set[str] = set()

    @property
    def standing(self) -> int:
        """How many objects are in the state that this watch is about."""
        return sum(map(bool, self._entries.values()))

    @abstractmethod
    def see(self, item: Seen) -> Iterable[Event]:
        """Return the events that one present object gives rise to."""

    def lose(self, item: Seen) -> Iterable[Event]:
        """Return the events that an object's leaving the watch gives rise to, and forget it."""
        self._entries.pop(item.uid, None)
        return ()

    def begin_listing(self) -> None:
        """Start over: what the listing does not show by its end has left the watch meanwhile."""
        self._unseen = set(self._entries)

    def finish_listing(self) -> Iterable[Event]:
        """Return the events of all that left during a break of the watch."""
        entries = [self._entries.pop(uid) for uid in self._unseen if uid in self._entries]
        self._unseen = set()
        return [event for entry in entries for event in self._report_gone(entry)]

    def miss(self, uid: str) -> None:
        """Note that an object is there, but cannot be read: a listing has not shown that it left.

        Without a UID it may be any object, so the listing shows of none that it left.
        """
        if uid:
            self._unseen.discard(uid)
        else:
            self._unseen.clear()

    def _report_gone(self, _entry: Entry) -> Iterable[Event]:
        return ()

    def _event(self, kind: EventType, subject: ObjectName, cause: str) -> Event:
        return Event(type=kind, cluster=self._cluster, subject=subject, cause=cause)


class ObservedPods(ObservedObjects[WatchedPod, bool]):
    """Pods without nodes: each leader is reported once, when it first needs nodes, and remembered.

    The event names the workload of the pod, because one answer serves all of its pods.

    Under the selector ``spec.nodeName=`` a pod leaves the watch by being bound as well as by being
    deleted, and the last body is the old one in both cases; so nothing is reported of a pod that
    left. It is the one indexed selector: the API server wakes this watch only for events of unbound
    pods (https://github.com/kubernetes/kubernetes/blob/master/pkg/registry/core/pod/strategy.go).
    """

    path = "/api/v1/pods"

    def __init__(self, cluster: str, kind: Kind) -> None:
        super().__init__(cluster, _POD.decode)
        self._kind, self.operator = kind, kind.name
        self.name = f"pods of {kind.plural}" if kind.watched else "bare pods"
        self.params = {"labelSelector": select_pods(kind), "fieldSelector": "spec.nodeName="}

    def see(self, item: WatchedPod) -> Iterable[Event]:
        """Return the demand of a pod that is one for the first time."""
        uid = item.uid
        self._unseen.discard(uid)
        if uid in self._entries:
            self._entries[uid] = may_wait(item)
            return ()
        view = find_demand(item, self._kind)
        if view is None:
            return ()
        self._entries[uid] = True
        workload = ObjectName(
            kind=self._kind.name,
            namespace=view.namespace,
            name=self._kind.find_owner(view),
            # The reader looks it up if the pods of this kind do not carry it.
            uid=self._kind.find_owner_uid(view),
        )
        return (self._event(EventType.DEMAND, workload, uid),)


@dataclass(frozen=True, slots=True)
class Workload:
    """What was last seen of a workload, as far as an event follows from it."""

    name: ObjectName
    over: str = ""  # why it needs no slices; empty while it needs them
    wanted: Mapping[str, int] = field(default_factory=dict)  # how many slices each group wants


class ObservedWorkloads(ObservedObjects["WorkloadView", Workload]):
    """Workloads of one kind that are over: completed, failed, suspended, deleted.

    And those that need fewer slices than before. A tick finds when their last pods have ended.
    """

    def __init__(self, cluster: str, kind: Kind) -> None:
        super().__init__(cluster, lambda raw: kind.read(_BODY.decode(raw), read_template))
        self.name, self.path, self.operator = kind.plural, kind.path, kind.name
        self.optional = not kind.install
        if unmarked := select_unmarked(kind):
            self.params = {"labelSelector": ",".join(unmarked)}

    def see(self, item: WorkloadView) -> Iterable[Event]:
        """Return that a workload is over, for another cause than before, or needs fewer slices."""
        if self._has_no_slices(item):
            return ()
        self._unseen.discard(item.uid)
        now = view_workload(item)
        before = self._entries.get(item.uid, Workload(now.name))
        self._entries[item.uid] = now
        if now.over not in ("", before.over):
            return (self._over(now.name, now.over),)
        # A group that was removed wants none.
        fewer = any(now.wanted.get(name, 0) < count for name, count in before.wanted.items())
        if fewer and not now.over:
            return (self._over(now.name, f"scaled, generation {item.generation}"),)
        return ()

    def lose(self, item: WorkloadView) -> Iterable[Event]:
        """Return that a workload is gone."""
        if self._has_no_slices(item):
            return ()
        super().lose(item)
        return self._report_gone(view_workload(item))

    @property
    def standing(self) -> int:
        """How many workloads are over but still exist."""
        return sum(entry.over != "" for entry in self._entries.values())

    def _has_no_slices(self, item: WorkloadView) -> bool:
        """Return whether a workload cannot have a pool: run elsewhere, or without accelerators."""
        elsewhere = item.managed_elsewhere or bool(item.part_of)
        return elsewhere or (not item.groups and item.uid not in self._entries)

    def _report_gone(self, entry: Workload) -> Iterable[Event]:
        return (self._over(entry.name, "gone"),)

    def _over(self, name: ObjectName, cause: str) -> Event:
        return self._event(EventType.WORKLOAD_OVER, name, cause)


class ObservedQueues(ObservedObjects["QueuedWorkload", str]):
    """Kueue's Workloads that have quota and wait for a check: each reservation is reported once.

    Which checks this provisioner answers is not known here; the receiver looks. No selector tells
    which Workloads have quota.
    """

    name, path, operator = "Kueue's workloads", f"/apis/{API_VERSION}/workloads", "Kueue"
    optional, role = True, "the chart infra/helm with kueue=true"

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster, lambda raw: read_queued(_BODY.decode(raw)))

    def see(self, item: QueuedWorkload) -> Iterable[Event]:
        """Return the demand of the workload that a new reservation is for."""
        self._unseen.discard(item.uid)
        before = self._entries.get(item.uid, "")
        waits = self._entries[item.uid] = quota_of(item)
        if waits in ("", before):
            return ()
        return (self._event(EventType.DEMAND, item.owner, waits),)


def find_demand(pod: WatchedPod, kind: Kind) -> PodView | None:
    """Return a pod that leads a slice or elastic pool of one kind and waits for new nodes."""
    if not may_wait(pod):
        return None
    view = view_pod(Pod(metadata=pod.metadata, spec=_SPEC.decode(pod.spec), status=pod.status))
    of_kind = find_kind_of_pod(view)
    if not view.waits or of_kind is None or of_kind.name != kind.name:
        return None
    return view if view.template.wants_accelerator and is_leader(kind, view) else None


def may_wait(pod: WatchedPod) -> bool:
    """Return whether a pod waits, as far as its status and its author say: what may change.

    The scheduler found no node for it, and preempts no other pod for it.
    """
    status = pod.status
    held = pod.metadata.deletion_timestamp or status.nominated_node_name
    pending = status.phase == "Pending" and find_refusal(status) is not None
    return pending and not held and not _is_opted_out(pod.metadata)


def _is_opted_out(metadata: ObjectMeta) -> bool:
    """Return whether the author disabled provisioning, by label or by annotation."""
    places = (metadata.labels or _NOTHING, metadata.annotations or _NOTHING)
    return any(place.get(DISABLE_AUTOPROVISIONING) == "true" for place in places)


def view_workload(item: WorkloadView) -> Workload:
    """Return what matters of a workload: why it is over, and its size."""
    name = ObjectName(kind=item.kind, namespace=item.namespace, name=item.name, uid=item.uid)
    return Workload(name, find_over(item), {group.name: group.replicas for group in item.groups})


def find_over(workload: WorkloadView) -> str:
    """Return why a workload needs no slices now; empty while it needs them.

    A terminal state outranks a suspension. The time tells a second suspension from the first. A
    foreground deletion begins here; leaving the watch tells its end.
    """
    causes = []
    if workload.terminal:
        causes = [workload.terminal]
    elif workload.suspended_since is not None:
        causes = [f"Suspended {format_time(workload.suspended_since)}"]
    if workload.deleting:
        causes.append("Deleting")
    return ", ".join(causes)


def quota_of(queued: QueuedWorkload) -> str:
    """Return what tells one reservation of quota that waits for a check from the next, or nothing.

    A message cannot name an owner of an unknown kind, which the tick answers.
    """
    waits = queued.holds_quota and any(each.state == "Pending" for each in queued.checks)
    if not waits or find_kind(queued.owner.kind) is None:
        return ""
    return f"quota since {format_time(queued.reserved_at)}"


def list_observed(
    cluster: str, kinds: Collection[Kind], *, queues: bool = False
) -> list[ObservedObjects[Any, Any]]:
    """Return the pods and the workloads of each kind; only the pods where they are the workloads.

    With `queues`, Kueue's Workloads too.
    """
    pods = [ObservedPods(cluster, kind) for kind in kinds]
    workloads = [ObservedWorkloads(cluster, kind) for kind in kinds if kind.watched]
    return [*pods, *workloads, *([ObservedQueues(cluster)] if queues else ())]
