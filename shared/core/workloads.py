"""What the rules need to know of pods and JobSets, as plain values; edges fill them from the Kubernetes API.

Chips are summed over containers (Ironwood pods split a host over two), init containers count by their maximum, and
a selector may stand in ``nodeSelector``, in required node affinity, or, for the topology, in an annotation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.core import labels
from shared.core.errors import Rejected

LEADER_INDEX = "0"


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
    container_chips: tuple[int, ...] = ()
    """``google.com/tpu`` of each container: the request, else the limit."""
    init_container_chips: tuple[int, ...] = ()

    @property
    def chips(self) -> int:
        """Return the chips that the pod takes on its host: max(sum of containers, largest init container)."""
        return max(sum(self.container_chips), *self.init_container_chips, 0)

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
        """Return whether this is about a TPU at all: a chip request, or a TPU selector without one."""
        return self.chips > 0 or self.selects(labels.ACCELERATOR) or self.selects(labels.TOPOLOGY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One live pod."""

    namespace: str
    name: str
    uid: str
    template: PodTemplate
    controller_kind: str = ""
    controller_name: str = ""
    node_name: str = ""
    nominated_node: str = ""
    phase: str = "Pending"
    deleting: bool = False
    gated: bool = False
    unschedulable: bool = False
    """Condition PodScheduled is False with reason Unschedulable."""
    unschedulable_since: float | None = None
    """Unix seconds of the condition's last transition; None when unknown."""

    @property
    def is_leader(self) -> bool:
        """Return whether this is the pod with completion index 0 of its Job."""
        found = self.template
        index = found.annotations.get(labels.COMPLETION_INDEX, found.labels.get(labels.COMPLETION_INDEX))
        return index == LEADER_INDEX

    @property
    def finished(self) -> bool:
        """Return whether the pod no longer uses its node."""
        return self.phase in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedJobView:
    """One replicated job of a JobSet: `replicas` slices of equal shape."""

    name: str
    replicas: int = 1
    parallelism: int = 1
    completions: int | None = None
    annotations: dict[str, str] = field(default_factory=dict)
    """Of the Job template."""
    template: PodTemplate = field(default_factory=PodTemplate)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetView:
    """One live JobSet."""

    namespace: str
    name: str
    uid: str
    annotations: dict[str, str] = field(default_factory=dict)
    replicated_jobs: tuple[ReplicatedJobView, ...] = ()
    deleting: bool = False
    suspended: bool = False
    suspended_since: float | None = None
    """Unix seconds of the condition Suspended=True; None while it is not (yet) reported."""
    terminal: str = ""
    """``Completed`` or ``Failed``, from the conditions."""
    terminal_since: float | None = None
    managed_elsewhere: bool = False
    """``spec.managedBy`` names another controller (for example MultiKueue): nothing runs in this cluster."""

    def find_replicated_job(self, job_name: str) -> ReplicatedJobView | None:
        """Return the replicated job of a Job ``<jobset>-<replicated job>-<index>``, if the spec has it."""
        for job in self.replicated_jobs:
            prefix = f"{self.name}-{job.name}-"
            index = job_name.removeprefix(prefix)
            if job_name.startswith(prefix) and _is_index(index) and int(index) < job.replicas:
                return job
        return None

    def uses_node_selector_strategy(self, job: ReplicatedJobView) -> bool:
        """Return whether JobSet itself pins this job's pods to nodes labelled for them.

        It needs both annotations on the Job, so at JobSet or Job-template level; the pod template is not read:
        https://jobset.sigs.k8s.io/docs/tasks/exclusive_placement/.
        """
        merged = self.annotations | job.annotations
        return labels.EXCLUSIVE_TOPOLOGY in merged and labels.NODE_SELECTOR_STRATEGY in merged


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
