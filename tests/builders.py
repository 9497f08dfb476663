"""Builders of the values that rules use: a plain case by default, and overrides for the rest.

The plain case: JobSet ``default/train`` with one replicated job ``workers`` of 4x4 v6e slices (four
hosts of four chips), whose leader pod the scheduler has called unschedulable.
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
from google.cloud.container_v1.types import NodePool as NodePoolMessage
from google.protobuf import json_format
from msgspec import structs

from shared.edges.gke import read_pool
from shared.kinds import jobset as jobset_keys
from shared.model import labels
from shared.model.messages import Event, EventType, Message, format_message
from shared.model.names import Claim, ObjectName, Try, build_name, build_owner_labels
from shared.model.pools import NodePool, PoolStatus
from shared.model.workloads import (
    PodTemplate,
    PodView,
    SliceGroup,
    TermKind,
    Toleration,
    TopologyTerm,
    WorkloadView,
)
from shared.settings import ClusterSettings, Settings

TOLERATES_TPUS = (Toleration(key=labels.TPU_RESOURCE, operator="Exists"),)
CLUSTER = "projects/p/locations/us-east5/clusters/c"
ZONE = "us-east5-b"
NOW = 1_800_000_000.0
JOBSET_UID = "5e7d3a52-4f0c-4b7e-9a52-0d9f0f0c1a01"
POD_UID = "9b1f4c62-7a54-4e0b-8a44-4d2b1c9e7f02"


def settings(**overrides: Any) -> Settings:
    """Settings of one cluster with a zone; the rest as shipped."""
    clusters = {CLUSTER: ClusterSettings(endpoint="http://127.0.0.1:9", zone=ZONE)}
    return Settings(**{"clusters": clusters, **overrides})


def a_template(
    *,
    accelerator: str | None = "tpu-v6e-slice",
    topology: str | None = "4x4",
    chips: int = 4,
    selectors: dict[str, str] | None = None,
    node_affinity: dict[str, tuple[str, ...]] | None = None,
    **overrides: Any,
) -> PodTemplate:
    """What a pod asks of its node. None omits a selector. Without chips it tolerates TPU nodes."""
    wanted = {labels.ACCELERATOR: accelerator, labels.TOPOLOGY: topology, **(selectors or {})}
    selected = {key: (value,) for key, value in wanted.items() if value is not None}
    return PodTemplate(
        **{
            "selection": (node_affinity or {}) | selected,
            "chips": chips,
            "tolerations": () if chips else TOLERATES_TPUS,
            **overrides,
        }
    )


PINNED_JOB_KEY = "job-key"  # the plain selector of the Go TPU Provisioner's webhook
IN_ONE_POOL = tuple(
    TopologyTerm(kind=kind, key=labels.NODE_POOL) for kind in (TermKind.AFFINITY, TermKind.ANTI_AFFINITY)
)
"""The terms that keep the pods of a slice on a node pool of their own."""


def a_pod(
    *,
    jobset: str = "train",
    job: str = "workers",
    index: int = 0,
    namespace: str = "default",
    template: PodTemplate | None = None,
    pod_labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    shape: dict[str, Any] | None = None,
    **overrides: Any,
) -> PodView:
    """An unschedulable leader pod of one slice; `shape` goes to `a_template`."""
    found = template or a_template(**(shape or {}))
    job_name = f"{jobset}-{job}-{index}"
    own_labels = {
        jobset_keys.JOBSET_NAME_ON_POD: jobset,
        jobset_keys.JOBSET_UID_ON_POD: JOBSET_UID,
        jobset_keys.JOB_KEY: f"key-of-{job_name}",
        labels.COMPLETION_INDEX: "0",
        **(pod_labels or {}),
    }
    found = structs.replace(
        found, labels=found.labels | own_labels, annotations=found.annotations | (annotations or {})
    )
    return PodView(
        **{
            "namespace": namespace,
            "name": f"{job_name}-0-abcde",
            "uid": POD_UID,
            "template": found,
            "controller_kind": "Job",
            "controller_name": job_name,
            "created_at": NOW - 35,
            "unschedulable": True,
            **overrides,
        }
    )


def a_jobset(
    *,
    name: str = "train",
    job: str = "workers",
    replicas: int = 2,
    namespace: str = "default",
    template: PodTemplate | None = None,
    annotations: dict[str, str] | None = None,
    **overrides: Any,
) -> WorkloadView:
    """A live JobSet with one replicated job."""
    pinned = {jobset_keys.EXCLUSIVE_TOPOLOGY, jobset_keys.NODE_SELECTOR_STRATEGY} <= (annotations or {}).keys()
    replicated = SliceGroup(name=job, replicas=replicas, template=template or a_template(), pinned=pinned)
    return WorkloadView(
        **{
            "kind": "JobSet",
            "namespace": namespace,
            "name": name,
            "uid": JOBSET_UID,
            "groups": (replicated,),
            **overrides,
        }
    )


NEED = "k7q2mzt4"  # the key of the plain case's need, where nothing computes it


def a_claim(**overrides: Any) -> Claim:
    """The claim of the plain case's first slice."""
    plain = {
        "cluster": CLUSTER,
        "kind": "JobSet",
        "namespace": "default",
        "name": "train",
        "uid": JOBSET_UID,
        "need": NEED,
        "slot": 0,
    }
    return Claim(**{**plain, **overrides})


