"""One node pool of a scenario, as GKE keeps it, and what a request says of it."""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.model import labels
from shared.model.names import PoolOwner
from shared.model.pools import PoolSnapshot, PoolStatus
from shared.model.readings import FillError, Machines

MACHINES = {"ct4p-hightpu-4t": ("tpu-v4-podslice", "2x2x1", 4), "ct6e-standard-4t": ("tpu-v6e-slice", "2x2", 4)}
"""Accelerator, topology of one host, and chips."""
HELD = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING, PoolStatus.STOPPING)
DEFAULT_POOL = "default-pool"
"""Each cluster has a pool of this name for its own pods; no pod of a scenario can run there."""


@dataclass(slots=True)
class Pool:
    """One pool as it is now."""

    cluster: str
    name: str
    labels: dict[str, str]
    status: PoolStatus
    node_count: int
    machine_type: str
    topology: str
    made_at: float
    gpus: int = 0
    size: int = 0
    short: int = 0
    """For how many of them there was no machine when it was made or grew."""
    accelerator: str = ""
    pinned: bool = False
    spot: bool = False
    grown_at: float = 0.0
    """When GKE last accepted a resize of it."""
    zone: str = ""
    error: str = ""
    healthy_since: float | None = None
    """Since when all of its nodes are there."""
    runs_since: float | None = None
    """Since when GKE says that it runs."""
    used_at: float = 0.0
    """When a pod with accelerators was last on it."""
    lent_at: float = 0.0
    """When a pod of another slice than its own was last on it."""
    relabelled_at: float = 0.0
    """When a person last changed its labels, or removed it: its record of failures is gone."""
    made_nodes: int = 0
    autoscaled: bool = False
    """GKE's autoscaler adds and removes all of its nodes; empty, it is `short` of all of them."""
    reserved: bool = False
    busy: bool = False
    """The autoscaler adds or removes its nodes now."""
    dry_until: float = 0.0
    """So long there is no machine for it, whatever its zone has."""
    refused: bool = False
    """Its group says that there are no machines for what the autoscaler asks."""
    emptied_at: float = 0.0
    """When its last node left, or when it was created."""
    machines: list[tuple[float, Machines]] = field(default_factory=list)
    """What its instance group said, from which moment on."""
    _snapshot: PoolSnapshot | None = None
    _owner: tuple[PoolOwner | None] | None = None

    @property
    def owner(self) -> PoolOwner | None:
        """Return its owner, by its labels."""
        if self._owner is None:
            self._owner = (self.snapshot.owner,)
        return self._owner[0]

    @property
    def claim_hash(self) -> str:
        """Return the claim that it is of; empty for a pool that is not ours."""
        return self.owner.claim_hash if self.owner else ""

    @property
    def slice_name(self) -> str:
        """Return the slice that it was made for; empty for a pool that is not ours."""
        return self.owner.slice_name if self.owner else ""

    @property
    def units(self) -> int:
        """Return the chips or GPUs of each of its nodes."""
        return self.gpus or MACHINES[self.machine_type][2]

    @property
    def snapshot(self) -> PoolSnapshot:
        """Return what GKE's API says of it."""
        if self._snapshot is None:
            self._snapshot = PoolSnapshot(
                name=self.name,
                status=self.status,
                labels=self.labels,
                node_count=self.node_count,
                machine_type=self.machine_type,
                topology=self.topology,
                gpus_per_node=self.gpus,
                group_urls=(f"projects/p/zones/{self.zone or 'z'}/instanceGroupManagers/{self.name}",),
                error=self.error,
                autoscaled=self.autoscaled,
                reserved=self.reserved,
            )
        return self._snapshot

    @property
    def waits_empty(self) -> bool:
        """Return whether the autoscaler has made no machine of it."""
        return self.autoscaled and self.short == self.size

    def note_machines(
        self, now: float, *, made: int = 0, coming: int = 0, error: str = "", stays: bool = True
    ) -> None:
        """Note what its instance group says from now on; it remembers each error that stays."""
        errors = tuple(each for each in self.recall_machines(now).errors if each.at is not None)
        if error:
            errors = (*errors, FillError(error, now if stays else None))
        self.machines.append((now, Machines(made=made, coming=coming, errors=errors)))

    def recall_machines(self, then: float) -> Machines:
        """Return what its instance group said at some moment."""
        return next((text for at, text in reversed(self.machines) if at <= then), Machines())

    def relabel(self, found: dict[str, str], now: float) -> None:
        """Give it other labels."""
        self.labels, self.relabelled_at, self._owner, self._snapshot = found, now, None, None


def name_default_group(cluster: str) -> str:
    """Return the name of the instance group of a cluster's default pool, which GKE makes unique."""
    return f"gke-main-default-pool-{hashlib.sha256(cluster.encode()).hexdigest()[:8]}"


@functools.cache
def make_default_pool(cluster: str) -> PoolSnapshot:
    """Return the default pool of a cluster, as GKE lists it."""
    group = f"projects/p/zones/z/instanceGroupManagers/{name_default_group(cluster)}-grp"
    return PoolSnapshot(
        name=DEFAULT_POOL,
        status=PoolStatus.RUNNING,
        node_count=1,
        machine_type="e2-standard-4",
        group_urls=(group,),
    )


def read_body(cluster: str, body: Mapping[str, Any], now: float) -> Pool:
    """Return the pool that a request asks for, before it has any machine."""
    config = body["config"]
    gpus = config.get("accelerators", ())
    accelerator, topology, _ = MACHINES.get(config["machineType"], ("", "", 0))
    taints = [taint["key"] for taint in config.get("taints", ())]
    autoscaled = "autoscaling" in body
    nodes = body["autoscaling"]["maxNodeCount"] if autoscaled else body["initialNodeCount"]
    return Pool(
        cluster=cluster,
        name=body["name"],
        labels=dict(config["labels"]),
        status=PoolStatus.PROVISIONING,
        node_count=nodes,
        size=nodes,
        short=nodes,
        machine_type=config["machineType"],
        topology=body.get("placementPolicy", {}).get("tpuTopology", topology),
        made_at=now,
        gpus=sum(int(each["acceleratorCount"]) for each in gpus),
        accelerator=gpus[0]["acceleratorType"] if gpus else accelerator,
        pinned=any(taint != labels.SPOT for taint in taints),
        spot=bool(config.get("spot")),
        zone=body["locations"][0],
        autoscaled=autoscaled,
        reserved=config.get("reservationAffinity", {}).get("consumeReservationType") == "SPECIFIC_RESERVATION",
        emptied_at=now,
    )
