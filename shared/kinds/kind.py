"""One kind of workload: how its pods and slices are found, and when they are over.

A kind is a class in its own module, and one line in the table. Its methods are pure, accept any
object that the API accepts, and raise `shared.model.errors.Rejected` for a spec or a pod that shows
no clear slices. Exporter, functions and command line use the table only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct, structs

from shared.kinds import read
from shared.model import labels
from shared.model.errors import Rejected, refuse
from shared.model.times import parse_time
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView
from shared.shapes.gpus import RACK_SCALE
from shared.shapes.slices import TPU_TAINT
from shared.shapes.tpus import find_shape

Json = Mapping[str, Any]
TemplateReader = Callable[[Json], PodTemplate]
"""Reads the JSON of a PodTemplateSpec; passed in by edges."""
SLICES_MAX = 10_000
"""The most slices of one workload. Each is a node pool, and no cluster has as many."""


class SliceOfPod(Struct, frozen=True, kw_only=True):
    """The slice of a live pod."""

    name: str  # unique in its namespace and kind; the same for replaced pods; a valid label value
    group: SliceGroup


class Resource:
    """The API path of the objects of a kind."""

    name: str  # the API's kind, as in ``kind:`` of a manifest
    api_version: str  # group and version, as in a manifest
    plural: str  # as in the API's paths
    other_versions: tuple[str, ...] = ()
    """Further versions that the API serves, with the same fields."""

    @property
    def group(self) -> str:
        """Return the API group, without the version."""
        return self.api_version.rpartition("/")[0]

    @property
    def versions(self) -> tuple[str, ...]:
        """Return every version that the API serves, without the group."""
        return (self.api_version.rpartition("/")[2], *self.other_versions)

    @property
    def root(self) -> str:
        """Return the path of its API in its version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    @property
    def path(self) -> str:
        """Return the path of the list of all namespaces."""
        return f"{self.root}/{self.plural}"

    def path_of(self, namespace: str, name: str) -> str:
        """Return the path of one object."""
        return f"{self.root}/namespaces/{namespace}/{self.plural}/{name}"