def a_pool(
    status: str = "RUNNING",
    *,
    claim: Claim | None = None,
    attempt: int = 0,
    age_seconds: float = 60.0,
    **overrides: Any,
) -> NodePool:
    """A pool of ours for a claim."""
    claim, tried = claim or a_claim(), Try(attempt=attempt)
    created_at = int(NOW - age_seconds)
    return NodePool(
        **{
            "name": build_name(claim, attempt),
            "status": PoolStatus(status),
            "labels": build_owner_labels(claim, tried, created_at=created_at, cluster_uid="uid-of-kube-system"),
            "maximum": 4,
            "machine_type": "ct6e-standard-4t",
            "topology": "4x4",
            **overrides,
        }
    )


def read_created(body: Mapping[str, Any]) -> NodePool:
    """The pool of a create, as GKE lists it while it comes."""
    group = f"projects/p/zones/{body['locations'][0]}/instanceGroupManagers/{body['name']}"
    listed = {**body, "status": "PROVISIONING", "instanceGroupUrls": [group]}
    return read_pool(json_format.ParseDict(listed, NodePoolMessage.pb(NodePoolMessage())))


def a_go_pool(name: str = "train-12345", *, jobset: str = "train", status: str = "RUNNING") -> NodePool:
    """A pool that the Go TPU Provisioner made: no UID, no claim, no time."""
    pool_labels = {
        labels.MANAGER: labels.MANAGER_VALUE,
        labels.PARENT_KIND: "job",
        labels.PARENT_NAME: f"{jobset}-workers-0",
        labels.PARENT_NAMESPACE: "default",
        labels.JOBSET_NAME: jobset,
        labels.JOBSET_NAMESPACE: "default",
    }
    return NodePool(
        name=name, status=PoolStatus(status), labels=pool_labels, maximum=4, machine_type="ct6e-standard-4t"
    )


def a_demand_event(*, uid: str = JOBSET_UID, **overrides: Any) -> Event:
    """The exporter's hint that pods of a workload wait."""
    plain = {
        "type": EventType.DEMAND,
        "cluster": CLUSTER,
        "subject": ObjectName(kind="JobSet", namespace="default", name="train", uid=uid),
        "cause": POD_UID,
    }
    return Event(**{**plain, **overrides})


def an_over_event(cause: str = "Completed", **overrides: Any) -> Event:
    """The exporter's hint that a workload is over."""
    return a_demand_event(**{"type": EventType.WORKLOAD_OVER, "cause": cause, **overrides})


def a_push(message: Event | Message, *, delivery_attempt: int | None = 1) -> bytes:
    """The body of a Pub/Sub push that wraps a message."""
    sent = format_message(message) if isinstance(message, Event) else message
    envelope: dict[str, Any] = {
        "message": {
            "data": base64.b64encode(sent.data).decode(),
            "attributes": sent.attributes,
            "messageId": "1001",
            "publishTime": "2027-01-15T08:00:01Z",
        },
        "subscription": "projects/p/subscriptions/provision",
    }
    if delivery_attempt is not None:
        envelope["deliveryAttempt"] = delivery_attempt
    return msgspec.json.encode(envelope)
