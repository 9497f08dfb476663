"""RayCluster (https://docs.ray.io/en/latest/cluster/kubernetes): each worker replica is a slice.

A head with GPUs is one more pod of an elastic pool. A head with TPUs is refused.

KubeRay creates the pods itself and replaces a broken replica under another name. The slot of a
replica is the first of these that exists: KubeRay's replica index (on by default since 1.6), the
number in the label of GKE's Ray webhook, 0 if the group has at most one replica, the end of the
pod's name if a replica has one host. Other pods are refused, because nothing shows which replica
they belong to. Replicas of several hosts also need the webhook's affinities, a selector that pins
them to their slice, or to be the only replica of their shape: labels alone do not keep replicas on
separate pools.

A RayJob creates a RayCluster and may keep it after its end; it is read for one Event only.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from shared.kinds import read
from shared.kinds.kind import Json, Kind, Resource, TemplateReader, is_mistaken, name_slice
from shared.kinds.read import parse_index
from shared.model import labels
from shared.model.errors import refuse
from shared.model.names import ObjectName
from shared.model.workloads import PodTemplate, PodView, SliceGroup, WorkloadView

CLUSTER = "ray.io/cluster"
GROUP = "ray.io/group"
NODE_TYPE = "ray.io/node-type"
WORKER = "worker"
HEAD = "head"
REPLICA_INDEX = "ray.io/worker-group-replica-index"
REPLICA_NAME = "ray.io/worker-group-replica-name"
HOST_INDEX = "ray.io/replica-host-index"
REPLICA_OF_WEBHOOK = "replicaIndex"
"""``<group>-<index>``, from https://github.com/ai-on-gke/kuberay-tpu-webhook, if KubeRay sets no
index."""
_REPLICAS_MAX = 2**31 - 1  # the default of maxReplicas
_FIRST = "0"
_JOB_INVALID = "ValidationFailed"
_JOB_ENDED = ("Complete", "Failed", _JOB_INVALID)
_REMEDY = "install GKE's Ray TPU webhook (the RayOperator add-on), with KubeRay 1.6 or later"


class RayJob(Resource):
    """The RayJob, which may keep its RayCluster after its end."""

    name = "RayJob"
    api_version = "ray.io/v1"
    plural = "rayjobs"


RAYJOB = RayJob()


class RayCluster(Kind):
    """The RayCluster."""

    name = "RayCluster"
    api_version = "ray.io/v1"
    other_versions = ("v1alpha1",)
    plural = "rayclusters"
    pod_selector = name_label = mark = CLUSTER
    queued = groups_apart = True
    suspension = "RayClusterSuspended"
    controller = "ray.io/kuberay-operator"

    def find_owner(self, pod: PodView) -> str:
        """Return the name of the pod's controller, if it and a label name the same cluster."""
        name = pod.template.labels.get(CLUSTER, "")
        return name if (pod.controller_kind, pod.controller_name) == (self.name, name) else ""

    def is_leader(self, pod: PodView) -> bool:
        """Return whether it is the first host of its replica; without a label nothing shows it."""
        return pod.template.labels.get(HOST_INDEX, _FIRST) == _FIRST

    def read(self, body: Json, read_template: TemplateReader) -> WorkloadView:
        """Return a cluster, with the RayJob that made it. It has no terminal state."""
        owner, view = read.controller(body), super().read(body, read_template)
        if read.text(owner, "kind") != RAYJOB.name:
            return view
        name, uid = read.text(owner, "name"), read.text(owner, "uid")
        parent = ObjectName(kind=RAYJOB.name, namespace=view.namespace, name=name, uid=uid)
        return structs.replace(view, parent=parent)

    def list_templates(self, body: Json) -> list[tuple[str, Json]]:
        """Return the template of the head, and of each worker group."""
        workers = [
            (read.text(group, "groupName"), read.fields(group, "template"))
            for group in read.objects(body, "spec", "workerGroupSpecs")
        ]
        return [(HEAD, read.fields(body, "spec", "headGroupSpec", "template")), *workers]

    def read_groups(self, body: Json, templates: Mapping[str, PodTemplate]) -> list[SliceGroup]:
        """Return the worker groups, and a head with GPUs."""
        groups = [
            _read_group(body, each, templates[read.text(each, "groupName")])
            for each in read.objects(body, "spec", "workerGroupSpecs")
        ]
        head = templates[HEAD]
        if head.gpus:
            groups.append(SliceGroup(name=HEAD, hosts=1, template=head, elastic=True))
        return groups

    def find_role(self, pod: PodView, _workload: WorkloadView) -> str:
        """Return the worker group in the pod's label, or that it is the head."""
        keys = pod.template.labels
        return HEAD if keys.get(NODE_TYPE) == HEAD else keys.get(GROUP, "")

    def find_slot(self, pod: PodView, workload: WorkloadView, group: SliceGroup) -> str | None:
        """Return the slot of a worker. One of several hosts must be kept apart from the others."""
        keys = pod.template.labels
        slot = _FIRST
        if REPLICA_INDEX in keys or REPLICA_OF_WEBHOOK in keys:
            named, _, number = keys.get(REPLICA_OF_WEBHOOK, "").rpartition("-")
            slot = keys.get(REPLICA_INDEX, number if named == group.name else "")
            if parse_index(slot) is None:
                return None
        elif group.slots != 1:
            slot = _name_slot(pod, group)
        self.check_apart(pod.template, workload, group, slot)
        return slot

    def check_apart(
        self, template: PodTemplate, workload: WorkloadView, group: SliceGroup, slot: str
    ) -> None:
        """Refuse pods of several hosts that can run on another replica's pool.

        The webhook's affinities keep them off, or a selector for the slice, or there is no other
        replica of this shape. `REPLICA_NAME` does not pin a slot, because the next replica has
        another name.
        """
        if group.hosts == 1 or template.node_pool_affinity or is_mistaken(group.template):
            return
        name = name_slice(workload, group, slot)
        if {(name,), (f"{workload.namespace}_{name}",)} & set(template.selection.values()):
            return
        if _count_alike(workload, group) <= 1:
            return
        raise refuse("replicas_may_mix", remedy=_REMEDY, name=name)

    def check_spec(self, workload: WorkloadView) -> None:
        """Refuse new pools for the workers of a cluster whose head would get none."""
        head = workload.templates.get(HEAD)
        if head is not None and head.wants_accelerator and not head.gpus:
            raise refuse("head_with_tpus", workload=workload)


