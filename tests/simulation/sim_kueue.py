"""Kueue in one cluster of a story: quota for pods, our check, eviction, and what it resumes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from shared.model.errors import StaleView
from shared.model.messages import Event, EventType
from shared.model.names import ObjectName
from shared.model.workloads import Check, CheckState, QueuedWorkload, WorkloadView
from tests.simulation.sim_workloads import NAMESPACE, Workload

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import SimCluster
    from tests.simulation.sim_world import World

CHECK = "capacity"
AGAIN_SECONDS = (30.0, 300.0, 900.0)  # when Kueue may admit an evicted workload again


@dataclass(slots=True, eq=False)
class Entry:
    made: Workload
    waits_until: float = 0.0  # Kueue does not admit it before
    reserved_at: float | None = None
    evicted: bool = False
    active: bool = True
    admitted_at: float | None = None
    state: CheckState = CheckState(name=CHECK, state="Pending")  # noqa: RUF009 -- it never changes
    version: int = 1
    part_since: float | None = None
    """Since when it holds a part of its pools, and waits; kept by the judge."""

    @property
    def holds_quota(self) -> bool:
        """Return whether it runs once its check is Ready."""
        losing = self.state.state in ("Retry", "Rejected")
        return self.reserved_at is not None and self.active and not (self.evicted or losing)


class Kueue:
    """The queue of one cluster; it is its own port, `shared.engine.outside.Queues`."""

    def __init__(self, world: World, cluster: SimCluster) -> None:
        self._world, self._cluster = world, cluster
        self.entries: dict[str, Entry] = {}
        """By the UID of the owner."""

    def see(self, made: Workload) -> None:
        self.entries[made.uid] = Entry(made)
        self._soon()

    def note_end(self, made: Workload) -> None:
        """Give the quota of a workload back that is over or gone."""
        entry = self.entries.get(made.uid)
        if entry is not None and (made.terminal or made.deleting_since is not None):
            del self.entries[made.uid]
            self._soon()

    def evict(self, made: Workload, seconds: float | None = None) -> None:
        """Take the quota of a workload away, as for one of a higher priority; it waits again."""
        entry = self.entries.get(made.uid)
        if entry is None or entry.reserved_at is None:
            return
        self._world.tell(f"Kueue evicts {made.name}")
        now, rng = self._world.time.now, self._world.rng
        entry.evicted, entry.version = True, entry.version + 1
        if not made.suspended:
            self._cluster.suspend(made)

        def requeue() -> None:
            entry.reserved_at = entry.admitted_at = None
            entry.evicted = False
            entry.state = CheckState(name=CHECK, state="Pending", retries=entry.state.retries)
            entry.version += 1
            self._soon()

        entry.waits_until = now + (rng.choice(AGAIN_SECONDS) if seconds is None else seconds)
        self._world.time.after(2 + rng.random() * 10, requeue)
        self._world.time.at(entry.waits_until, self._soon)

    def _soon(self) -> None:
        self._world.time.after(0.5 + self._world.rng.random(), self._admit)

    def _admit(self) -> None:
        now = self._world.time.now
        used = sum(len(each.made.list_wanted()) for each in self.entries.values() if each.reserved_at is not None)
        for entry in self.entries.values():
            wanted = len(entry.made.list_wanted())
            waits = entry.reserved_at is None and entry.active and entry.waits_until <= now
            if waits and used + wanted <= self._world.scenario.quota_pods:
                used += wanted
                entry.reserved_at, entry.version = float(int(now)), entry.version + 1
                self._world.tell(f"Kueue has quota for {entry.made.name}")
                self._world.note_change()
                self._publish(entry)

    def _publish(self, entry: Entry) -> None:
        cluster, subject = self._cluster.name, self._show(entry).owner
        if self._world.exporters[cluster].up:
            cause = f"quota {entry.version}"
            event = Event(type=EventType.DEMAND, cluster=cluster, subject=subject, cause=cause)
            self._world.publish(cluster, event)

    def _answer(self, uid: str, version: str, state: CheckState, retry_seconds: int | None) -> None:
        """Take what the check says, unless the Workload has changed meanwhile."""
        entry = self.entries.get(uid)
        if entry is None or str(entry.version) != version:
            raise StaleView("the Workload has changed")
        self._world.tell(f"the check of {entry.made.name} is {state.state}: {state.message}")
        self._world.judge.see_check(self._cluster, entry, state)
        entry.state, entry.version = state, entry.version + 1
        self._world.note_change()
        if state.state == "Ready":
            self._world.time.after(0.5 + self._world.rng.random(), lambda: self._resume(entry))
        elif state.state == "Retry":
            entry.state = replace(state, retries=state.retries + 1)
            self._world.time.after(float(retry_seconds or 0), lambda: self.evict(entry.made, 0.0))
        elif state.state == "Rejected":
            entry.active = False
            self.evict(entry.made, 0.0)

    def _resume(self, entry: Entry) -> None:
        if entry.holds_quota and entry.state.state == "Ready" and entry.made.suspended:
            entry.admitted_at = self._world.time.now
            self._world.tell(f"Kueue resumes {entry.made.name}")
            self._cluster.resume(entry.made)

    def _show(self, entry: Entry) -> QueuedWorkload:
        """Return a Workload as the product's own reader sees it."""
        made = entry.made
        return QueuedWorkload(
            namespace=NAMESPACE,
            name=f"wl-{made.name}",
            uid=made.uid,
            version=str(entry.version),
            owner=ObjectName(kind=made.kind, namespace=NAMESPACE, name=made.name, uid=made.uid),
            checks=(entry.state,) if entry.reserved_at is not None else (),
            reserved_at=entry.reserved_at,
            holds_quota=entry.holds_quota,
        )

    # --- what the product asks --------------------------------------------------------------------

    def list_checks(self) -> list[Check]:
        self._world.faults.read("list_checks", self._cluster.name)
        return [Check(name=CHECK, active=True)]

    def mark_active(self, check: Check) -> None:
        """Mark nothing: the check is active."""

    def list_workloads(self) -> Iterable[QueuedWorkload]:
        self._world.faults.read("list_workloads", self._cluster.name)
        return [self._show(entry) for entry in self.entries.values()]

    def list_owned(self, namespace: str, owner_uid: str) -> Iterable[QueuedWorkload]:
        self._world.faults.read("list_owned", self._cluster.name)
        return [self._show(entry) for uid, entry in self.entries.items() if uid == owner_uid]

    def view_owner(self, queued: QueuedWorkload) -> WorkloadView | None:
        """Return the owner of a Workload as Kueue will resume it."""
        self._world.faults.read("view_owner", self._cluster.name)
        entry = self.entries.get(queued.owner.uid)
        return entry.made.view if entry else None

    def write_state(self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None) -> None:
        with self._world.faults.changing("write_state", self._cluster.name):
            self._answer(queued.owner.uid, queued.version, state, retry_seconds)
