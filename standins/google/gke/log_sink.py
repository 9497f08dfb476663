"""Writes the audit log of node pool operations to a Pub/Sub topic, as a log sink does.

Only operations that were accepted are logged, once when they begin and once when they end. The
sink has no filter: a reader meets first entries and the work of GKE itself, as with a wide filter.
Shapes follow recordings of GKE's own log (https://github.com/GoogleCloudPlatform/khi,
``test/logs/gke_audit``); that a failure has severity ERROR is a guess.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from standins.google.errors import ApiError
from standins.google.gke.fake_gke import FakeGke
from standins.google.gke.faults import Target
from standins.google.gke.names import DOMAIN
from standins.google.gke.nodes import Event, OperationMoved
from standins.kit.lifecycle import write_record

_PAUSE_SECONDS = 0.5
_API = "google.container.v1.ClusterManager."
_METHODS = {"CREATE_NODE_POOL": f"{_API}CreateNodePool", "DELETE_NODE_POOL": f"{_API}DeleteNodePool"}
_INTERNAL = "google.container.internal.ClusterManagerInternal.UpdateClusterInternal"
Publish = Callable[[bytes, dict[str, str]], object]


class LogSink:
    """Publishes an entry for each end of each operation; both are late, lost or doubled by faults.

    `publish` sends data with attributes to the topic, and raises ApiError while it is not there.
    """

    def __init__(self, gke: FakeGke, publish: Publish) -> None:
        self._world, self._publish = gke.world, publish
        self._due: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def note(self, event: Event) -> None:
        """Take an event of the model; the entry of an operation is published some seconds later."""
        if not isinstance(event, OperationMoved):
            return
        world = self._world
        target = Target(event.cluster.cluster, event.pool)
        fault = world.faults.take("audit_entries", target)
        copies, delay = (fault.copies, fault.delay) if fault else (1, 0.0)
        wait = world.draw("audit", event.cluster, event.pool, world.scenario.timings.audit)
        entry = build_entry(event, world.new_uuid("audit"))
        for _ in range(copies):
            world.agenda.after(wait + delay, lambda: self._due.put_nowait(entry))

    async def run(self) -> None:
        """Publish what is due, each entry until Pub/Sub has taken it."""
        while True:
            entry = await self._due.get()
            while not self._is_taken(entry):  # noqa: ASYNC110 -- no event tells that the topic is made
                await asyncio.sleep(_PAUSE_SECONDS)

    def _is_taken(self, entry: dict[str, Any]) -> bool:
        try:
            self._publish(json.dumps(entry).encode(), {"logging.googleapis.com/timestamp": entry["timestamp"]})
        except ApiError as error:
            write_record("entry not published, trying again", "WARNING", error=str(error))
            return False
        return True


def build_entry(event: OperationMoved, insert_id: str) -> dict[str, Any]:
    """Return the entry about the beginning or the end of an operation."""
    cluster = event.cluster
    payload: dict[str, Any] = {
        "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
        "serviceName": DOMAIN,
        "methodName": _METHODS.get(event.kind, _INTERNAL),
        "resourceName": f"{cluster.spelled}/nodePools/{event.pool}",
    }
    if event.ended:
        payload["metadata"] = {"operationType": event.kind, "requestID": insert_id}
        payload["status"] = {"code": event.code, "message": event.text} if event.code else {}
    else:
        payload["response"] = {"name": event.operation, "operationType": event.kind, "status": "RUNNING"}
    place = {"project_id": cluster.project, "location": cluster.location, "cluster_name": cluster.cluster}
    when = "last" if event.ended else "first"
    return {
        "insertId": insert_id,
        "logName": f"projects/{cluster.project}/logs/cloudaudit.googleapis.com%2Factivity",
        "resource": {"type": "gke_nodepool", "labels": {**place, "nodepool_name": event.pool}},
        "operation": {"id": event.operation, "producer": DOMAIN, when: True},
        "protoPayload": payload,
        "severity": "ERROR" if event.code else "NOTICE",
        "timestamp": event.at,
        "receiveTimestamp": event.at,
    }
