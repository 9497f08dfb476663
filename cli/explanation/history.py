"""The sources of a history: each Event, pool, operation or log record is one entry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from cli.access.log_search import ENTRIES_MAX, list_of_day, read_moment, read_record
from shared.edges.kubernetes import JsonObject, ObjectMeta, Record
from shared.kinds.objects import list_suspend_writes, read_flag, read_objects, read_text, read_texts
from shared.kinds.table import KIND_NAMES
from shared.model.errors import NotFound
from shared.model.failures import classify_failure
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cli.access.log_search import OpenLogs
    from shared.edges.kubernetes import KubernetesApi
    from shared.kinds.kind import Resource
    from shared.model.pools import NodePool, Operation
    from shared.model.workloads import PodView

_LOUD = ("ERROR", "CRITICAL", "ALERT", "EMERGENCY", "WARNING")
_OURS = "NodePool"
"""Begins every reason of the provisioner's Events (`shared.model.decisions.EventReason`)."""
_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PODS_SHOWN = 4
"""So many pods are told in the narrow history; those of one workload mostly tell the same."""


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
    ours: bool = False
    """It is an Event of the provisioner, which its log has too."""
    detail: bool = False
    """Shown in the wide history only."""


class _Involved(Record):
    kind: str = ""
    name: str = ""


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


def read_workload_object(api: KubernetesApi, kind: Resource, namespace: str, name: str) -> JsonObject | None:
    """Return a workload as it is now; None when it is not there."""
    try:
        return api.get(kind.path_of(namespace, name), JsonObject)
    except NotFound:
        return None


def list_dates(kind: Resource, body: JsonObject) -> list[Entry]:
    """Return when a workload was made and what its conditions say."""
    dates = {
        "created": read_text(body, "metadata", "creationTimestamp"),
        "deletion requested": read_text(body, "metadata", "deletionTimestamp"),
    }
    for each in read_objects(body, "status", "conditions"):
        held = "" if read_text(each, "status") == "True" else "not "
        cause = ": ".join(filter(None, (read_text(each, "reason"), read_text(each, "message"))))
        dates[f"{held}{read_text(each, 'type')}" + (f" ({cause})" if cause else "")] = read_text(
            each, "lastTransitionTime"
        )
    source, about = kind.name.lower(), f"{kind.name} {read_text(body, 'metadata', 'name')}"
    moments = ((parse_time(when), text) for text, when in dates.items())
    return [Entry(at=at, source=source, about=about, text=text) for at, text in moments if at is not None]


def explain_suspension(kind: Resource, body: JsonObject) -> str:
    """Return what a suspended workload waits for, as the end of a sentence; empty for any other.

    Kubernetes keeps the name of the program that last wrote ``spec.suspend``:
    https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
    """
    if not read_flag(body, "spec", "suspend"):
        return ""
    name, namespace = (read_text(body, "metadata", each) for each in ("name", "namespace"))
    writers = [(read_text(each, "time"), read_text(each, "manager")) for each in list_suspend_writes(body)]
    by = f" by {writer}" if (writer := max(writers, default=("", ""))[1]) else ""
    resume = '{"spec":{"suspend":false}}'
    resumes = f"to resume it: kubectl patch {kind.plural} {name} -n {namespace} --type=merge -p '{resume}'"
    if queue := read_texts(body, "metadata", "labels").get(_QUEUE_NAME):
        resumes = f"Kueue resumes it when its queue {queue} admits it (kubectl describe workloads -n {namespace})"
    return f"is suspended{by}, so it needs no pools; {resumes}"


def read_pods(pods: Iterable[PodView]) -> list[Entry]:
    """Return when each pod was made, and what the scheduler says of those that wait."""
    found = []
    for number, pod in enumerate(sorted(pods, key=lambda pod: pod.name)):
        about, detail = f"Pod {pod.name}", number >= PODS_SHOWN
        if pod.created_at is not None:
            found.append(Entry(at=pod.created_at, source="pod", about=about, text="created", detail=detail))
        if pod.unschedulable and pod.unschedulable_since is not None:
            text = f"Unschedulable ({pod.scheduler_message})"
            found.append(Entry(at=pod.unschedulable_since, source="pod", about=about, text=text, detail=detail))
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
    is_workload = about.kind in KIND_NAMES and about.name == name
    times = event.count or 1
    repeated = f" ({times} times, the last {round(last - at)} s later)" if times > 1 and last is not None else ""
    yield Entry(
        at=at,
        source="event",
        about=f"{about.kind} {about.name}",
        text=f"{event.reason}: {event.message}{repeated}",
        bad=event.type == "Warning",
        ours=ours,
        detail=not is_workload and not ours,
    )


def read_pools(pools: Iterable[NodePool]) -> list[Entry]:
    """Return when each pool was asked for, by its label, and what it is now."""
    found = []
    for pool in pools:
        owner = pool.owner
        if owner and owner.created_at is not None:
            text = f"requested {pool.hosts} x {pool.machine_type} for slot {owner.slot}"
            text += f" (attempt {owner.attempt}); now {pool.status}"
            text = f"{text}: {pool.error}" if pool.error else text
            at, bad = float(owner.created_at), bool(pool.error)
            found.append(Entry(at=at, source="pool", about=pool.name, text=text, bad=bad))
    return found


def read_operations(operations: Iterable[Operation]) -> list[Entry]:
    """Return what GKE did with the pools of a workload, with the class of what failed."""
    return [entry for each in operations for entry in _read_operation(each)]


def _read_operation(operation: Operation) -> Iterator[Entry]:
    kind = "creation" if operation.creates else "deletion"
    began, ended = operation.began_at, operation.ended_at
    if began is not None:
        yield Entry(at=began, source="operation", about=operation.pool, text=f"{kind} began")
    if ended is not None:
        after = f" after {round(ended - began)} s" if began is not None else ""
        text = f"{kind} ended{after}"
        if operation.error:
            failure = f" ({classify_failure(operation.error)})" if operation.creates else ""
            text = f"{kind} failed{after}{failure}: {operation.error}"
        yield Entry(at=ended, source="operation", about=operation.pool, text=text, bad=bool(operation.error))


def read_logs(open_logs: OpenLogs, cluster: str, namespace: str, name: str, *, now: float) -> list[Entry]:
    """Return the functions' log records about one workload: the newest 500 of the last day."""
    wanted = (
        f"jsonPayload.claim.name={json.dumps(name)} AND jsonPayload.claim.namespace={json.dumps(namespace)} "
        f"AND jsonPayload.claim.cluster={json.dumps(cluster)}"
    )
    return [_view_record(each) for each in list_of_day(open_logs, cluster, wanted, now=now, most=ENTRIES_MAX)]


def _view_record(entry: Any) -> Entry:
    record = read_record(entry)
    pool, decision = str(record.get("pool") or ""), str(record.get("decision") or "")
    return Entry(
        at=read_moment(entry) or 0.0,
        source="log",
        about=f"{record.get('function', '')} {pool}".strip(),
        text=f"{decision}: {record.get('message', '')} [{record.get('reason', '')}]",
        bad=entry.severity in _LOUD,
    )
