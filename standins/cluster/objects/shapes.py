"""The parts of objects that admission and the controllers read, as msgspec shapes.

Every write is read through its shape first: a value of the wrong type is refused with the path of
its field. Fields that are not listed here are stored and served, but nothing reads them.
"""

from typing import Any

import msgspec
from msgspec import field

Json = dict[str, Any]


class Shape(msgspec.Struct, rename="camel", frozen=True):
    """Base of all shapes: camel case on the wire, unknown fields ignored."""


class Owner(Shape, frozen=True):
    """One entry of ownerReferences."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(Shape, frozen=True):
    """What every object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: list[str] = field(default_factory=list)
    owner_references: list[Owner] = field(default_factory=list)
    deletion_timestamp: str | None = None
    generation: int = 0

    @property
    def controller(self) -> Owner | None:
        """Return the owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class AnyObject(Shape, frozen=True):
    """An object of which only the metadata matters."""

    metadata: Metadata = Metadata()


class Condition(Shape, frozen=True):
    """One entry of status.conditions, of any kind."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Taint(Shape, frozen=True):
    """A node's taint."""

    key: str
    effect: str
    value: str = ""


class Toleration(Shape, frozen=True):
    """A pod's toleration."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Return whether this toleration covers the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


class ResourceList(Shape, frozen=True):
    """Requests and limits of a container; quantities are text or numbers."""

    requests: dict[str, str | int | float] = field(default_factory=dict)
    limits: dict[str, str | int | float] = field(default_factory=dict)


class Container(Shape, frozen=True):
    """One container of a pod."""

    name: str
    image: str = ""
    resources: ResourceList = ResourceList()
    restart_policy: str = ""


class SchedulingGate(Shape, frozen=True):
    """One gate. A pod with a gate is not scheduled."""

    name: str


class PodAffinityTerm(Shape, frozen=True):
    """One required term of inter-pod affinity or anti-affinity."""

    topology_key: str
    label_selector: Json | None = None
    namespaces: list[str] = field(default_factory=list)
    namespace_selector: Json | None = None


class PodAffinity(Shape, frozen=True):
    """Inter-pod affinity or anti-affinity; preferences are ignored."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = field(default_factory=list)


class NodeSelectorTerm(Shape, frozen=True):
    """One of the alternatives of a required node affinity."""

    match_expressions: list[Json] = field(default_factory=list)
    match_fields: list[Json] = field(default_factory=list)


class NodeSelector(Shape, frozen=True):
    """Alternatives, of which one must hold."""

    node_selector_terms: list[NodeSelectorTerm] = field(default_factory=list)


class NodeAffinity(Shape, frozen=True):
    """Node affinity; preferences are ignored."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Shape, frozen=True):
    """The three affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class PodSpec(Shape, frozen=True):
    """What scheduling and the Job controller read of a pod's spec."""

    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: list[Toleration] = field(default_factory=list)
    scheduling_gates: list[SchedulingGate] = field(default_factory=list)
    scheduler_name: str = "default-scheduler"
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    priority: int | None = None
    priority_class_name: str = ""


class ContainerStatus(Shape, frozen=True):
    """The state of one container."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: Json = field(default_factory=dict)


class PodStatus(Shape, frozen=True):
    """What controllers read of a pod's status."""

    phase: str = ""
    conditions: list[Condition] = field(default_factory=list)
    container_statuses: list[ContainerStatus] = field(default_factory=list)
    init_container_statuses: list[ContainerStatus] = field(default_factory=list)

    @property
    def all_container_statuses(self) -> list[ContainerStatus]:
        """Return the states of all containers, those for its start too."""
        return self.init_container_statuses + self.container_statuses


class PodView(Shape, frozen=True):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, condition_type: str) -> Condition | None:
        """Return the condition of a type, if there is one."""
        return next((found for found in self.status.conditions if found.type == condition_type), None)

    @property
    def finished(self) -> bool:
        """Return whether the pod has ended, well or badly."""
        return self.status.phase in {"Succeeded", "Failed"}


class NodeSpec(Shape, frozen=True):
    """What scheduling reads of a node's spec."""

    unschedulable: bool = False
    taints: list[Taint] = field(default_factory=list)


class NodeStatus(Shape, frozen=True):
    """What scheduling reads of a node's status."""

    capacity: dict[str, str | int | float] = field(default_factory=dict)
    allocatable: dict[str, str | int | float] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)


class NodeView(Shape, frozen=True):
    """A node."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Return whether the Ready condition is True."""
        return any(found.type == "Ready" and found.status == "True" for found in self.status.conditions)


class TemplateMetadata(Shape, frozen=True):
    """Labels and annotations of a template."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class PodTemplate(Shape, frozen=True):
    """The pods that a Job makes."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: PodSpec = PodSpec()


class JobSpec(Shape, frozen=True):
    """What the Job and JobSet controllers read of a Job's spec."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    template: PodTemplate = PodTemplate()

    @property
    def pods_at_once(self) -> int:
        """Return how many pods may run at the same time."""
        return 1 if self.parallelism is None else self.parallelism

    @property
    def width(self) -> int:
        """Return how many pods run at once when all are there."""
        return self.pods_at_once if self.completions is None else min(self.pods_at_once, self.completions)


class JobStatus(Shape, frozen=True):
    """What the Job and JobSet controllers read of a Job's status."""

    active: int = 0
    ready: int = 0
    succeeded: int = 0
    completed_indexes: str = ""
    conditions: list[Condition] = field(default_factory=list)


class JobView(Shape, frozen=True):
    """A Job."""

    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def true_condition(self, condition_type: str) -> Condition | None:
        """Return the condition of a type when its status is True."""
        return next((c for c in self.status.conditions if c.type == condition_type and c.status == "True"), None)

    @property
    def finished(self) -> bool:
        """Return whether the Job is Complete or Failed."""
        return bool(self.true_condition("Complete") or self.true_condition("Failed"))
