"""What the rules need of pods, nodes and workloads, as plain values that edges and kinds read.

The chips of a pod are the sum over its containers (Ironwood pods split a host over two), or the
maximum of its init containers. A selector comes from ``nodeSelector`` or required node affinity;
the topology may also come from an annotation. Rules of pods about a topology label of nodes are
Kubernetes' inter-pod affinity, anti-affinity and topology spread constraints:
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/,
https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field, structs

from shared.model import labels
from shared.model.errors import refuse
from shared.model.names import ObjectName
from shared.model.times import TERMINATION_SECONDS

_OF_SOFTWARE = re.compile(r"(.*\.)?(nvidia\.com|networks\.io)")
"""Domains of labels that software gives to nodes, for example ``nvidia.com/gpu.clique``."""
_OF_CONTROLLERS = ("controller-uid", "controller-revision-hash", "job-name", "pod-template-hash")
"""Labels without a domain that controllers add to the pods of a template."""


class Taint(Struct, frozen=True):
    """One taint of a node: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{'=' if self.value else ''}{self.value}:{self.effect}"


SPOT_TAINT = Taint(labels.SPOT, "true", "NoSchedule")


class Toleration(Struct, frozen=True, kw_only=True):
    """One toleration of a pod. An empty key, value or effect is as Kubernetes has it."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        """Return whether it tolerates a taint, by Kubernetes' rules."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


class Disk(Struct, frozen=True, kw_only=True):
    """What a PersistentVolumeClaim means for the nodes of its pods."""

    claim: str
    zones: tuple[str, ...] = ()  # sorted; empty if it fixes none
    unbound: str = ""
    """Why the claim has no volume that a pod could wait beside; it has no zones then."""

    def __str__(self) -> str:
        return f"the disk of claim {self.claim} is in {' or '.join(self.zones)}"


class TermKind(StrEnum):
    """The field of a pod's spec in which a term is."""

    AFFINITY = "spec.affinity.podAffinity"
    ANTI_AFFINITY = "spec.affinity.podAntiAffinity"
    SPREAD = "spec.topologySpreadConstraints"


class Requirement(Struct, frozen=True):
    """One requirement on a label of pods or of nodes."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.key} {self.operator} {', '.join(self.values)}".rstrip()

    def holds(self, own: Mapping[str, str]) -> bool:
        """Return whether labels satisfy it. The numbers of Gt and Lt are left to the scheduler."""
        if self.operator == "In":
            return own.get(self.key) in self.values
        if self.operator == "NotIn":
            return own.get(self.key) not in self.values
        return (self.key in own) == (self.operator != "DoesNotExist")


class TopologyTerm(Struct, frozen=True, kw_only=True):
    """One required term of a pod. Preferred terms never keep a pod off a node."""

    kind: TermKind
    key: str  # of the node label; nodes with the same value of it are together
    selector: tuple[Requirement, ...] | None = None
    """Of the other pods; None matches none, and an empty one matches all."""

    def keeps_host(self, own: Mapping[str, str]) -> bool:
        """Return whether two pods with the same labels may not share a host.

        A controller adds the labels that a template lacks, so they may select its pods.
        """
        of_hosts = (self.kind, self.key) == (TermKind.ANTI_AFFINITY, labels.HOSTNAME)
        if not of_hosts or self.selector is None:
            return False
        return all(
            each.holds(own)
            or (each.key not in own and ("/" in each.key or each.key in _OF_CONTROLLERS))
            for each in self.selector
        )


def is_own(key: str) -> bool:
    """Return whether a node label is of a person's own: no node has it unless a pool gets it."""
    return (
        bool(key)
        and not labels.is_reserved(key)
        and not _OF_SOFTWARE.fullmatch(key.rpartition("/")[0])
    )


