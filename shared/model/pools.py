"""One node pool, as GKE lists it."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from functools import cached_property

from msgspec import Struct

from shared.model import labels
from shared.model.names import Owner, parse_owner
from shared.model.workloads import Taint

_TPU_MACHINE = re.compile(r"(?:ct|tpu)[0-9].*-([1-9][0-9]?)t")  # assumes: tpu-machines
"""The name of a machine with TPUs ends with its number of chips."""
_NUMBER = re.compile(r"[0-9]+")
ELASTIC_SLOT = "any"  # the slot of the one pool of an elastic need


class PoolStatus(StrEnum):
    """``NodePool.Status`` of the GKE API.

    https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
    """

    UNKNOWN = "STATUS_UNSPECIFIED"
    PROVISIONING = "PROVISIONING"  # being created; cannot be deleted yet
    RUNNING = "RUNNING"
    RUNNING_WITH_ERROR = "RUNNING_WITH_ERROR"  # exists and is partly usable
    RECONCILING = "RECONCILING"  # being updated, upgraded or repaired
    STOPPING = "STOPPING"  # being deleted; cannot be revived
    ERROR = "ERROR"  # creation failed; the name stays in use until the pool is deleted


UNDER_WAY = (  # assumes: one-operation
    PoolStatus.PROVISIONING,
    PoolStatus.RECONCILING,
    PoolStatus.STOPPING,
)
"""The status of pools on which GKE runs an operation."""
FAILED = (PoolStatus.ERROR, PoolStatus.RUNNING_WITH_ERROR)
"""The status of pools that GKE calls failed, at least in part."""
PAID = frozenset({PoolStatus.RUNNING, PoolStatus.RUNNING_WITH_ERROR, PoolStatus.RECONCILING})


class PoolShape(Struct, frozen=True):
    """What the machines of a pool offer, whatever their name is."""

    accelerator: str
    topology: str = ""
    hosts: int = 0  # nodes of a whole pool; 0 for one whose number of nodes may change
    units: int = 0  # chips or GPUs of a node
    sharing: str = ""  # how pods share a GPU

    @property
    def gpus(self) -> bool:
        """Return whether the accelerators are GPUs, whose labels all begin with their maker."""
        return self.accelerator.startswith("nvidia-")


class NodePool(Struct, frozen=True, kw_only=True, dict=True):
    """One node pool of one cluster at one moment."""

    name: str
    status: PoolStatus
    labels: dict[str, str] = {}  # the node labels of its configuration
    taints: tuple[Taint, ...] = ()
    machine_type: str = ""
    accelerator: str = ""  # the type of its GPUs; empty for TPUs, which the machine names
    gpus_per_node: int = 0
    sharing: str = ""
    topology: str = ""  # of its placement; empty for a single host
    policy: str = ""  # the name of the resource policy of its placement
    maximum: int = 0
    """As requested at creation; for an autoscaled pool the most nodes that it may have."""
    zones: tuple[str, ...] = ()
    spot: bool = False
    flex_start: bool = False
    reservation: str = ""  # path of the reservation whose machines it takes
    autoscaled: bool = False
    group_urls: tuple[str, ...] = ()  # URLs of its managed instance groups, one for each zone
    error: str = ""  # GKE's own description of what is wrong
    deployment: str = ""  # which deployment made it, by a label of its machines

    @cached_property
    def owner(self) -> Owner | None:
        """Return the owner, by the labels; None when the pool is not ours."""
        return parse_owner(self.labels)

    @cached_property
    def units(self) -> int:
        """Return the chips or GPUs of a node."""
        tpu = _TPU_MACHINE.fullmatch(self.machine_type)
        return self.gpus_per_node or (int(tpu[1]) if tpu else 0)

    @cached_property
    def hosts(self) -> int:
        """Return how many nodes a whole pool has; one that is switched off may have no number."""
        chips = math.prod(map(int, _NUMBER.findall(self.topology))) if self.topology else 0
        return chips // self.units if chips and self.units else max(self.maximum, 1)

    @property
    def elastic(self) -> bool:
        """Return whether it is the one pool of an elastic need."""
        return self.owner is not None and self.owner.slot == ELASTIC_SLOT

    @cached_property
    def shape(self) -> PoolShape:
        """Return what its machines offer."""
        return PoolShape(
            accelerator=self.accelerator or self.machine_type,
            topology=self.topology,
            hosts=0 if self.elastic else self.hosts,
            units=self.units,
            sharing=self.sharing,
        )

    @cached_property
    def node_labels(self) -> dict[str, str]:
        """Return the labels that its nodes have, with those that GKE derives from its fields."""
        reservation, _, _ = self.reservation.rpartition("reservations/")[2].partition("/")
        derived = {
            labels.NODE_POOL: self.name,
            labels.INSTANCE_TYPE: self.machine_type,
            labels.SPOT: "true" if self.spot else "",
            labels.FLEX_START: "true" if self.flex_start else "",
            labels.PROVISIONING: "spot" * self.spot or "flex-start" * self.flex_start or "standard",
            labels.RESERVATION_NAME: reservation,
            labels.PLACEMENT_POLICY: self.policy,
            labels.ZONE: self.zones[0] if len(self.zones) == 1 else "",
        }
        return {**{key: value for key, value in derived.items() if value}, **self.labels}


class PoolNode(Struct, frozen=True, kw_only=True):
    """One node of a pool."""

    name: str
    pool: str
    ready: bool
    ready_at: float | None = None  # unix seconds of its condition Ready; None if it is not Ready
    idle_since: float | None = None  # by our taint, in unix seconds
    closed: bool = False  # our taint keeps new pods off


class FillError(Struct, frozen=True):
    """Why a pool did not get its nodes at some time."""

    message: str  # GKE's words, with the code if there is one
    at: float | None = None  # unix seconds; None if it is not told, or for what is true now


class Machines(Struct, frozen=True, kw_only=True):
    """The machines of a pool, as its instance groups report them."""

    present: int = 0  # how many are there, if only starting
    coming: int = 0  # how many more are being made without an error
    errors: tuple[FillError, ...] = ()
    """What kept the groups from making machines, as long as they remember it."""

    def list_causes(self, since: float, now: float) -> list[tuple[float, str]]:
        """Return the errors from a moment on, each with its time; what has none is true now."""
        timed = [(now if each.at is None else each.at, each.message) for each in self.errors]
        return [each for each in timed if each[0] >= since]


class Operation(Struct, frozen=True, kw_only=True):
    """One create or delete of a pool among GKE's operations."""

    pool: str
    creates: bool
    ended: bool
    error: str = ""  # GKE's words about what failed; empty for one that succeeded or still runs
    began_at: float | None = None
    ended_at: float | None = None
