"""Entries of the audit log about node pool operations, as a log sink publishes them.

First and last entry follow recordings of GKE's own log: https://github.com/GoogleCloudPlatform/khi,
``test/logs/gke_audit/nodepool_creation_{started,finished}.yaml``.
"""

from typing import Any

import msgspec

from shared.model.messages import Message
from shared.model.names import build_name
from tests.builders import CLUSTER, a_claim

STOCKOUT = {"code": 8, "message": "Google Compute Engine: The zone does not have enough resources available"}


def an_entry(
    act: str = "Create",
    *,
    pool: str | None = None,
    cluster: str = CLUSTER,
    status: dict[str, Any] | None = None,
    last: bool = True,
    version: str = "v1",
) -> dict[str, Any]:
    """One entry about the plain case's pool: the last, of a success, unless said otherwise."""
    pool = build_name(a_claim(), 0) if pool is None else pool
    _, project, _, location, _, name = cluster.split("/")
    method = f"google.container.{version}.ClusterManager.{act}NodePool"
    payload: dict[str, Any] = {
        "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
        "methodName": method,
        "resourceName": f"{cluster}/nodePools/{pool}",
        "serviceName": "container.googleapis.com",
    }
    if last:
        payload["metadata"] = {"operationType": f"{act.upper()}_NODE_POOL", "requestID": "7c1"}
        payload["status"] = status or {}
    else:
        payload["authenticationInfo"] = {"principalEmail": "someone@example.com"}
        payload["request"] = {"nodePool": {"name": pool}}
    return {
        "insertId": "1tq4f0ve2q7k0",
        "logName": f"projects/{project}/logs/cloudaudit.googleapis.com%2Factivity",
        "operation": {
            "id": "operation-1798761600000-5e7d3a52",
            "producer": "container.googleapis.com",
            **({"last": True} if last else {"first": True}),
        },
        "protoPayload": payload,
        "receiveTimestamp": "2027-01-15T08:00:01.5Z",
        "resource": {
            "labels": {"cluster_name": name, "location": location, "nodepool_name": pool, "project_id": project},
            "type": "gke_nodepool",
        },
        "severity": "ERROR" if status else "NOTICE",
        "timestamp": "2027-01-15T08:00:00.5Z",
    }


def as_message(entry: object) -> Message:
    """The message of an entry, or of any JSON in its place."""
    return Message(msgspec.json.encode(entry), {"logging.googleapis.com/timestamp": "2027-01-15T08:00:00.5Z"})
