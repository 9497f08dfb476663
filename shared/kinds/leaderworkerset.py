"""LeaderWorkerSet (https://lws.sigs.k8s.io): each group or sub-group of pods is one slice.

A group's leader without chips shares the slice of its first workers, which may not exist before it
is bound. Groups beyond ``replicas`` are needed during a rolling update with ``maxSurge``. There is
no terminal state: a pool is deleted with its group, or when a queue holds all pods of its slice.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from shared.kinds import read
from shared.kinds.kind import Json, Kind, is_free, merge_requests
from shared.kinds.read import UnexpectedValue, is_index_below, parse_index
from shared.model import labels
from shared.model.errors import refuse
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

_PREFIX = "leaderworkerset.sigs.k8s.io/"
SET_NAME = f"{_PREFIX}name"
GROUP_INDEX = f"{_PREFIX}group-index"
WORKER_INDEX = f"{_PREFIX}worker-index"
SUBGROUP_INDEX = f"{_PREFIX}subgroup-index"
EXCLUSIVE_TOPOLOGY = f"{_PREFIX}exclusive-topology"  # this and the following three are annotations
SUBGROUP_EXCLUSIVE_TOPOLOGY = f"{_PREFIX}subgroup-exclusive-topology"
SUBGROUP_SIZE = f"{_PREFIX}subgroup-size"
LEADER_ASKS_FOR_CHIPS = f"{_PREFIX}leader-requests-tpus"
_LEADERS, _WORKERS = "leaders", "workers"
"""The roles of pods. Groups have these names where leaders and workers share no slice; any other
group is named by its sub-group index, or not at all without sub-groups."""
_FIRST = "0"
SUBGROUPS_MAX = 1024  # the most slices within one group; more are a mistake


class LeaderWorkerSet(Kind):
    """The LeaderWorkerSet."""

    name = "LeaderWorkerSet"
    api_version = "leaderworkerset.x-k8s.io/v1"
    plural = "leaderworkersets"
    pod_selector = f"{SET_NAME},{WORKER_INDEX}"
    name_label = mark = SET_NAME
    exclusive = f"metadata.annotations {EXCLUSIVE_TOPOLOGY}: {labels.NODE_POOL}"

    def find_owner(self, pod: PodView) -> str:
        """Return the name in the pod's label, if its StatefulSet may be of that set."""
        name = pod.template.labels.get(SET_NAME, "")
        # The set's own StatefulSet has the leaders, and a leader's has its workers.
        of_set = f"{pod.controller_name}-".startswith(f"{name}-")
        return name if of_set and pod.controller_kind == "StatefulSet" else ""

    def is_leader(self, pod: PodView) -> bool:
        """Return whether it leads: a leader that needs accelerators, else each of its workers.

        Nothing shows which worker is the first of a further sub-group.
        """
        keys = pod.template.labels
        worker = parse_index(keys.get(WORKER_INDEX, ""))
        if worker == 0:
            return pod.template.wants_accelerator
        led = pod.template.annotations.get(LEADER_ASKS_FOR_CHIPS) == "true"
        return worker is not None and not (led and keys.get(SUBGROUP_INDEX, _FIRST) == _FIRST)

    def list_templates(self, body: Json) -> list[tuple[str, Json]]:
        """Return the template of leaders, which may be the workers', and of workers."""
        inner = read.fields(body, "spec", "leaderWorkerTemplate")
        workers = read.fields(inner, "workerTemplate")
        return [(_LEADERS, read.fields(inner, "leaderTemplate") or workers), (_WORKERS, workers)]

    def read_groups(self, body: Json, templates: Mapping[str, PodTemplate]) -> list[SliceGroup]:
        """Return the slices, by sub-group; or leaders and workers that share elastic pools."""
        leaders, workers = templates.values()
        inner, replicas = read.fields(body, "spec", "leaderWorkerTemplate"), _count_replicas(body)
        size = read.number(inner, "size", default=1)
        annotations = read.texts(body, "metadata", "annotations")
        keys = (EXCLUSIVE_TOPOLOGY, SUBGROUP_EXCLUSIVE_TOPOLOGY)
        whole = labels.NODE_POOL in map(annotations.get, keys)
        free = [] if whole else [each for each in (leaders, workers) if is_free(each)]
        if size > 1 and free != [leaders, workers] and _is_apart(inner, leaders, workers):
            return [SliceGroup(name=_LEADERS, replicas=replicas, template=leaders, whole=True)]
        groups = _read_subgroups(inner, size, leaders, workers)
        if free:
            of_workers = SliceGroup(name=_WORKERS, hosts=size - 1, template=workers)
            groups = [SliceGroup(name=_LEADERS, hosts=1, template=leaders), of_workers][:size]
        return [structs.replace(group, replicas=replicas, whole=whole) for group in groups]

    def find_role(self, pod: PodView, _workload: WorkloadView) -> str:
        """Return whether the pod is a leader or a worker."""
        return _LEADERS if pod.template.labels.get(WORKER_INDEX) == _FIRST else _WORKERS

    def find_group(self, pod: PodView, workload: WorkloadView) -> SliceGroup | None:
        """Return the sub-group of a pod, which has its names from its set, its group and its index.

        A leader without a sub-group belongs to the first.
        """
        index, worker = (pod.template.labels.get(key, "") for key in (GROUP_INDEX, WORKER_INDEX))
        leader = f"{workload.name}-{index}"
        names = (workload.name, leader) if worker == _FIRST else (leader, f"{leader}-{worker}")
        if (pod.controller_kind, pod.controller_name, pod.name) != ("StatefulSet", *names):
            return None
        subgroup = pod.template.labels.get(SUBGROUP_INDEX, _FIRST)
        if subgroup != worker and pod.template.annotations.get(SUBGROUP_SIZE) == "1":
            self._check_shift(workload)
            subgroup = worker
        own = ("", self.find_role(pod, workload), subgroup)
        return next((each for each in workload.groups if each.name in own), None)

    def find_slot(self, pod: PodView, _workload: WorkloadView, group: SliceGroup) -> str | None:
        """Return the index of the pod's group."""
        index = pod.template.labels.get(GROUP_INDEX, "")
        return index if is_index_below(index, group.replicas) else None

    def check_spec(self, workload: WorkloadView) -> None:
        """Refuse leaders that need chips or GPUs, but not of their workers' slice."""
        leaders, workers = workload.templates[_LEADERS], workload.templates[_WORKERS]
        if all(group.elastic or group.name != _LEADERS for group in workload.groups):
            return
        differing = ", ".join(_list_differences(leaders, workers))
        words = f": both differ in {differing}" * bool(differing)
        raise refuse("leaders_outside", workload=workload, differing=words)

    def _check_shift(self, workload: WorkloadView) -> None:
        """Refuse a set of which an older controller has put two pods with chips in one sub-group.

        It gives them each other's host names, so they would wait for each other for ever.
        """
        elastic = any(group.elastic for group in workload.groups)
        if workload.templates[_LEADERS].units and not elastic:
            raise refuse("subgroup_shared", "1", workload=workload)