class PodTemplate(Struct, frozen=True, kw_only=True):
    """What a pod, or a pod template, needs of its node."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    selection: dict[str, tuple[str, ...]] = {}
    """The values of node labels that it accepts, by key: of its selector, else of required node
    affinity in a single term. The operator Exists has no values."""
    node_terms: tuple[tuple[Requirement, ...], ...] = ()
    """Required node affinity as a whole: one term is enough, and all of it must hold."""
    topology_terms: tuple[TopologyTerm, ...] = ()
    """Required pod affinity and anti-affinity, and spread constraints that keep pods waiting."""
    claims_devices: bool = False  # the pod has ``resourceClaims``, for example for networks
    volume_claims: tuple[str, ...] = ()
    """The PersistentVolumeClaims of its volumes, by name. A template does not name those of
    ephemeral volumes, because their names begin with the pod's."""
    chips: int = 0
    """``google.com/tpu`` that it uses at one time: of its containers, or of an init container."""
    gpus: int = 0  # ``nvidia.com/gpu``, counted alike: whole GPUs, partitions, or shares of one
    cpu_millis: int = 0  # CPU request of the whole pod, in thousandths of a vCPU
    memory_bytes: int = 0
    storage_bytes: int = 0  # ephemeral storage, which is on the boot disk
    tolerations: tuple[Toleration, ...] = ()
    other_resources: tuple[str, ...] = ()
    """Extended resources that it requests beside its accelerators, by name."""
    unreadable_amounts: tuple[str, ...] = ()
    """Amounts that no node has, as ``resource=amount``; of accelerators, they count as 0."""

    @property
    def units(self) -> int:
        """Return the chips or GPUs; a pod that requests both is refused."""
        return self.chips + self.gpus

    def enlarge(self, others: Iterable[PodTemplate]) -> PodTemplate:
        """Return the same with the largest CPU, memory and storage of some, and all resources."""
        sizes = [self, *others]
        resources = dict.fromkeys(name for each in sizes for name in each.other_resources)
        return structs.replace(
            self,
            cpu_millis=max(each.cpu_millis for each in sizes),
            memory_bytes=max(each.memory_bytes for each in sizes),
            storage_bytes=max(each.storage_bytes for each in sizes),
            other_resources=tuple(resources),
        )

    @property
    def node_pool_affinity(self) -> bool:
        """Return whether the pods of a slice share one node pool, and keep those of others off."""
        kinds = {term.kind for term in self.topology_terms if term.key == labels.NODE_POOL}
        return {TermKind.AFFINITY, TermKind.ANTI_AFFINITY} <= kinds

    def find_selector(self, key: str) -> str | None:
        """Return the value that the pod selects for a node label; None if it selects none.

        Several values are refused, because it is not clear which one the node needs.
        """
        values = self.selection.get(key, ())
        if len(values) > 1:
            raise refuse("several_values", ", ".join(values), key=key)
        return values[0] if values else None

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the pod tolerates a taint."""
        return any(each.covers(taint) for each in self.tolerations)

    def selects(self, key: str) -> bool:
        """Return whether the pod selects a node label."""
        return key in self.selection

    @property
    def topology(self) -> str | None:
        """Return the topology, from a selector or from the slice-topology annotation."""
        return self.find_selector(labels.TOPOLOGY) or self.annotations.get(labels.SLICE_TOPOLOGY)

    @property
    def selected(self) -> dict[str, tuple[str, ...]]:
        """Return the values that it accepts of node labels, with its annotated topology."""
        topology = self.annotations.get(labels.SLICE_TOPOLOGY)
        return ({labels.TOPOLOGY: (topology,)} if topology else {}) | self.selection

    @property
    def wants_accelerator(self) -> bool:
        """Return whether the pod requests accelerators, or selects TPUs without a request.

        One that misspells its request wants them too, and is refused by that name.
        The leader of a Pathways or serving slice may request no chips itself
        (https://github.com/google/pathways-job).
        """
        return (
            self.units > 0
            or bool(self.unreadable_amounts)
            or any(map(labels.find_meant_resource, self.other_resources))
            or self.selects(labels.ACCELERATOR)
            or self.selects(labels.TOPOLOGY)
            or labels.SLICE_TOPOLOGY in self.annotations
        )


class PodView(ObjectName, frozen=True, kw_only=True):
    """One live pod."""

    kind: str = "Pod"
    template: PodTemplate
    controller_kind: str = ""
    controller_name: str = ""
    controller_uid: str = ""
    controller_api_version: str = ""
    node_name: str = ""
    held: bool = False  # it is gated, or is to get the room of pods that it preempts
    phase: str = "Pending"
    created_at: float | None = None  # unix seconds; None when unknown
    deleting: bool = False
    deleting_since: float | None = None
    """Unix seconds at which its grace period ends; None while it is not being deleted."""
    unschedulable: bool = False  # condition PodScheduled is False with reason Unschedulable
    scheduler_message: str = ""  # the scheduler's own words about why it is Unschedulable
    unschedulable_since: float | None = None
    """Unix seconds of the condition's last transition; None when unknown."""

    @property
    def waits(self) -> bool:
        """Return whether the pod waits for a node, and only for that."""
        return self.unschedulable and not (self.node_name or self.held or self.deleting)

    @property
    def ends_by(self) -> float | None:
        """Return until when a pod that is being deleted is waited for; None for any other."""
        return None if self.deleting_since is None else self.deleting_since + TERMINATION_SECONDS

    @property
    def completion_index(self) -> str:
        """Return the completion index of the pod, as text; empty without one."""
        template = self.template
        return template.annotations.get(
            labels.COMPLETION_INDEX, template.labels.get(labels.COMPLETION_INDEX, "")
        )

    @property
    def finished(self) -> bool:
        """Return whether the pod no longer uses its node."""
        return self.phase in ("Succeeded", "Failed")


class SliceGroup(Struct, frozen=True, kw_only=True):
    """Slices of equal shape within one workload: a replicated job, a worker group."""

    name: str  # empty if the kind has only one group
    replicas: int = 1  # how many slices are needed now
    slots: int | None = None
    """How many slices there are in all, if `replicas` counts those at one time; 0: unknown."""
    hosts: int = 0  # pods per slice; 0 if the kind does not define it
    pods: int = 0
    """Pods at one time per replica, if not the same as `hosts`; 0: as many as hosts, or one."""
    template: PodTemplate = field(default_factory=PodTemplate)
    """Of the pods that request accelerators."""
    pinned: bool = False  # the pods select nodes with the label of their slice (`Kind.pin_label`)
    elastic: bool = False
    """Each pod can run on any node of its shape: one pool for all pods, whose size changes."""
    whole: bool = False
    """The pods of a slice need a pool of their own, even if their accelerators form no slice."""
    beside: str = ""
    """Name of the group on whose first slice these pods without chips run; empty for none."""
    over: int = 0  # how many of its slices have ended and come no more


class WorkloadView(ObjectName, frozen=True, kw_only=True):
    """One live workload of any kind."""

    generation: int = 0  # ``metadata.generation``: the version of the spec
    groups: tuple[SliceGroup, ...] = ()
    templates: dict[str, PodTemplate] = field(default_factory=dict)
    """The pod templates of the spec, by the role of the pods; see `Kind.find_role`."""
    marks: dict[str, str] = field(default_factory=dict)
    """Its own labels and annotations that rules about suspended workloads read."""
    created_at: float | None = None  # unix seconds; None when unknown
    deleting: bool = False
    suspended: bool = False  # by its spec
    suspended_since: float | None = None
    """Unix seconds of the condition that reports it; None without that condition."""
    suspend_set_at: float | None = None
    """Unix seconds at which the field of its spec was last written at the latest, by the API
    server's own record; None without that record."""
    terminal: str = ""  # the condition that ended it; ``Failed`` is a failure, any other a success
    managed_elsewhere: bool = False
    """Another controller runs it, for example in another cluster; nothing runs in this one."""
    part_of: str = ""
    """The object of an unknown kind that controls it, as ``Kind name``; empty for none."""
    parent: ObjectName | None = None
    """Its parent, by its owner reference; the workload does not show whether that has ended."""
    disks: tuple[Disk, ...] = ()  # the disks of its pods' claims, as far as a look has read them


NOBODY = ObjectName(kind="", namespace="", name="", uid="")


class Check(Struct, frozen=True, kw_only=True):
    """One AdmissionCheck that this provisioner answers."""

    name: str
    active: bool  # whether its condition ``Active`` is True, without which no queue uses it
    generation: int = 0


class CheckState(Struct, frozen=True, kw_only=True):
    """The state of one check of a Workload."""

    name: str
    state: str  # ``Pending``, ``Ready``, ``Retry`` or ``Rejected``
    message: str = ""
    since: str = ""  # the time of the last change of `state`, as the API writes it
    retries: int = 0  # how often it has been ``Retry``, as Kueue counts


class QueuedWorkload(ObjectName, frozen=True, kw_only=True):
    """One Workload of Kueue, which has one for each object that it suspends.

    Kueue reserves quota for it, waits until each admission check of the queue is Ready, and then
    resumes the object: https://kueue.sigs.k8s.io/docs/concepts/admission_check/.
    """

    kind: str = "Workload"
    version: str  # ``metadata.resourceVersion``
    owner: ObjectName = NOBODY  # the object that it is for
    flavors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By pod set, the flavors whose node labels its pods get."""
    counts: dict[str, int] = field(default_factory=dict)
    """By pod set, for how many pods it has quota."""
    checks: tuple[CheckState, ...] = ()
    reserved_at: float | None = None
    """Unix seconds since when it has quota; None if the API does not say it."""
    lost_at: float | None = None
    """Unix seconds since when it has no quota, or has to give it back; None if that is not so."""
    holds_quota: bool = False
    """It has quota, and no check makes it lose that, so it runs once all checks are Ready."""

    def find_check(self, names: Collection[str]) -> CheckState | None:
        """Return the first Pending one of its checks with these names; without one the first."""
        ours = [each for each in self.checks if each.name in names]
        pending = (each for each in ours if each.state == "Pending")
        return next(pending, ours[0] if ours else None)


class Notice(Struct, frozen=True, kw_only=True):
    """One Kubernetes Event to be written on one object."""

    subject: ObjectName
    reason: str
    message: str
    warning: bool
    about: str = ""  # why, and which pool: the Event's name follows from the object and from this


class Namespace(Struct, frozen=True, kw_only=True):
    """A namespace as it is now."""

    uid: str  # that of ``kube-system`` is unique to its cluster
    labels: Mapping[str, str]
