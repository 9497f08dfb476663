"""The history of one workload: each Event, operation or log record is one entry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from cli.access.log_search import ENTRIES_MAX, list_of_day, read_moment
from shared.edges.kubernetes_objects import Condition, ObjectMeta, Record
from shared.edges.workload_objects import Pod, view_pod
from shared.json_text import JSON_ERRORS
from shared.kinds.elastic import is_leader
from shared.kinds.table import KIND_NAMES, find_kind_of_pod, select_pods
from shared.model.errors import NotFound, Unavailable
from shared.model.names import parse_pool_name
from shared.model.times import parse_time
from shared.plan.failures import classify_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cli.access.log_search import OpenLogs
    from shared.edges.google_session import GoogleSession
    from shared.edges.kubernetes_api import KubernetesApi
    from shared.kinds.kind import Kind, Resource
    from shared.model.pools import PoolSnapshot

_LOUD = ("ERROR", "CRITICAL", "ALERT", "EMERGENCY", "WARNING")
_OURS = "NodePool"
"""Begins every reason of the provisioner's Events (`shared.model.decisions.EventReason`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened."""

    at: float
    """Unix seconds."""
    source: str
    """The workload's kind in lower case, ``pod``, ``event``, ``pool``, ``operation`` or ``log``."""
    about: str
    text: str
    bad: bool = False
    message: str = ""
    """The provisioner's own message, which is the same in Events and logs."""
    detail: bool = False
    """Kubernetes' own steps, and repetitions: the wide history only."""
    owner_uid: str = ""
    """The UID of the workload that it is about; empty if that is not told."""

    @property
    def key(self) -> tuple[float, str, str, str]:
        """Return what tells it from all others."""
        return self.at, self.source, self.about, self.text


class _Status(Record):
    conditions: list[Condition] | None = None
    phase: str = ""


class _Dated(Record):
    """A workload, of which only the dated parts are read."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: _Status = msgspec.field(default_factory=_Status)


class _Involved(Record):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Event(Record):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    involved_object: _Involved = msgspec.field(default_factory=_Involved)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


class _OperationError(msgspec.Struct):
    message: str = ""
    code: int = 0


class _Operation(msgspec.Struct, rename="camel"):
    """An operation of GKE, as in its REST v1 resource ``projects.locations.operations``."""

    name: str = ""
    operation_type: str | int = ""
    status: str | int = ""
    target_link: str = ""
    start_time: str = ""
    end_time: str = ""
    error: _OperationError | None = None


_WORDS = {
    "CREATE_NODE_POOL": "creation",
    "DELETE_NODE_POOL": "deletion",
    "SET_NODE_POOL_SIZE": "change of size",
    "UPGRADE_NODES": "upgrade",
    "REPAIR_CLUSTER": "repair",
    "AUTO_REPAIR_NODES": "repair of nodes",
    "AUTO_UPGRADE_NODES": "automatic upgrade",
}
"""GKE's types of operations in words.

