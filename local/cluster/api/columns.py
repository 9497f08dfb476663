"""The columns of each kind's table: those of kubectl's printers for the main kinds, else name and age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from local.cluster.store.kinds import (
    CLAIM,
    DEFINITION,
    EVENT,
    JOB,
    JOBSET,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    SERVICE,
    Kind,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

_WIDE = 1
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


@dataclass(frozen=True)
class Column:
    """One column: its heading and how its cell follows from an object."""

    name: str
    value: Callable[[Json], Any]
    type: str = "string"
    priority: int = 0

    def definition(self) -> Json:
        """Return the column's definition in a table."""
        format_name = "name" if self.name == "Name" else ""
        return {
            "name": self.name,
            "type": self.type,
            "format": format_name,
            "description": self.name,
            "priority": self.priority,
        }


def _at(*path: str, default: Any = "<none>") -> Callable[[Json], Any]:
    def value(body: Json) -> Any:
        found: Any = body
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        return default if found in {None, ""} else found

    return value


def duration(seconds: float) -> str:
    """Return an age as kubectl writes it: 45s, 3m10s, 5h, 2d3h."""
    whole = int(max(0, seconds))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    minutes, rest = divmod(whole, _MINUTE)
    if minutes < 10:  # noqa: PLR2004  kubectl's steps
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if whole < 3 * _HOUR:
        return f"{minutes}m"
    hours, rest = divmod(whole, _HOUR)
    if hours < 8:  # noqa: PLR2004  kubectl's steps
        return f"{hours}h{rest // _MINUTE}m" if rest // _MINUTE else f"{hours}h"
    if hours < 48:  # noqa: PLR2004  kubectl's steps
        return f"{hours}h"
    days, rest = divmod(whole, _DAY)
    return f"{days}d{rest // _HOUR}h" if days < 8 and rest // _HOUR else f"{days}d"  # noqa: PLR2004  kubectl's steps


def _since(timestamp: str | None) -> str:
    if not timestamp:
        return "<unknown>"
    return duration((datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds())


def _age(body: Json) -> str:
    return _since(body["metadata"].get("creationTimestamp"))


_NAME = Column("Name", _at("metadata", "name"))
_AGE = Column("Age", _age)


def _pod_status(body: Json) -> str:
    status = body.get("status", {})
    if "deletionTimestamp" in body["metadata"]:
        return "Terminating"
    for container in status.get("containerStatuses", []):
        state = container.get("state", {})
        reason = (state.get("waiting") or state.get("terminated") or {}).get("reason")
        if reason:
            return str(reason)
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase", "Unknown"))


def _pod_ready(body: Json) -> str:
    statuses = body.get("status", {}).get("containerStatuses", [])
    return f"{sum(s.get('ready', False) for s in statuses)}/{len(body['spec'].get('containers', []))}"


def _pod_restarts(body: Json) -> str:
    statuses = body.get("status", {}).get("containerStatuses", [])
    return str(sum(found.get("restartCount", 0) for found in statuses))


def _node_status(body: Json) -> str:
    conditions = body.get("status", {}).get("conditions", [])
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    cordoned = ",SchedulingDisabled" if body.get("spec", {}).get("unschedulable") else ""
    return ("Ready" if ready else "NotReady") + cordoned


def _job_status(body: Json) -> str:
    conditions = {c["type"] for c in body.get("status", {}).get("conditions", []) if c["status"] == "True"}
    return next((found for found in ("Complete", "Failed", "Suspended") if found in conditions), "Running")


def _job_completions(body: Json) -> str:
    spec = body["spec"]
    wanted = spec.get("completions", spec.get("parallelism", 1))
    return f"{body.get('status', {}).get('succeeded', 0)}/{wanted}"


def _job_duration(body: Json) -> str:
    status = body.get("status", {})
    if not status.get("startTime"):
        return ""
    if not status.get("completionTime"):
        return _since(status["startTime"])
    span = datetime.fromisoformat(status["completionTime"]) - datetime.fromisoformat(status["startTime"])
    return duration(span.total_seconds())


def _event_object(body: Json) -> str:
    involved = body.get("involvedObject", {})
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_last_seen(body: Json) -> str:
    stamp = body.get("lastTimestamp") or body.get("eventTime") or body["metadata"].get("creationTimestamp")
    return _since(stamp)


def _jobset_completed(body: Json) -> str:
    conditions = body.get("status", {}).get("conditions", [])
    return next((str(found["status"]) for found in conditions if found["type"] == "Completed"), "")


def _jobset_suspended(body: Json) -> str:
    return str(bool(body.get("spec", {}).get("suspend"))).lower()


def _service_ports(body: Json) -> str:
    ports = body.get("spec", {}).get("ports", [])
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


_COLUMNS: dict[str, tuple[Column, ...]] = {
    POD.storage: (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        _AGE,
        Column("IP", _at("status", "podIP"), priority=_WIDE),
        Column("Node", _at("spec", "nodeName"), priority=_WIDE),
        Column("Nominated Node", _at("status", "nominatedNodeName"), priority=_WIDE),
        Column("Readiness Gates", lambda _: "<none>", priority=_WIDE),
    ),
    NODE.storage: (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", lambda _: "<none>"),
        _AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Pool", _at("metadata", "labels", "cloud.google.com/gke-nodepool"), priority=_WIDE),
    ),
    JOB.storage: (
        _NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        _AGE,
    ),
    JOBSET.storage: (
        _NAME,
        Column("TerminalState", _at("status", "terminalState", default="")),
        Column("Restarts", _at("status", "restarts", default=0), type="integer"),
        Column("Completed", _jobset_completed),
        Column("Suspended", _jobset_suspended),
        _AGE,
    ),
    EVENT.storage: (
        Column("Last Seen", _event_last_seen),
        Column("Type", _at("type", default="")),
        Column("Reason", _at("reason", default="")),
        Column("Object", _event_object),
        Column("Source", _at("source", "component", default=""), priority=_WIDE),
        Column("Message", _at("message", default="")),
        Column("Count", _at("count", default=1), type="integer", priority=_WIDE),
        Column("Name", _at("metadata", "name"), priority=_WIDE),
    ),
    NAMESPACE.storage: (_NAME, Column("Status", _at("status", "phase", default="Active")), _AGE),
    SERVICE.storage: (
        _NAME,
        Column("Type", _at("spec", "type", default="ClusterIP")),
        Column("Cluster-IP", _at("spec", "clusterIP")),
        Column("External-IP", lambda _: "<none>"),
        Column("Port(s)", _service_ports),
        _AGE,
    ),
    LEASE.storage: (_NAME, Column("Holder", _at("spec", "holderIdentity", default="")), _AGE),
    CLAIM.storage: (_NAME, Column("Status", _at("status", "phase", default="Pending")), _AGE),
    DEFINITION.storage: (_NAME, Column("Created At", _at("metadata", "creationTimestamp", default=""))),
}


def columns_of(kind: Kind) -> tuple[Column, ...]:
    """Return the columns of a kind."""
    return _COLUMNS.get(kind.storage, (_NAME, _AGE))
