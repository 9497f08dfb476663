"""One node pool of a story, as GKE keeps it, and what a request says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.model import labels
from shared.model.names import Owner, parse_owner
from shared.model.pools import FillError, Machines, NodePool, PoolStatus
from shared.model.workloads import Taint

MACHINES = {"ct4p-hightpu-4t": ("tpu-v4-podslice", "2x2x1", 4), "ct6e-standard-4t": ("tpu-v6e-slice", "2x2", 4)}
"""Accelerator, topology of one host, and chips."""
HELD = (PoolStatus.PROVISIONING, PoolStatus.RECONCILING, PoolStatus.STOPPING)
RESTING = (PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR)
LIVE = (*RESTING, PoolStatus.PROVISIONING, PoolStatus.RECONCILING)
DEFAULT_POOL = NodePool(name="default-pool", status=PoolStatus.RUNNING, machine_type="e2-standard-4", node_count=1)
"""Each cluster has one for its own pods, as GKE lists it; no pod of a story can run there."""
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


@dataclass(slots=True, eq=False)
class Pool:
    """One pool as it is now."""

    cluster: str
    name: str
    labels: dict[str, str]
    status: PoolStatus
    machine_type: str
    made_at: float
    gpus: int = 0
    topology: str = ""  # of its hosts together, or of its one host
    placement: str = ""  # the topology of its placement; empty for single hosts
    size: int = 0  # how many nodes it is to have; of an autoscaled one, the most
    begins: int = 0  # with how many nodes it is created
    smallest: int = 0  # how many nodes the autoscaler leaves it at least
    whole: bool = True  # its hosts are one unit: it has all of them or none
    granted: int = 0  # how many machines it has, those that only start among them
    accelerator: str = ""
    taints: tuple[Taint, ...] = ()
    spot: bool = False
    flex_start: bool = False
    reservation: str = ""
    zone: str = ""
    error: str = ""
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
    view: NodePool | None = None  # what GKE's API says of it; None: it has changed
    owner_read: tuple[Owner | None] | None = None

    @property
    def owner(self) -> Owner | None:
        """Return its owner, by its labels."""
        if self.owner_read is None:
            self.owner_read = (parse_owner(self.labels),)
        return self.owner_read[0]

    @property
    def units(self) -> int:
        """Return the chips or GPUs of each of its nodes."""
        return self.gpus or MACHINES[self.machine_type][2]

    @property
    def pinned(self) -> bool:
        """Return whether only pods of one slice or team tolerate its taints."""
        return any(taint.key != labels.SPOT for taint in self.taints)

    def show(self) -> NodePool:
        """Return what GKE's API says of it."""
        if self.view is None:
            self.view = NodePool(
                name=self.name,
                status=self.status,
                labels=self.labels,
                taints=self.taints,
                machine_type=self.machine_type,
                accelerator=self.accelerator if self.gpus else "",
                gpus_per_node=self.gpus,
                topology=self.placement,
                node_count=0 if self.off else self.size,
                zones=(self.zone,) if self.zone else (),
                spot=self.spot,
                flex_start=self.flex_start,
                reservation=self.reservation,
                autoscaled=self.autoscaled and not self.off,
                group_urls=(f"projects/p/zones/{self.zone or 'z'}/instanceGroupManagers/{self.name}",),
                error=self.error,
            )
        return self.view

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

    def relabel(self, changed: dict[str, str], now: float) -> None:
        """Give it other labels."""
        self.labels, self.relabelled_at, self.owner_read, self.view = changed, now, None, None


def read_body(cluster: str, body: Mapping[str, Any], now: float) -> Pool:
    """Return the pool that a request asks for, before it has any machine."""
    config, autoscaling = body["config"], body.get("autoscaling")
    gpus = config.get("accelerators", ())
    accelerator, topology, _ = MACHINES.get(config["machineType"], ("", "", 0))
    nodes = autoscaling["maxNodeCount"] if autoscaling else body["initialNodeCount"]
    taints = (Taint(each["key"], each["value"], _EFFECTS[each["effect"]]) for each in config.get("taints", ()))
    affinity = config.get("reservationAffinity", {})
    owner = parse_owner(config["labels"])
    return Pool(
        cluster=cluster,
        name=body["name"],
        labels=dict(config["labels"]),
        status=PoolStatus.PROVISIONING,
        size=nodes,
        begins=body["initialNodeCount"],
        smallest=(autoscaling or {}).get("minNodeCount", 0),
        whole=owner is None or owner.slot != "any",
        machine_type=config["machineType"],
        topology=body.get("placementPolicy", {}).get("tpuTopology", topology),
        placement=body.get("placementPolicy", {}).get("tpuTopology", ""),
        made_at=now,
        gpus=sum(int(each["acceleratorCount"]) for each in gpus),
        accelerator=gpus[0]["acceleratorType"] if gpus else accelerator,
        taints=tuple(taints),
        spot=bool(config.get("spot")),
        flex_start=bool(config.get("flexStart")),
        zone=body["locations"][0],
        autoscaled=bool(autoscaling),
        reservation=next(iter(affinity.get("values", ())), ""),
    )
