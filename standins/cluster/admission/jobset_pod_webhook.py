"""JobSet's webhooks for pods: a leader gets affinities, a follower waits for its leader.

Source: https://jobset.sigs.k8s.io/docs/concepts/#exclusive-job-to-topology-placement and the texts
of https://github.com/kubernetes-sigs/jobset (pkg/webhooks/pod_webhook.go, release 0.11.1).
"""

from typing import Any

from standins.cluster.objects.label_names import (
    COMPLETION_INDEX,
    EXCLUSIVE_TOPOLOGY,
    JOB_KEY,
    JOBSET_NAME,
    NODE_SELECTOR_STRATEGY,
    PRIORITY,
)
from standins.cluster.objects.shapes import NodeView, PodView
from standins.cluster.store.errors import ApiError, denied
from standins.cluster.store.kinds import NODE, POD
from standins.cluster.store.object_store import Store

Json = dict[str, Any]


def admit_new(store: Store, body: Json) -> None:
    """Change and check a new pod of a JobSet in place; other pods are left alone.

    Raises ApiError: 403, when a follower may not exist yet.
    """
    metadata = body["metadata"]
    annotations = metadata.get("annotations", {})
    # JobSet's manifests send only pods with this label to the webhooks.
    if JOBSET_NAME not in metadata.get("labels", {}) or JOBSET_NAME not in annotations:
        return
    if NODE_SELECTOR_STRATEGY in annotations:
        return
    metadata["labels"][PRIORITY] = str(body["spec"].get("priority", 0))
    topology_key = annotations.get(EXCLUSIVE_TOPOLOGY)
    if topology_key is None:
        return
    if annotations.get(COMPLETION_INDEX) == "0":
        _add_affinities(body, topology_key)
        return
    _follow_leader(store, body, topology_key)


def _add_affinities(body: Json, topology_key: str) -> None:
    labels = body["metadata"]["labels"]
    job_key = labels.get(JOB_KEY, "")
    affinity = body["spec"].setdefault("affinity", {})
    own = [{"key": JOB_KEY, "operator": "In", "values": [job_key]}]
    others = [
        {"key": JOB_KEY, "operator": "Exists"},
        {"key": JOB_KEY, "operator": "NotIn", "values": [job_key]},
        {"key": PRIORITY, "operator": "In", "values": [labels[PRIORITY]]},
    ]
    for group, expressions in (("podAffinity", own), ("podAntiAffinity", others)):
        required = affinity.setdefault(group, {}).setdefault("requiredDuringSchedulingIgnoredDuringExecution", [])
        required.append(
            {
                "labelSelector": {"matchExpressions": expressions},
                "topologyKey": topology_key,
                "namespaceSelector": {},
            }
        )


def _follow_leader(store: Store, body: Json, topology_key: str) -> None:
    selector: Json = body["spec"].get("nodeSelector", {})
    leader = _find_leader(store, body)
    if leader is not None and leader.spec.node_name:
        selector = body["spec"].setdefault("nodeSelector", {})
        selector[topology_key] = _topology_value(store, leader, topology_key)
    if not selector:
        raise denied("vpod.kb.io", "follower pod node selector not set")
    if topology_key not in selector:
        why = "follower pod node selector for topology domain not found. missing selector: "
        raise denied("vpod.kb.io", why + topology_key)
    if leader is None or not leader.spec.node_name:
        why = "leader pod not yet scheduled, not creating follower pod. this is an expected, transient error"
        raise denied("vpod.kb.io", why)


def _find_leader(store: Store, body: Json) -> PodView | None:
    owners = body["metadata"].get("ownerReferences", [])
    owner = next((found["uid"] for found in owners if found.get("controller")), "")
    siblings = (stored.view(PodView) for stored in store.dependents(owner) if stored.kind is POD)
    leaders = [
        pod
        for pod in siblings
        if pod.metadata.annotations.get(COMPLETION_INDEX) == "0"
        and pod.metadata.deletion_timestamp is None
        and not pod.finished
    ]
    return leaders[0] if len(leaders) == 1 else None


def _topology_value(store: Store, leader: PodView, topology_key: str) -> str:
    stored = store.get(NODE, "", leader.spec.node_name)
    if stored is None:
        raise ApiError(404, "NotFound", f'Node "{leader.spec.node_name}" not found')
    value = stored.view(NodeView).metadata.labels.get(topology_key)
    if value is None:
        raise denied("mpod.kb.io", f"node does not have topology label: {topology_key}")
    return value
