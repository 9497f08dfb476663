"""LeaderWorkerSet (https://lws.sigs.k8s.io): each group or sub-group of pods is one slice.

A group's leader without chips shares the slice of its first workers. It is the leader of that slice
if it selects its nodes, because the workers may not exist before it is bound; else worker 1 is.
Groups beyond ``replicas`` are needed during a rolling update with ``maxSurge``. There is no
terminal state: a pool is deleted with its group, or when a queue holds all pods of its slice.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from shared.kinds.kind import Kind, SliceOfPod, is_free
from shared.kinds.objects import (
    UnexpectedValue,
    is_index_below,
    parse_index,
    read_held_conditions,
    read_identity,
    read_number,
    read_object,
    read_text,
    read_texts,
)
from shared.model import labels
from shared.model.counts import take_percent
from shared.model.errors import SliceUnknown
from shared.model.topology_terms import make_exclusive
from shared.model.workloads import SPOT_TAINT, PodTemplate, PodView, SliceGroup, WorkloadView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.kinds.kind import Json, TemplateReader
    from shared.model.topology_terms import TopologyTerm

NAME = "LeaderWorkerSet"
_PREFIX = "leaderworkerset.sigs.k8s.io/"
SET_NAME = f"{_PREFIX}name"
GROUP_INDEX = f"{_PREFIX}group-index"
WORKER_INDEX = f"{_PREFIX}worker-index"
SUBGROUP_INDEX = f"{_PREFIX}subgroup-index"
EXCLUSIVE_TOPOLOGY = f"{_PREFIX}exclusive-topology"  # this and the following four are annotations
SUBGROUP_EXCLUSIVE_TOPOLOGY = f"{_PREFIX}subgroup-exclusive-topology"
SIZE = f"{_PREFIX}size"
SUBGROUP_SIZE = f"{_PREFIX}subgroup-size"
LEADER_ASKS_FOR_CHIPS = f"{_PREFIX}leader-requests-tpus"
LEADER_INDEX = "0"
APART = "leader"
"""Name of the group of leaders that belong to no slice of their workers; the name of any other
group is its sub-group index, or empty without sub-groups."""
_WORKERS = "workers"
SUBGROUPS_MAX = 1024
"""The most slices within one group; more are a mistake."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Which pods of a group form a sub-group, as the controller's pod webhook decides.

    https://github.com/kubernetes-sigs/lws/blob/v0.7.0/pkg/webhooks/pod_webhook.go
    (``getSubGroupIndex``).
    """

    size: int
    subgroup_size: int = 0
    """0 means no sub-groups."""

    @property
    def leader_is_extra(self) -> bool:
        """Return whether the leader is additional to full sub-groups of workers.

        In sub-groups of one pod it is none: https://github.com/kubernetes-sigs/lws/pull/918.
        """
        return self.subgroup_size > 1 and (self.size - 1) % self.subgroup_size == 0

    @property
    def subgroups(self) -> int:
        """Return how many slices a group has; 1 without sub-groups."""
        if not self.subgroup_size:
            return 1
        return max((self.size - self.leader_is_extra) // self.subgroup_size, 1)

    def find_first_worker(self, subgroup: int) -> int:
        """Return the lowest index of a worker (so at least 1) in a sub-group."""
        if not self.subgroup_size:
            return 1
        first = subgroup * self.subgroup_size
        return first + 1 if self.leader_is_extra else max(first, 1)

    def count_workers(self, subgroup: int) -> int:
        """Return how many workers a sub-group has, the leader not counted."""
        if not self.subgroup_size or self.size == 1:
            return self.size - 1
        return self.subgroup_size - (subgroup == 0 and not self.leader_is_extra)


# --- from a pod -----------------------------------------------------------------------------------


def _find_owner(pod: PodView) -> str:
    name = pod.template.labels.get(SET_NAME, "")
    controller = (
        f"{pod.controller_name}-"  # the set's own of the leaders, a leader's of its workers
    )
    is_of_set = pod.controller_kind == "StatefulSet" and controller.startswith(f"{name}-")
    return name if is_of_set else ""


def _is_leader(pod: PodView) -> bool:
    template = pod.template
    worker = parse_index(template.labels.get(WORKER_INDEX, ""))
    if worker == 0:
        return template.wants_accelerator
    subgroup = parse_index(template.labels.get(SUBGROUP_INDEX, LEADER_INDEX))
    layout = _Layout(
        size=parse_index(template.annotations.get(SIZE, "")) or 1,
        subgroup_size=parse_index(template.annotations.get(SUBGROUP_SIZE, "")) or 0,
    )
    if worker is None or subgroup is None:
        return False
    if layout.subgroup_size == 1:
        return True
    if worker != layout.find_first_worker(subgroup):
        return False
    return subgroup > 0 or template.annotations.get(LEADER_ASKS_FOR_CHIPS) != "true"


# --- from the live object -------------------------------------------------------------------------


def _read(body: Json, read_template: TemplateReader) -> WorkloadView:
    found = read_object(body, "spec", "leaderWorkerTemplate")
    workers = read_template(read_object(found, "workerTemplate"))
    leader = (
        read_template(read_object(found, "leaderTemplate"))
        if found.get("leaderTemplate")
        else workers
    )
    terms = _read_exclusion(body)
    leader, workers = leader.require(*terms), workers.require(*terms)
    return WorkloadView(
        **read_identity(NAME, body),
        groups=_read_groups(body, leader, workers),
        templates={APART: leader, _WORKERS: workers},
    )


def _read_exclusion(body: Json) -> tuple[TopologyTerm, ...]:
    """Return what the controller's webhook adds to the pods for exclusive topologies."""
    annotations = read_texts(body, "metadata", "annotations")
    has_subgroups = bool(read_object(body, "spec", "leaderWorkerTemplate", "subGroupPolicy"))
    keys = (EXCLUSIVE_TOPOLOGY, *[SUBGROUP_EXCLUSIVE_TOPOLOGY] * has_subgroups)
    asked = (annotations.get(each, labels.NODE_POOL) for each in keys)
    return tuple(make_exclusive(each) for each in asked if each != labels.NODE_POOL)


