"""What the exporter reads of pods and JobSets.

Only the fields that a predicate looks at are declared; msgspec skips the rest of the JSON. What is watched stands
in `exporter.kinds`.
"""

from __future__ import annotations

import msgspec

from shared.core.labels import TPU_RESOURCE
from shared.edges.kubernetes_objects import Condition, ObjectMeta, Record


class SelectorExpression(Record):
    """One expression of a node affinity term; only its key tells what is asked for."""

    key: str = ""


class SelectorTerm(Record):
    """One term of a required node affinity."""

    match_expressions: list[SelectorExpression] | None = None


class NodeSelector(Record):
    """The required part of a node affinity."""

    node_selector_terms: list[SelectorTerm] | None = None


class NodeAffinity(Record):
    """A pod's affinity to nodes."""

    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )


class Affinity(Record):
    """A pod's affinity, as far as it concerns nodes."""

    node_affinity: NodeAffinity | None = None


class Quantities(Record):
    """How many chips are asked for."""

    tpu: str | int | None = msgspec.field(name=TPU_RESOURCE, default=None)


class Resources(Record):
    """What one container asks for."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(Record):
    """One container of a pod."""

    resources: Resources | None = None


class SchedulingGate(Record):
    """Something that holds a pod back from the scheduler."""

    name: str = ""


class PodSpec(Record):
    """Where a pod wants to run."""

    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    scheduling_gates: list[SchedulingGate] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None


class PodStatus(Record):
    """How far a pod has come."""

    phase: str = ""
    conditions: list[Condition] | None = None
    nominated_node_name: str | None = None


class Pod(Record):
    """A pod, as far as the exporter looks at it."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class JobSetSpec(Record):
    """Whose business a JobSet is."""

    managed_by: str | None = None


class ReplicatedJobStatus(Record):
    """How many Jobs of one replicated job still run."""

    active: int | None = None


class JobSetStatus(Record):
    """How far a JobSet has come."""

    conditions: list[Condition] | None = None
    replicated_jobs_status: list[ReplicatedJobStatus] | None = None


class JobSet(Record):
    """A JobSet, as far as the exporter looks at it."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobSetSpec = msgspec.field(default_factory=JobSetSpec)
    status: JobSetStatus = msgspec.field(default_factory=JobSetStatus)
