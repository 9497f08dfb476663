"""What the rules need to know of pods and workloads, as plain values; edges and kinds fill them from the API.

Chips are summed over containers (Ironwood pods split a host over two), init containers count by their maximum, and
a selector may stand in ``nodeSelector``, in required node affinity, or, for the topology, in an annotation.
What is particular to one kind of workload stands in its entry of `shared.core.kinds`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.core import labels
from shared.core.errors import Rejected


class AmbiguousSelector(Rejected):
    """A required affinity lists several values where one is needed."""

    reason = "selector_unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """What a pod, or the template of pods to come, asks of its node."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    node_affinity: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Required node affinity with operator In (or Exists: no values), where there is exactly one term."""
    node_pool_affinity: bool = False
    """Pods of one slice must share a node pool and stay off those of other slices: required affinity and
    anti-affinity, both with ``topologyKey: cloud.google.com/gke-nodepool``."""
    container_chips: tuple[int, ...] = ()
    """``google.com/tpu`` of each container: the request, else the limit."""
    init_container_chips: tuple[int, ...] = ()
    container_gpus: tuple[int, ...] = ()
    """``nvidia.com/gpu`` of each container, likewise: whole GPUs, partitions, or shares of one."""
    init_container_gpus: tuple[int, ...] = ()
    cpu_millis: int = 0
    """Requests of the whole pod for its node, in thousandths of a vCPU."""
    memory_bytes: int = 0
    unreadable_amounts: tuple[str, ...] = ()
    """Amounts of accelerators that are no whole number, as ``resource=amount``; counted as none."""

    @property
    def chips(self) -> int:
        """Return the chips that the pod takes on its host: max(sum of containers, largest init container)."""
        return max(sum(self.container_chips), *self.init_container_chips, 0)

    @property
    def gpus(self) -> int:
        """Return the units of ``nvidia.com/gpu`` that the pod takes on its node, counted as chips are."""
        return max(sum(self.container_gpus), *self.init_container_gpus, 0)

    @property
    def units(self) -> int:
        """Return the accelerators of either sort; a pod that asks for both is refused."""
        return self.chips + self.gpus

    def find_selector(self, key: str) -> str | None:
        """Return the one value that the pod selects for a node label, or None when it does not select it.

        Raises:
            AmbiguousSelector: required affinity allows several values and ``nodeSelector`` names none.
        """
        if key in self.node_selector:
            return self.node_selector[key]
        values = self.node_affinity.get(key)
        if values is None or not values:
            return None
        if len(values) > 1:
            raise AmbiguousSelector(
                "several values where one is needed",
                field=f"spec.affinity.nodeAffinity {key}",
                value=", ".join(values),
                valid="one value, or a nodeSelector",
            )
        return values[0]

    def selects(self, key: str) -> bool:
        """Return whether the pod names a node label at all."""
        return key in self.node_selector or key in self.node_affinity

    @property
    def topology(self) -> str | None:
        """Return the wanted topology, from a selector or from the slice-topology annotation."""
        return self.find_selector(labels.TOPOLOGY) or self.annotations.get(labels.SLICE_TOPOLOGY)

    @property
    def wants_accelerator(self) -> bool:
        """Return whether this is about accelerators at all: a request for some, or a TPU selector without one."""
        asked = self.units > 0 or bool(self.unreadable_amounts)
        return asked or self.selects(labels.ACCELERATOR) or self.selects(labels.TOPOLOGY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One live pod."""

    namespace: str
    name: str
    uid: str
    template: PodTemplate
    controller_kind: str = ""
    controller_name: str = ""
    controller_uid: str = ""
    controller_api_version: str = ""
    node_name: str = ""
    nominated_node: str = ""
    phase: str = "Pending"
    deleting: bool = False
    gated: bool = False
    queued_since: float | None = None
    """Unix seconds of the creation of a pod that a queue of Kueue holds by its gate; None for any other."""
    unschedulable: bool = False
    """Condition PodScheduled is False with reason Unschedulable."""
    unschedulable_since: float | None = None
    """Unix seconds of the condition's last transition; None when unknown."""

    @property
    def completion_index(self) -> str:
        """Return the index that a Job gave the pod, as text; empty when no Job gave it one."""
        found = self.template
        return found.annotations.get(labels.COMPLETION_INDEX, found.labels.get(labels.COMPLETION_INDEX, ""))

    @property
    def finished(self) -> bool:
        """Return whether the pod no longer uses its node."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceGroup:
    """Slices of equal shape within one workload: a replicated job, a worker group."""

    name: str
    """Empty where the kind has only one."""
    replicas: int = 1
    """How many slices are wanted now."""
    slots: int | None = None
    """How many slices there are in the end, where `replicas` counts those at one time; 0: none can be told."""
    hosts: int = 0
    """Pods per slice; 0 where the kind does not say."""
    pods: int = 0
    """Pods at one time in each of `replicas`, where that need not be `hosts`; 0: as many as hosts, or one."""
    template: PodTemplate = field(default_factory=PodTemplate)
    """Of the pods that ask for chips."""
    pinned: bool = False
    """The pods select nodes that are labelled for their very slice (`Kind.pin_label`)."""
    elastic: bool = False
    """Any node of the right shape will do for each pod: one pool for all of them, whose size follows demand."""
    whole: bool = False
    """The pods of a slice must have a pool of their own, even where their accelerators form no slice."""
    beside: str = ""
    """Name of the group on whose first slice these pods run, as guests without chips; empty for none."""
    ended: frozenset[str] = frozenset()
    """Indexes of slices that have ended, where no slice is still to come that could take over their pools."""
    idle: bool = False
    """The slices are wanted and have no pods at present, for example with parallelism 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The object that made a workload, where its kind is known to keep workloads beyond their use."""

    kind: str
    """One of `Kind.parents`."""
    namespace: str
    name: str
    uid: str
    keeps: str = ""
    """Why it keeps the workload though it has ended itself, and what would release it; empty while it does not."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView:
    """One live workload of any kind."""

    kind: str
    """Its `Kind.name`."""
    namespace: str
    name: str
    uid: str
    generation: int = 0
    """``metadata.generation``: which version of the spec this is."""
    groups: tuple[SliceGroup, ...] = ()
    deleting: bool = False
    deleting_since: float | None = None
    suspended: bool = False
    """Its spec says so."""
    suspended_since: float | None = None
    """Unix seconds of the condition that reports it, whatever the spec says by now; None while there is none."""
    terminal: str = ""
    """The type of the condition that says that it is over; ``Failed`` is a failure, any other a success."""
    terminal_since: float | None = None
    managed_elsewhere: bool = False
    """Another controller runs it, for example in another cluster: nothing of it runs in this one."""
    part_of: str = ""
    """The object that controls it, as ``Kind name``, where it can only be understood as a part of that."""
    active: int = 0
    """How much of it still runs, as its own status counts."""
    parent: Parent | None = None
    """What made it, as its owner reference says; whether that has ended is not known from the workload."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"