https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.operations#type
"""


class _Operations(msgspec.Struct):
    operations: list[_Operation] = []


def read_workload_dates(api: KubernetesApi, kind: Resource, namespace: str, name: str) -> list[Entry]:
    """Return when a workload was made and what its conditions say; nothing when it is not there."""
    try:
        found = api.get(kind.path_of(namespace, name), _Dated)
    except NotFound:
        return []
    source, about = kind.name.lower(), f"{kind.name} {name}"
    return [
        *_read_dates(source, about, found.metadata),
        *_read_conditions(source, about, found.status.conditions or ()),
    ]


def read_leaders(api: KubernetesApi, kind: Kind, namespace: str, name: str) -> list[Entry]:
    """Return what is known of the leader pods of a workload."""
    found: list[Entry] = []
    path, selector = f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": select_pods(kind)}
    for page in api.list_pages(path, Pod, selector):
        for pod in page.items:
            view = view_pod(pod)
            if find_kind_of_pod(view) is not kind or kind.find_owner(view) != name or not is_leader(kind, view):
                continue
            about = f"Pod {pod.metadata.name}"
            scheduled = [each for each in pod.status.conditions or () if each.type == "PodScheduled"]
            found += [*_read_dates("pod", about, pod.metadata), *_read_conditions("pod", about, scheduled)]
    return found


def read_events(api: KubernetesApi, namespace: str, name: str) -> list[Entry]:
    """Return the Events of a workload, its parts and its pods. Kubernetes keeps them 1 hour."""
    found: list[Entry] = []
    for page in api.list_pages(f"/api/v1/namespaces/{namespace}/events", _Event):
        for event in page.items:
            about = event.involved_object
            if about.name == name or about.name.startswith(f"{name}-"):
                found += _read_event(event, name)
    return found


def _read_event(event: _Event, name: str) -> Iterator[Entry]:
    at = parse_time(event.first_timestamp or event.event_time or event.metadata.creation_timestamp)
    last = parse_time(event.last_timestamp)
    if at is None:
        return
    about, ours = event.involved_object, event.reason.startswith(_OURS)
    times = event.count or 1
    repeated = f" ({times} times, the last {round(last - at)} s later)" if times > 1 and last is not None else ""
    yield Entry(
        at=at,
        source="event",
        about=f"{about.kind} {about.name}",
        text=f"{event.reason}: {event.message}{repeated}",
        bad=event.type == "Warning",
        message=event.message if ours else "",
        detail=(about.kind not in KIND_NAMES or about.name != name) and not ours,
        owner_uid=about.uid if about.kind in KIND_NAMES and about.name == name else "",
    )


def read_pools(pools: Iterable[PoolSnapshot]) -> list[Entry]:
    """Return when each pool was asked for, by its label, and what it is now."""
    found = []
    for pool in pools:
        owner = pool.owner
        if owner and owner.created_at is not None:
            text = f"requested {pool.node_count} x {pool.machine_type} for {owner.slice_name}"
            text += f" (attempt {owner.attempt}); now {pool.status}"
            found.append(
                Entry(
                    at=float(owner.created_at),
                    source="pool",
                    about=pool.name,
                    text=f"{text}: {pool.error}" if pool.error else text,
                    bad=bool(pool.error),
                    owner_uid=owner.owner_uid,
                )
            )
    return found


def read_operations(gke: GoogleSession, cluster: str, names: set[str]) -> list[Entry]:
    """Return the operations of GKE on pools of these names, and on other attempts of their slices.

    GKE keeps them for a day or more.
    """
    claims = {parsed.hash for name in names if (parsed := parse_pool_name(name))}
    parent = cluster.rpartition("/clusters/")[0]
    body = gke.call("GET", f"v1/{parent}/operations")
    try:
        answer = msgspec.json.decode(body or b"{}", type=_Operations)
    except JSON_ERRORS as error:
        raise Unavailable(f"GKE's answer cannot be read: {error}") from error
    ours = f"/clusters/{cluster.rpartition('/')[2]}/nodePools/"
    found: list[Entry] = []
    for each in answer.operations:
        pool = each.target_link.rpartition("/")[2]
        parsed = parse_pool_name(pool)
        if ours in each.target_link and (pool in names or (parsed and parsed.hash in claims)):
            found += _read_operation(each, pool)
    return found


def _read_operation(operation: _Operation, pool: str) -> Iterator[Entry]:
    kind = _WORDS.get(str(operation.operation_type)) or str(operation.operation_type).lower().replace("_", " ")
    began, ended = parse_time(operation.start_time), parse_time(operation.end_time)
    if began is not None:
        yield Entry(at=began, source="operation", about=pool, text=f"{kind} began ({operation.name})")
    if ended is not None:
        problem = operation.error.message if operation.error else ""
        after = f" after {round(ended - began)} s" if began is not None else ""
        text = f"{kind} failed{after}{_name_failure(operation)}: {problem}" if problem else f"{kind} ended{after}"
        yield Entry(at=ended, source="operation", about=pool, text=text, bad=bool(problem))


def _name_failure(operation: _Operation) -> str:
    """Return the class of a failed creation in brackets; nothing for another operation."""
    error = operation.error
    if error is None or operation.operation_type != "CREATE_NODE_POOL":
        return ""
    return f" ({classify_failure(error.message, error.code)})"


def read_logs(open_logs: OpenLogs, cluster: str, namespace: str, name: str, *, now: float) -> list[Entry]:
    """Return the functions' log records about one workload: the newest 500 of the last day.

    Raises:
        ProvisionerError: they could not be read.
    """
    wanted = (
        f"jsonPayload.claim.name={json.dumps(name)} AND jsonPayload.claim.namespace={json.dumps(namespace)} "
        f"AND jsonPayload.claim.cluster={json.dumps(cluster)}"
    )
    return [_describe_record(each) for each in list_of_day(open_logs, cluster, wanted, now=now, most=ENTRIES_MAX)]


def _describe_record(entry: Any) -> Entry:
    record = entry.payload if isinstance(entry.payload, dict) else {}
    pool, decision = str(record.get("pool") or ""), str(record.get("decision") or "")
    return Entry(
        at=read_moment(entry) or 0.0,
        source="log",
        about=f"{record.get('function', '')} {pool}".strip(),
        text=f"{decision}: {record.get('message', '')} [{record.get('reason', '')}]",
        bad=entry.severity in _LOUD,
        message=f"{record.get('message', '')} [{record.get('reason', '')}]",
        owner_uid=str(claim.get("owner_uid") or "") if isinstance(claim := record.get("claim"), dict) else "",
    )


def _read_dates(source: str, about: str, metadata: ObjectMeta) -> Iterator[Entry]:
    for text, when in (
        ("created", metadata.creation_timestamp),
        ("deletion requested", metadata.deletion_timestamp),
    ):
        at = parse_time(when)
        if at is not None:
            uid = "" if source == "pod" else metadata.uid
            yield Entry(at=at, source=source, about=about, text=text, owner_uid=uid)


def _read_conditions(source: str, about: str, conditions: Iterable[Condition]) -> Iterator[Entry]:
    for each in conditions:
        at = parse_time(each.last_transition_time)
        if at is None:
            continue
        held = each.type if each.status == "True" else f"not {each.type}"
        cause = ": ".join(part for part in (each.reason, each.message) if part)
        text = f"{held} ({cause})" if cause else held
        bad = each.type == "Failed" and each.status == "True"
        yield Entry(at=at, source=source, about=about, text=text, bad=bad)