def _read_groups(body: Json, leader: PodTemplate, workers: PodTemplate) -> tuple[SliceGroup, ...]:
    found = read_object(body, "spec", "leaderWorkerTemplate")
    layout = _Layout(
        size=read_number(found, "size", default=1),
        subgroup_size=max(read_number(found, "subGroupPolicy", "subGroupSize"), 0),
    )
    if layout.subgroups > SUBGROUPS_MAX:
        path = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"
        raise UnexpectedValue(
            path, layout.subgroup_size, f"a size with at most {SUBGROUPS_MAX} sub-groups"
        )
    replicas = _count_replicas(body)
    whole = read_texts(body, "metadata", "annotations").get(EXCLUSIVE_TOPOLOGY) == labels.NODE_POOL
    excluded = read_text(found, "subGroupPolicy", "subGroupPolicyType") == "LeaderExcluded"
    if layout.size > 1 and _is_apart(leader, workers, excluded=excluded, whole=whole):
        return (SliceGroup(name=APART, replicas=replicas, hosts=1, template=leader, whole=True),)
    if not whole and (is_free(leader) or is_free(workers)):
        return _read_free(leader, workers, replicas=replicas, size=layout.size)
    groups = []
    for subgroup in range(layout.subgroups):
        led = subgroup == 0 and leader.units > 0
        hosts = layout.count_workers(subgroup) * (workers.units > 0) + led
        template = leader if led or (subgroup == 0 and layout.size == 1) else workers
        # In sub-groups of one pod a leader without chips is alone in the first.
        if template.wants_accelerator and (hosts or layout.subgroup_size != 1):
            name = str(subgroup) if layout.subgroup_size else ""
            groups.append(
                SliceGroup(
                    name=name, replicas=replicas, hosts=hosts, template=template, whole=whole
                )
            )
    return tuple(groups)


def _read_free(
    leader: PodTemplate, workers: PodTemplate, *, replicas: int, size: int
) -> tuple[SliceGroup, ...]:
    """Return the pods that request GPUs and need no pool of their own."""
    counted = (("leaders", leader, 1), ("workers", workers, max(size - 1, 0)))
    return tuple(
        SliceGroup(name=name, replicas=replicas, pods=pods, template=template)
        for name, template, pods in counted
        if pods and template.gpus
    )


def _is_whole(pod: PodView) -> bool:
    return pod.template.annotations.get(EXCLUSIVE_TOPOLOGY) == labels.NODE_POOL


def _count_replicas(body: Json) -> int:
    """Return how many groups are needed now, during an update up to ``maxSurge`` more.

    A partitioned update may be reported as finished while its surplus groups stay, so they count
    too.
    """
    replicas = read_number(body, "spec", "replicas", default=1)
    surplus = read_number(body, "status", "replicas") > replicas
    updating = surplus or "UpdateInProgress" in read_held_conditions(body)
    path = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")
    return (
        replicas + min(_read_surge(read_object(body, *path), replicas), replicas)
        if updating
        else replicas
    )


def _read_surge(body: Json, replicas: int) -> int:
    """Return ``maxSurge`` in groups; a percentage is rounded up, as in the controller."""
    value = body.get("maxSurge")
    if not isinstance(value, str):
        return read_number(body, "maxSurge")
    surge = take_percent(replicas, value)
    if surge is None:
        raise UnexpectedValue(
            "spec.rolloutStrategy.rollingUpdateConfiguration.maxSurge", value, "a percentage"
        )
    return surge


