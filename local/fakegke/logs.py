"""One JSON object per line on standard output: what happened in the model, and what the process does."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from local.fakegke.events import CallMade, NodesDown, NodesDraining, NodeUp, PoolState

if TYPE_CHECKING:
    from local.fakegke.events import Event


def log(severity: str, message: str, **fields: Any) -> None:
    """Write one record."""
    moment = datetime.now(tz=UTC).isoformat().replace("+00:00", "Z")
    record = {"severity": severity, "message": message, "time": moment, **fields}
    sys.stdout.write(json.dumps(record, default=str) + "\n")
    sys.stdout.flush()


def log_event(event: Event) -> None:
    """Write what the model told."""
    if isinstance(event, CallMade):
        severity = "INFO" if event.code == "OK" else "WARNING"
        log(
            severity,
            "call",
            method=event.method,
            cluster=event.cluster,
            pool=event.pool,
            skin=event.skin,
            code=event.code,
        )
    elif isinstance(event, PoolState):
        severity = "WARNING" if "ERROR" in event.status else "INFO"
        log(severity, "pool state", cluster=event.cluster.cluster, pool=event.pool, status=event.status)
    elif isinstance(event, NodeUp):
        log("DEBUG", "node up", pool=event.node.pool, node=event.node.name)
    elif isinstance(event, NodesDraining):
        log("DEBUG", "nodes draining", pool=event.pool, nodes=len(event.names))
    elif isinstance(event, NodesDown):
        log("DEBUG", "nodes down", pool=event.pool, nodes=len(event.names))
