"""One node pool of a story, as GKE keeps it, and what a request says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from shared.kinds import jobset
from shared.model import labels
from shared.model.names import Owner
from shared.model.pools import ELASTIC_SLOT, FillError, Machines, NodePool, PoolStatus
from tests.builders import read_created
from tests.simulation.sim_workloads import Workload

RESTING = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)
LIVE = (*RESTING, PoolStatus.PROVISIONING, PoolStatus.RECONCILING)
DEFAULT_POOL = NodePool(name="default-pool", status=PoolStatus.RUNNING, machine_type="e2-standard-4", maximum=1)
"""Each cluster has one for its own pods, as GKE lists it; no pod of a story can run there."""


@dataclass(slots=True, eq=False)
class Pool:
    cluster: str
    listed: NodePool  # as GKE lists it
    made_at: float
    size: int = 0  # how many nodes it is to have; of an autoscaled one, the most
    begins: int = 0  # with how many nodes it is created
    smallest: int = 0  # how many nodes the autoscaler leaves it at least
    whole: bool = True  # its hosts are one unit: it has all of them or none
    granted: int = 0  # how many machines it has, those that only start among them
    autoscaled: bool = False
    off: bool = False  # its autoscaling was switched off
    healthy_since: float | None = None
    """Since when all of its nodes are there; of an elastic one, any."""
    relabelled_at: float = 0.0  # when a person last changed its labels, or deleted it
    bound_at: float = 0.0  # when a pod last came to one of its nodes
    left_at: float = 0.0  # when a pod last left one of them
    made_nodes: int = 0
    asked: int = 0  # how many machines the autoscaler wants it to have
    dry_until: float = 0.0  # so long there is no machine for it, whatever its zone has
    refused: bool = False  # its group says that there are no machines for what the autoscaler asks
    refused_at: float = -1e9  # when it said so last
    machines: list[tuple[float, Machines]] = field(default_factory=list)
    """What its instance group said, from which moment on."""

    @property
    def name(self) -> str:
        return self.listed.name

    @property
    def status(self) -> PoolStatus:
        return self.listed.status

    @property
    def zone(self) -> str:
        return self.listed.zones[0]

    @property
    def owner(self) -> Owner | None:
        return self.listed.owner

    @property
    def place(self) -> tuple[str, ...]:
        """Return cluster, owner, need and slot of a pool of ours."""
        owner = self.owner
        return (self.cluster, owner.uid, owner.need, str(owner.slot)) if owner else ()

    @property
    def pin(self) -> str:
        """Return the slice that it serves alone; empty if it serves any of its workload."""
        return self.listed.labels.get(jobset.NAMESPACED_JOB, "")

    @property
    def pinned(self) -> bool:
        """Return whether only pods of one slice or team tolerate its taints."""
        return any(taint.key != labels.SPOT for taint in self.listed.taints)

    def is_of(self, made: Workload) -> bool:
        """Return whether it is of a workload, and of none before it of its name."""
        owner = self.owner
        if owner is None or (owner.kind, owner.name) != (made.kind, made.name):
            return False
        return owner.uid in ("", made.uid)

    def fits(self, made: Workload) -> bool:
        """Return whether the pods of a workload can run on it, by its machine."""
        return self.answers(made) and (made.tolerates or not self.listed.spot)

    def answers(self, made: Workload) -> bool:
        """Return whether it is what the pods of a workload ask, if they can run there or not."""
        listed, shape = self.listed, made.shape
        gpu = shape.accelerator if shape.gpu else ""
        same = (listed.machine_type, listed.accelerator) == (shape.machine_type, gpu)
        sized = made.elastic or not self.whole or self.size == shape.hosts
        return same and sized and listed.spot == made.spot

    def precedes(self, later: Pool) -> bool:
        """Return whether it is an earlier try that GKE made after a later one of its slot.

        GKE did it long after the caller had given up; the later one stands for the slot.
        """
        old, new = self.owner, later.owner
        if old is None or new is None or (old.need, old.slot) != (new.need, new.slot):
            return False
        return new.attempt > old.attempt and later.made_at < self.made_at

    def note_machines(
        self, now: float, *, made: int = 0, coming: int = 0, error: str = "", stays: bool = True
    ) -> None:
        """Note what its instance group says from now on; it remembers each error that stays."""
        errors = tuple(each for each in self.recall_machines(now).errors if each.at is not None)
        if error:
            errors = (*errors, FillError(error, now if stays else None))
        self.machines.append((now, Machines(present=made, coming=coming, errors=errors)))

    def recall_machines(self, then: float) -> Machines:
        """Return what its instance group said at some moment."""
        return next((text for at, text in reversed(self.machines) if at <= then), Machines())


def read_body(cluster: str, body: Mapping[str, Any], now: float) -> Pool:
    """Return the pool that a request asks for, before it has any machine.

    Bodies that differ in name and labels only are read once.
    """
    config, autoscaling = body["config"], body.get("autoscaling") or {}
    plain = _read_plain(msgspec.json.encode({**body, "name": "plain", "config": config | {"labels": {}}}))
    listed = replace(plain, name=body["name"], labels=config["labels"])
    return Pool(
        cluster=cluster,
        listed=listed,
        made_at=now,
        size=listed.maximum,
        begins=body["initialNodeCount"],
        smallest=autoscaling.get("minNodeCount", 0),
        whole=listed.owner is None or listed.owner.slot != ELASTIC_SLOT,
        autoscaled=listed.autoscaled,
    )


@lru_cache
def _read_plain(body: bytes) -> NodePool:
    return read_created(msgspec.json.decode(body))