RAYCLUSTER = RayCluster()


def _read_group(cluster: Json, body: Json, template: PodTemplate) -> SliceGroup:
    """Return a worker group with its replicas within their bounds, or none if it is suspended.

    KubeRay counts in the same way: GetWorkerGroupDesiredReplicas in
    https://github.com/ray-project/kuberay/blob/v1.6.1/ray-operator/controllers/ray/utils/util.go.
    """
    hosts = read.number(body, "numOfHosts", default=1)
    most = max(0, read.number(body, "maxReplicas", default=_REPLICAS_MAX))
    least = max(0, read.number(body, "minReplicas"))
    replicas = min(max(read.number(body, "replicas"), least), most)
    name = read.text(body, "groupName")
    own = {CLUSTER: read.text(cluster, "metadata", "name"), GROUP: name, NODE_TYPE: WORKER}
    return SliceGroup(
        name=name,
        replicas=0 if read.flag(body, "suspend") or hosts < 1 else replicas,
        slots=most,
        hosts=max(hosts, 1),
        whole=hosts > 1,
        template=structs.replace(template, labels=template.labels | own),
    )


def _name_slot(pod: PodView, group: SliceGroup) -> str:
    """Return the name of a replica of one host, of which no label shows the index."""
    if group.hosts == 1:
        return pod.name.rpartition("-")[2]
    raise refuse("replica_unnamed", label=REPLICA_INDEX, hosts=group.hosts, remedy=_REMEDY)


def _count_alike(workload: WorkloadView, group: SliceGroup) -> int:
    """Return how many replicas of several hosts may select the same accelerator and topology."""
    shape = _read_shape(group)
    alike = [each for each in workload.groups if each.hosts > 1 and _read_shape(each) == shape]
    return sum(each.slots or 0 for each in alike)


def _read_shape(group: SliceGroup) -> list[tuple[str, ...]]:
    return [group.template.selection.get(key, ()) for key in (labels.ACCELERATOR, labels.TOPOLOGY)]


def judge_rayjob(body: Json) -> str:
    """Return why a RayJob that has ended keeps its RayCluster; empty if it does not.

    A RayCluster that ``clusterSelector`` names is not its child. Who writes a ``deletionStrategy``
    has said what is to stay. KubeRay decides in
    https://github.com/ray-project/kuberay/blob/v1.6.1/ray-operator/controllers/ray/rayjob_controller.go.
    """
    ended = read.text(body, "status", "jobDeploymentStatus")
    chosen = read.flag(body, "spec", "shutdownAfterJobFinishes") or read.fields(
        body, "spec", "deletionStrategy"
    )
    if ended not in _JOB_ENDED or (chosen and ended != _JOB_INVALID):
        return ""
    identity = f"{read.text(body, 'metadata', 'namespace')}/{read.text(body, 'metadata', 'name')}"
    remedy = (
        "KubeRay does not delete them: "
        if ended == _JOB_INVALID
        else "to release them, set shutdownAfterJobFinishes: true, or "
    )
    return (
        f"RayJob {identity} is {ended} and keeps its RayCluster with all its node pools; "
        f"{remedy}delete the RayJob or the RayCluster"
    )