def _is_apart(leader: PodTemplate, workers: PodTemplate, *, excluded: bool, whole: bool) -> bool:
    """Return whether the leader cannot use the workers' slice, though it needs accelerators.

    GPUs that need no pool of their own form no slice, if neither side has one.
    """
    if not leader.wants_accelerator or not workers.wants_accelerator:
        return False
    free = not whole and (is_free(leader), is_free(workers))
    if free and any(free):
        return not all(free)
    return (excluded and leader.units > 0) or bool(_list_differences(leader, workers))


def _list_differences(leader: PodTemplate, workers: PodTemplate) -> list[str]:
    """Return the node labels, and the toleration, by which pods of one slice need different nodes.

    The pool is made for a leader with chips, so it may select more than its workers. The pool of a
    leader without chips is made for either, so both must ask for the same.
    """
    spot = leader.selects(labels.SPOT)
    own, theirs = (_read_selected(each, spot=spot) for each in (leader, workers))
    keys = theirs.keys() if leader.units else own.keys() | theirs.keys()
    return sorted(key for key in keys if own.get(key) != theirs.get(key))


def _read_selected(template: PodTemplate, *, spot: bool) -> dict[str, set[str]]:
    found = {
        key: {*template.list_values(key)}
        for key in (*template.node_selector, *template.node_affinity)
    }
    if labels.SLICE_TOPOLOGY in template.annotations:
        found.setdefault(labels.TOPOLOGY, {template.annotations[labels.SLICE_TOPOLOGY]})
    if spot and not template.tolerates(SPOT_TAINT):
        found[f"the toleration of {labels.SPOT}"] = set()
    return found


def _refuse_apart(workload: WorkloadView) -> None:
    if any(group.name == APART for group in workload.groups):
        differing = ", ".join(
            _list_differences(workload.templates[APART], workload.templates[_WORKERS])
        )
        raise SliceUnknown(
            f"the leaders of {NAME} {workload.name} need chips or GPUs outside the slice of "
            "their workers" + (f": both differ in {differing}" if differing else ""),
            field="spec.leaderWorkerTemplate.leaderTemplate",
            valid="a leader without chips or GPUs that selects none, or one in its workers' "
            "first sub-group with their selectors and their toleration of spot nodes",
        )


def _refuse_shift(workload: WorkloadView) -> None:
    """Refuse a set of which an older controller has put two pods with chips into one sub-group.

    It gives them each other's host names, so they would wait for each other for ever.
    """
    if workload.templates[APART].units:
        raise SliceUnknown(
            f"the leader and worker 1 of {NAME} {workload.name} are in one sub-group, though each "
            "is to have its own; this LeaderWorkerSet is older than v0.10.0",
            field="spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize",
            value="1",
            valid="LeaderWorkerSet v0.10.0 or later; or size 1 and more replicas",
        )


# --- slices ---------------------------------------------------------------------------------------


def _find_template(pod: PodView, workload: WorkloadView) -> PodTemplate | None:
    leads = pod.template.labels.get(WORKER_INDEX) == LEADER_INDEX
    return workload.templates.get(APART if leads else _WORKERS)


def _find_slice(pod: PodView, workload: WorkloadView) -> SliceOfPod | None:
    pod_labels = pod.template.labels
    index, worker = pod_labels.get(GROUP_INDEX, ""), pod_labels.get(WORKER_INDEX, "")
    leader = f"{workload.name}-{index}"
    names = (workload.name, leader) if worker == LEADER_INDEX else (leader, f"{leader}-{worker}")
    if (pod.controller_kind, pod.controller_name, pod.name) != ("StatefulSet", *names):
        return None
    _refuse_apart(workload)
    # A leader without chips and without a sub-group belongs to the first sub-group.
    subgroup = pod_labels.get(SUBGROUP_INDEX, LEADER_INDEX)
    single = all(group.name and group.hosts == 1 for group in workload.groups)
    if single and pod.template.annotations.get(SUBGROUP_SIZE) == "1" and subgroup != worker:
        _refuse_shift(workload)
        subgroup = worker
    for group in workload.groups:
        if group.name in ("", subgroup) and is_index_below(index, group.replicas):
            return SliceOfPod(name=_name_slice(workload, group, index), group=group)
    return None


def _name_slice(workload: WorkloadView, group: SliceGroup, index: str) -> str:
    return "-".join(part for part in (workload.name, index, group.name) if part)


def _list_slices(workload: WorkloadView) -> Sequence[SliceOfPod]:
    _refuse_apart(workload)
    return [
        SliceOfPod(name=_name_slice(workload, group, str(index)), group=group)
        for group in workload.groups
        for index in range(group.replicas)
    ]


LEADERWORKERSET = Kind(
    name=NAME,
    api_version="leaderworkerset.x-k8s.io/v1",
    plural="leaderworkersets",
    pod_selector=f"{SET_NAME},{WORKER_INDEX}",
    mark=SET_NAME,
    find_owner=_find_owner,
    is_leader=_is_leader,
    is_whole=_is_whole,
    read=_read,
    find_slice=_find_slice,
    find_template=_find_template,
    list_slices=_list_slices,
    name_label=SET_NAME,
)
