"""Looks at the workloads of a cluster as a tick does, and plans for each. Nothing is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

from cli.exit_codes import say
from shared.engine.budget import Key
from shared.engine.kueue import list_queued
from shared.engine.look import Source, list_slots, make_claim
from shared.engine.reads import read_stop
from shared.engine.reconcile import plan_for
from shared.engine.wakes import list_owners, read_lists
from shared.model.errors import ProvisionerError
from shared.model.names import HASH_CHARACTERS, parse_name
from shared.plan.counting import Census

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from shared.engine.look import Lists, Look
    from shared.engine.outside import Ports
    from shared.model.pools import Operation
    from shared.plan.scene import Plan

READ_SECONDS = 50.0


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One workload as it is now, and the plan for it."""

    look: Look
    plan: Plan

    @cached_property
    def census(self) -> Census:
        """Return what the plan has counted."""
        return Census(self.look.scene)

    @cached_property
    def slots(self) -> dict[str, str]:
        """Return the slot of each hash in the names of its pools, also of pools that are gone."""
        key, uid = self.look.key, self.look.workload.uid if self.look.workload else self.look.key.uid
        claims = [
            make_claim(key, uid, need.key, slot) for need in self.look.scene.needs for slot in list_slots(need)
        ]
        found = {claim.hash[:HASH_CHARACTERS]: str(claim.slot) for claim in claims}
        for pool in self.look.scene.pools:
            if parsed := parse_name(pool.name):
                found.setdefault(parsed.hash, "" if pool.slot is None else str(pool.slot))
        return found


@dataclass(slots=True, kw_only=True)
class Reading:
    """What one cluster has."""

    cluster: str
    now: float
    """Unix seconds."""
    lists: Lists | None = None
    """None if something could not be listed."""
    planned: list[Planned] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stop: str = ""
    """Why its emergency stop is on, in words; empty if it is off."""

    def list_operations(self, hashes: Collection[str]) -> list[Operation]:
        """Return what GKE did with pools whose names have one of these hashes, the oldest first."""
        operations = self.lists.operations if self.lists else {}
        found = [each for key in hashes for _, each in operations.get(key, ())]
        return sorted(found, key=lambda each: each.began_at or 0.0)


def read_cluster(
    cluster: str, ports: Ports, *, chooses: Callable[[Key], bool] = lambda _key: True, also: Iterable[Key] = ()
) -> Reading:
    """Return the workloads of a cluster that have pools or waiting pods, with their plans."""
    reading = Reading(cluster=cluster, now=ports.clock.now())
    reading.stop = read_stop(cluster, ports.settings.own_namespace, ports)[1]
    try:
        reading.lists = read_lists(cluster, ports)
    except ProvisionerError as error:
        reading.errors.append(say(error))
        return reading
    owners = [key for key in list_owners(reading.lists) if chooses(key)]
    _plan_all(owners, reading, ports)
    found = [*_list_waiting(reading), *_list_queued(reading, ports), *also]
    waiting = [key for key in found if chooses(key)]
    live = {_name(one.look.key) for one in reading.planned if one.look.workload}
    _plan_all([key for key in dict.fromkeys(waiting) if _name(key) not in live], reading, ports)
    return reading


def _list_waiting(reading: Reading) -> list[Key]:
    """Return the workloads with a pod that has no node, also if a tick leaves it to its message."""
    pods = reading.lists.pods if reading.lists else {}
    return [Key(reading.cluster, *owner) for owner, own in pods.items() if not all(pod.node_name for pod in own)]


def _list_queued(reading: Reading, ports: Ports) -> list[Key]:
    """Return the workloads in Kueue's queues that wait for their pools before they have pods."""
    try:
        queued = list_queued(reading.cluster, ports)
    except ProvisionerError as error:
        reading.errors.append(f"Kueue's Workloads: {say(error)}")
        return []
    return [Key(reading.cluster, each.owner.kind, each.namespace, each.owner.name) for each in queued]


def _plan_all(keys: Sequence[Key], reading: Reading, ports: Ports) -> None:
    tasks = [partial(plan_for, key, ports, Source(lists=reading.lists)) for key in keys]
    failed: dict[str, list[str]] = {}
    for key, result in zip(keys, ports.crew.run(tasks, seconds=READ_SECONDS), strict=True):
        if isinstance(result, ProvisionerError):
            failed.setdefault(result.reason, []).append(f"{key}: {say(result)}")
        elif isinstance(result, Exception):
            raise result
        else:
            reading.planned.append(Planned(look=result[0], plan=result[1]))
    for first, *others in failed.values():
        reading.errors.append(first + (f" (and {len(others)} more)" if others else ""))


def _name(key: Key) -> tuple[str, str, str]:
    return key.kind, key.namespace, key.name
