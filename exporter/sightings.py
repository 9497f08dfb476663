"""Turns what a watch shows into events, each fact once: the exporter's whole memory.

Pure: no I/O, no clock. One small entry per object that is in the watch now, dropped when it leaves or when a
listing no longer shows it. Losing the memory is harmless: what stands is then reported once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from exporter.predicates import (
    active_jobs,
    is_demand,
    is_ours_to_watch,
    jobset_name_of,
    standing_of,
)
from shared.core import labels as label_keys
from shared.core.events import Event, EventType, ObjectName, Observed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exporter.resources import JobSet, Pod

T_contra = TypeVar("T_contra", contravariant=True)
Entry = TypeVar("Entry")


class Sightings(Protocol[T_contra]):
    """What a watch tells, and the events that follow from it."""

    def begin_listing(self) -> None:
        """Start over: what the listing does not show by its end has left the watch meanwhile."""

    def see(self, seen: T_contra) -> Iterable[Event]:
        """Return the events that one present object gives rise to."""

    def lose(self, gone: T_contra) -> Iterable[Event]:
        """Return the events that an object's leaving the watch gives rise to."""

    def finish_listing(self) -> Iterable[Event]:
        """Return the events of all that left while nobody watched."""

    @property
    def standing(self) -> int:
        """How many objects are in the state that this watch is about."""

    def __len__(self) -> int:
        """Return how many objects are in the watch."""


class _Generations(Generic[Entry]):
    """Entries by UID, marked with the listing that last showed them."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._unseen: set[str] = set()

    def begin(self) -> None:
        self._unseen = set(self.entries)

    def mark(self, uid: str) -> None:
        self._unseen.discard(uid)

    def sweep(self) -> list[tuple[str, Entry]]:
        """Remove and return the entries that the listing did not show."""
        gone = [(uid, self.entries.pop(uid)) for uid in self._unseen if uid in self.entries]
        self._unseen = set()
        return gone


class PodSightings:
    """Leaders without a node: each UID is reported once, when it is first seen to be a demand.

    Under the selector ``spec.nodeName=`` a pod leaves the watch by being bound as well as by being deleted, and
    the last body is the old one in both cases; so nothing is ever reported from a pod's leaving.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._generations: _Generations[bool] = _Generations()
        self._reported: set[str] = set()

    def begin_listing(self) -> None:
        """Start a listing."""
        self._generations.begin()

    def see(self, seen: Pod) -> Iterable[Event]:
        """Return the demand of a pod that is one for the first time."""
        uid = seen.metadata.uid
        self._generations.mark(uid)
        self._generations.entries[uid] = demanding = is_demand(seen)
        if not demanding or uid in self._reported:
            return ()
        self._reported.add(uid)
        return (self._demand(seen),)

    def lose(self, gone: Pod) -> Iterable[Event]:
        """Forget a pod; report nothing."""
        self._forget(gone.metadata.uid)
        return ()

    def finish_listing(self) -> Iterable[Event]:
        """Forget the pods that the listing did not show; report nothing."""
        for uid, _ in self._generations.sweep():
            self._forget(uid)
        return ()

    @property
    def standing(self) -> int:
        """How many leaders are unschedulable now."""
        return sum(self._generations.entries.values())

    def __len__(self) -> int:
        """Return how many pods are in the watch."""
        return len(self._generations.entries)

    def _forget(self, uid: str) -> None:
        self._generations.entries.pop(uid, None)
        self._reported.discard(uid)

    def _demand(self, pod: Pod) -> Event:
        metadata = pod.metadata
        # JobSets before 0.9 do not label their pods with the JobSet's UID; the reader then has to look it up.
        jobset_uid = (metadata.labels or {}).get(label_keys.JOBSET_UID_ON_POD, "")
        workload = ObjectName(
            kind="JobSet", namespace=metadata.namespace, name=jobset_name_of(pod), uid=jobset_uid
        )
        return Event(
            type=EventType.DEMAND,
            cluster=self._cluster,
            subject=_name("Pod", pod),
            observed=Observed.UNSCHEDULABLE,
            workload=workload if jobset_uid else None,
        )


@dataclass(slots=True)
class _JobSetEntry:
    name: ObjectName
    standing: tuple[Observed, str] | None = None
    """What was last reported."""
    terminating: bool = False
    was_active: bool = False
    """Whether Jobs were still active when or after `standing` was reported."""


class JobSetSightings:
    """Workloads that are over: completed, failed, suspended, being deleted, gone; and drained after that."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._generations: _Generations[_JobSetEntry] = _Generations()

    def begin_listing(self) -> None:
        """Start a listing."""
        self._generations.begin()

    def see(self, seen: JobSet) -> Iterable[Event]:
        """Return what is new about a JobSet: that it is over, is being deleted, or has drained since."""
        if not is_ours_to_watch(seen):
            return ()
        uid = seen.metadata.uid
        self._generations.mark(uid)
        entry = self._generations.entries.get(uid)
        if entry is None:
            entry = self._generations.entries[uid] = _JobSetEntry(_name("JobSet", seen))
        return [
            *self._new_standing(entry, seen),
            *self._new_termination(entry, seen),
            *self._drained(entry, seen),
        ]

    def lose(self, gone: JobSet) -> Iterable[Event]:
        """Return that a JobSet is gone."""
        if not is_ours_to_watch(gone):
            return ()
        self._generations.entries.pop(gone.metadata.uid, None)
        return (self._over(_name("JobSet", gone), Observed.DELETED, ""),)

    def finish_listing(self) -> Iterable[Event]:
        """Return the JobSets that were deleted while nobody watched."""
        return [self._over(entry.name, Observed.DELETED, "") for _, entry in self._generations.sweep()]

    @property
    def standing(self) -> int:
        """How many JobSets are over but still exist."""
        return sum(entry.standing is not None for entry in self._generations.entries.values())

    def __len__(self) -> int:
        """Return how many JobSets are in the watch."""
        return len(self._generations.entries)

    def _new_standing(self, entry: _JobSetEntry, jobset: JobSet) -> Iterable[Event]:
        standing = standing_of(jobset)
        if standing == entry.standing:
            return ()
        entry.standing, entry.was_active = standing, False
        return () if standing is None else (self._over(entry.name, *standing),)

    def _new_termination(self, entry: _JobSetEntry, jobset: JobSet) -> Iterable[Event]:
        """Return that a foreground deletion has begun; that it has ended is a second event, from `lose`."""
        since = jobset.metadata.deletion_timestamp
        if not since or entry.terminating:
            return ()
        entry.terminating = True
        return (self._over(entry.name, Observed.DELETED, since),)

    def _drained(self, entry: _JobSetEntry, jobset: JobSet) -> Iterable[Event]:
        """Return that the Jobs of a JobSet which is over have stopped, if they had not when it was reported."""
        if entry.standing is None:
            return ()
        if active_jobs(jobset):
            entry.was_active = True
            return ()
        if not entry.was_active:
            return ()
        entry.was_active = False
        observed, since = entry.standing
        return (self._over(entry.name, Observed.DRAINED, f"{observed}@{since}"),)

    def _over(self, name: ObjectName, observed: Observed, incarnation: str) -> Event:
        return Event(
            type=EventType.WORKLOAD_OVER,
            cluster=self._cluster,
            subject=name,
            observed=observed,
            incarnation=incarnation,
        )


def _name(kind: str, found: Pod | JobSet) -> ObjectName:
    metadata = found.metadata
    return ObjectName(kind=kind, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