LEADERWORKERSET = LeaderWorkerSet()


def _read_subgroups(
    inner: Json, size: int, leaders: PodTemplate, workers: PodTemplate
) -> list[SliceGroup]:
    """Return the slices of one group of pods."""
    groups, counts = [], _count_workers(inner, size)
    for subgroup, count in enumerate(counts):
        led = subgroup == 0 and leaders.units > 0
        hosts = count * (workers.units > 0) + led
        template = workers if count else leaders
        if led and count:
            template = merge_requests(leaders, workers)
        # In sub-groups of one pod a leader without chips is alone in the first.
        if hosts or len(counts) < size or size == 1:
            name = str(subgroup) if read.fields(inner, "subGroupPolicy") else ""
            groups.append(SliceGroup(name=name, hosts=hosts, template=template))
    return groups


def _count_workers(inner: Json, size: int) -> list[int]:
    """Return how many workers each sub-group has, as the controller's webhook decides.

    https://github.com/kubernetes-sigs/lws/blob/v0.7.0/pkg/webhooks/pod_webhook.go
    (``getSubGroupIndex``): the leader is one of the first sub-group, or additional to full ones.
    In sub-groups of one pod it is not: https://github.com/kubernetes-sigs/lws/pull/918.
    """
    each = read.number(inner, "subGroupPolicy", "subGroupSize")
    if each <= 0 or size == 1:
        return [size - 1]
    additional = each > 1 and (size - 1) % each == 0
    count = max((size - additional) // each, 1)
    if count > SUBGROUPS_MAX:
        path = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"
        raise UnexpectedValue(path, each, f"a size with at most {SUBGROUPS_MAX} sub-groups")
    return [each - (not additional), *[each] * (count - 1)]


def _count_replicas(body: Json) -> int:
    """Return how many groups are needed now, during an update up to ``maxSurge`` more.

    A partitioned update may be reported as finished while its surplus groups stay, so they count
    too.
    """
    replicas = read.number(body, "spec", "replicas", default=1)
    surplus = read.number(body, "status", "replicas") > replicas
    if not surplus and "UpdateInProgress" not in read.held_conditions(body):
        return replicas
    path = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")
    return replicas + min(read.surge(body, *path, replicas=replicas, default=0), replicas)


def _is_apart(inner: Json, leaders: PodTemplate, workers: PodTemplate) -> bool:
    """Return whether leaders cannot use their workers' slice, though they need accelerators."""
    if not leaders.wants_accelerator or not workers.wants_accelerator:
        return False
    excluded = read.text(inner, "subGroupPolicy", "subGroupPolicyType") == "LeaderExcluded"
    return (excluded and leaders.units > 0) or bool(_list_differences(leaders, workers))


def _list_differences(leaders: PodTemplate, workers: PodTemplate) -> list[str]:
    """Return the node labels by which pods of one slice need different nodes.

    The pool is made for a leader with chips, so it may select more than its workers. The pool of a
    leader without chips is made for either, so both must ask for the same.
    """
    own, theirs = leaders.selected, workers.selected
    keys = theirs.keys() if leaders.units else own.keys() | theirs.keys()
    return sorted(key for key in keys if own.get(key) != theirs.get(key))