class Kind(Resource, ABC):
    """One kind of workload."""

    pod_selector: str = ""
    """Label selector, for the server, of the pods that may be leaders; see `table.select_pods`."""
    name_label: str = ""
    """Label on all pods of a workload, whose value is its name; empty if no label has it."""
    mark: str = ""
    """Label on everything that the kind's controller creates, so that the lists of later kinds in
    the table leave it out."""
    pin_label: str = ""
    """Node label by which the kind's controller pins a slice's pods; its value is
    ``namespace_slice``."""
    pin_taint: str = ""  # taint on the nodes of a pinned slice, which its pods tolerate
    watched: bool = True
    """Whether the exporter watches the workloads too. For bare pods only the tick reads them."""
    whole: bool = False  # all slices of a workload wait for each other
    groups_apart: bool = False  # no group of a workload waits for another one
    exclusive: str = "exclusive placement"
    """What keeps the pods of a slice on one pool, in the words of a manifest."""
    endings: tuple[str, ...] = ()
    """Conditions that end a workload; ``Failed`` is a failure, any other a success."""
    suspension: str = "Suspended"  # the condition that reports a suspension by ``spec.suspend``
    controller: str = ""
    """The name of its own controller in ``spec.managedBy``; with another one its pods are in
    another cluster."""
    queued: bool = False
    """It gets its pools before it has pods, if Kueue waits for them; see `list_templates`."""
    install: str = ""  # command that installs the kind, if every cluster needs it; else empty

    def find_owner(self, pod: PodView) -> str:
        """Return the workload's name, by the pod; empty if the pod is not of this kind.

        A workload controls its pods itself, unless its kind says otherwise.
        """
        own = (pod.controller_kind, pod.controller_api_version) == (self.name, self.api_version)
        return pod.controller_name if own else ""

    def find_owner_uid(self, pod: PodView) -> str:
        """Return the workload's UID, by the pod; empty if the pod does not have it."""
        own = self.find_owner(pod) and pod.controller_kind == self.name
        return pod.controller_uid if own else ""

    def is_leader(self, _pod: PodView) -> bool:
        """Return whether a pod leads its slice. If the pods do not show it, all of them do."""
        return True

    def read(self, body: Json, read_template: TemplateReader) -> WorkloadView:
        """Return a workload from the API's JSON; `read.UnexpectedValue` for a wrong field."""
        listed, conditions = self.list_templates(body), read.held_conditions(body)
        templates = {role: read_template(template) for role, template in listed}
        ending = self.find_ending(body, conditions)
        suspended = read.flag(body, "spec", "suspend")
        return WorkloadView(
            kind=self.name,
            namespace=read.text(body, "metadata", "namespace"),
            name=read.text(body, "metadata", "name"),
            uid=read.text(body, "metadata", "uid"),
            generation=read.number(body, "metadata", "generation"),
            marks={
                key: value
                for place in ("annotations", "labels")
                for key, value in read.texts(body, "metadata", place).items()
                if key.startswith(labels.OWN_DOMAIN)
            },
            created_at=parse_time(read.text(body, "metadata", "creationTimestamp")),
            deleting=bool(read.text(body, "metadata", "deletionTimestamp")),
            groups=tuple(
                share_nodes(group)
                for group in self.read_groups(body, templates)
                if group.template.wants_accelerator
            ),
            templates=templates,
            suspended=suspended,
            suspended_since=conditions.get(self.suspension),
            suspend_set_at=read.suspend_set_at(body) if suspended else None,
            terminal=ending,
            managed_elsewhere=read.text(body, "spec", "managedBy") not in ("", self.controller),
        )

    def list_templates(self, body: Json) -> list[tuple[str, Json]]:
        """Return the pod templates of the spec by role, which is the name of Kueue's pod set."""
        return [("main", read.fields(body, "spec", "template"))]

    @abstractmethod
    def read_groups(self, body: Json, templates: Mapping[str, PodTemplate]) -> Iterable[SliceGroup]:
        """Return the groups of the spec; those without accelerators are left out later."""

    def find_ending(self, _body: Json, conditions: Collection[str]) -> str:
        """Return what has ended a workload, of the conditions that hold; empty while it goes on."""
        return next((each for each in self.endings if each in conditions), "")

    def find_role(self, _pod: PodView, _workload: WorkloadView) -> str:
        """Return the role of a pod, which may be forged."""
        return "main"

    def find_template(self, pod: PodView, workload: WorkloadView) -> PodTemplate | None:
        """Return the template of the spec for a pod; None if the spec has no such pods."""
        role = self.find_role(pod, workload)
        own = (group.template for group in workload.groups if group.name == role)
        return next(own, workload.templates.get(role))

    def find_group(self, pod: PodView, workload: WorkloadView) -> SliceGroup | None:
        """Return the group whose slices a pod of the workload runs on; None if there is none."""
        names = ("", self.find_role(pod, workload))
        return next((group for group in workload.groups if group.name in names), None)

    def find_slot(self, _pod: PodView, _workload: WorkloadView, _group: SliceGroup) -> str | None:
        """Return what tells a pod's slice from the others of its group; empty for an only one.

        None if the live workload does not have it (a forged or stale pod).
        """
        return ""

    def check_spec(self, workload: WorkloadView) -> None:
        """Accept a workload whose slices are clear."""

    def check_apart(
        self, template: PodTemplate, workload: WorkloadView, group: SliceGroup, slot: str
    ) -> None:
        """Accept pods of a slice that cannot run on the nodes of another one."""

    def find_slice(self, pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
        """Return the slice of a pod; None if the live workload does not have it."""
        if self.find_owner(pod) != workload.name:
            return None
        self.check_spec(workload)
        group = self.find_group(pod, workload)
        if group is None or not group.replicas:
            return None
        slot = "" if group.elastic else self.find_slot(pod, workload, group)
        if slot is None:
            return None
        return SliceOfPod(name=name_slice(workload, group, slot), group=group)

    def list_groups(self, workload: WorkloadView) -> list[SliceGroup]:
        """Return the groups of the spec that need nodes, each with how many slices it needs now."""
        groups = [each for each in workload.groups if not each.beside]
        slices = sum(max(each.replicas, 0) for each in groups if not each.elastic)
        if slices > SLICES_MAX:
            raise refuse("too_many_slices", str(slices), most=SLICES_MAX)
        self.check_spec(workload)
        return groups


def name_slice(workload: WorkloadView, group: SliceGroup, slot: str) -> str:
    """Return the name of a slice, from its workload's, its group's and its slot."""
    return "-".join(part for part in (workload.name, group.name, slot) if part)


def is_leader(kind: Kind, pod: PodView) -> bool:
    """Return whether a pod is a leader: any pod of an elastic pool, else see `Kind.is_leader`."""
    return kind.is_leader(pod) or is_free(pod.template)


def is_free(template: PodTemplate) -> bool:
    """Return whether a pod, by its own template, can run on any node of its shape (GPUs only)."""
    if not template.gpus or template.chips or template.node_pool_affinity:
        return False
    return not RACK_SCALE.intersection(template.selection.get(labels.GPU_ACCELERATOR, ()))


def share_nodes(group: SliceGroup) -> SliceGroup:
    """Return a group as one elastic pool if each of its pods can run on any node of its shape.

    Its replicas are pods then, without those of slices that have ended.
    """
    bound = group.whole or group.pinned or not is_free(group.template)
    if bound or group.elastic:
        return group
    pods = max(group.replicas - group.over, 0) * (group.pods or max(group.hosts, 1))
    return structs.replace(group, replicas=pods, hosts=1, slots=None, elastic=True)


def merge_requests(one: PodTemplate, other: PodTemplate) -> PodTemplate:
    """Return a template with all that pods of two ask of their nodes, and what both tolerate."""
    claims = tuple(dict.fromkeys((*one.volume_claims, *other.volume_claims)))
    both = tuple(each for each in one.tolerations if each in other.tolerations)
    return structs.replace(one.enlarge([other]), volume_claims=claims, tolerations=both)


def is_one_host(template: PodTemplate) -> bool:
    """Return whether one pod uses the whole slice; no topology means a single host in GKE."""
    return _count_hosts(template) == 1


def is_mistaken(template: PodTemplate) -> bool:
    """Return whether the slice of TPU pods cannot be read, for which the demand is refused."""
    return not template.gpus and _count_hosts(template) is None


def _count_hosts(template: PodTemplate) -> int | None:
    if template.unreadable_amounts or not (template.chips or template.tolerates(TPU_TAINT)):
        return None
    try:
        return find_shape(template, template.chips).node_count
    except Rejected:
        return None
