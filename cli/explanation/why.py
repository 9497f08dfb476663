"""The history of one workload in order of time, and what the plan says of it now."""

from __future__ import annotations

import dataclasses
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from cli.access.log_search import DAY_SECONDS, list_newest, read_answers
from cli.exit_codes import BadInput, noting
from cli.explaining import find_summary
from cli.fleet.rows import list_decisions, read_cluster
from cli.fleet.status import Status, add_reading, add_refusals, needs_records
from cli.printing import format_moment
from shared.edges.kubernetes import JsonObject
from shared.edges.pods import Pod, view_pod
from shared.engine.budget import Key
from shared.kinds import read
from shared.kinds.table import KIND_NAMES, KINDS, choose_kinds, find_kind_of_pod
from shared.model.errors import NotFound
from shared.model.failures import classify_failure
from shared.model.messages import OBJECT_NAME
from shared.model.names import parse_name
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cli.access.connections import Deployment
    from cli.access.log_search import OpenLogs
    from cli.fleet.rows import Reading
    from shared.edges.kubernetes import KubernetesApi
    from shared.kinds.kind import Kind, Resource
    from shared.model.decisions import Decision
    from shared.model.pools import Operation
    from shared.model.workloads import PodView


_LOUD = ("ERROR", "CRITICAL", "ALERT", "EMERGENCY", "WARNING")
_OURS = "NodePool"
"""Begins every reason of the provisioner's Events (`shared.model.decisions.EVENTS`)."""
_QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PODS_SHOWN = 4  # those that wait first; those of one workload mostly say the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened."""

    at: float  # unix seconds
    source: str  # the workload's kind in lower case, ``pod``, ``event``, ``operation`` or ``log``
    about: str
    text: str
    bad: bool = False


def list_dates(kind: Resource, body: JsonObject) -> Iterator[Entry]:
    """Yield when a workload was made and what its conditions say."""
    dates = [(read.text(body, "metadata", "creationTimestamp"), "created")]
    dates.append((read.text(body, "metadata", "deletionTimestamp"), "deletion requested"))
    for each in read.objects(body, "status", "conditions"):
        held = "" if read.text(each, "status") == "True" else "not "
        cause = ": ".join(filter(None, (read.text(each, "reason"), read.text(each, "message"))))
        text = f"{held}{read.text(each, 'type')}" + (f" ({cause})" if cause else "")
        dates.append((read.text(each, "lastTransitionTime"), text))
    about = f"{kind.name} {read.text(body, 'metadata', 'name')}"
    for when, text in dates:
        if (at := parse_time(when)) is not None:
            yield Entry(at=at, source=kind.name.lower(), about=about, text=text)


def explain_suspension(kind: Resource, body: JsonObject) -> str:
    """Return what a suspended workload waits for, as the end of a sentence; empty for any other.

    Kubernetes keeps the name of the program that last wrote ``spec.suspend``:
    https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
    """
    if not read.flag(body, "spec", "suspend"):
        return ""
    name, namespace = (read.text(body, "metadata", each) for each in ("name", "namespace"))
    writers = [(read.text(each, "time"), read.text(each, "manager")) for each in read.suspend_writes(body)]
    by = f" by {writer}" if (writer := max(writers, default=("", ""))[1]) else ""
    resume = '{"spec":{"suspend":false}}'
    resumes = f"to resume it: kubectl patch {kind.plural} {name} -n {namespace} --type=merge -p '{resume}'"
    if queue := read.texts(body, "metadata", "labels").get(_QUEUE_NAME):
        resumes = f"Kueue resumes it when its queue {queue} admits it (kubectl describe workloads -n {namespace})"
    return f"is suspended{by}, so it needs no pools; {resumes}"


def read_pods(pods: Iterable[PodView]) -> Iterator[Entry]:
    """Yield when each pod was made, and what the scheduler says of those that wait."""
    for pod in sorted(pods, key=lambda pod: (not pod.unschedulable, pod.name))[:PODS_SHOWN]:
        about = f"Pod {pod.name}"
        if pod.created_at is not None:
            yield Entry(at=pod.created_at, source="pod", about=about, text="created")
        if pod.unschedulable and pod.unschedulable_since is not None:
            text = f"Unschedulable ({pod.scheduler_message})"
            yield Entry(at=pod.unschedulable_since, source="pod", about=about, text=text)


def read_events(api: KubernetesApi, namespace: str, name: str, *, logged: bool) -> Iterator[Entry]:
    """Yield the Events of a workload, which Kubernetes keeps for an hour.

    Without a log those of the provisioner on its pods are among them: they have the same words. Of
    warnings about its pods and Jobs it is the first with the same words.
    """
    messages: set[str] = set()
    path = f"/api/v1/namespaces/{namespace}/events"
    for event in api.read_each(path, JsonObject, lambda event: event):
        message = read.text(event, "message")
        new = message not in messages
        if _is_of(event, name, logged=logged) or (new and _warns_of_part(event, name)):
            messages.add(message)
            yield from _read_event(event)


def _is_of(event: JsonObject, name: str, *, logged: bool) -> bool:
    kind, about = (read.text(event, "involvedObject", each) for each in ("kind", "name"))
    if read.text(event, "reason").startswith(_OURS):
        return not logged and about.startswith(name)
    return kind in KIND_NAMES and about == name


def _warns_of_part(event: JsonObject, name: str) -> bool:
    ours = read.text(event, "reason").startswith(_OURS)
    warns = read.text(event, "type") == "Warning" and not ours
    return warns and read.text(event, "involvedObject", "name").startswith(f"{name}-")


def _read_event(event: JsonObject) -> Iterator[Entry]:
    dates = [read.text(event, each) for each in ("firstTimestamp", "eventTime")]
    at = parse_time(next(filter(None, dates), read.text(event, "metadata", "creationTimestamp")))
    last, times = parse_time(read.text(event, "lastTimestamp")), read.number(event, "count")
    repeated = f" ({times} times, the last {round(last - at)} s later)" if times > 1 and last and at else ""
    text = f"{read.text(event, 'reason')}: {read.text(event, 'message')}{repeated}"
    if at is not None:
        about = " ".join(read.text(event, "involvedObject", each) for each in ("kind", "name"))
        yield Entry(at=at, source="event", about=about, text=text, bad=read.text(event, "type") == "Warning")


def read_operations(operations: Iterable[Operation]) -> Iterator[Entry]:
    """Yield what GKE did with the pools of a workload, with the class of what failed."""
    for each in operations:
        kind, began, ended = "creation" if each.creates else "deletion", each.began_at, each.ended_at
        if began is not None:
            yield Entry(at=began, source="operation", about=each.pool, text=f"{kind} began")
        if ended is not None:
            after = f" after {round(ended - began)} s" if began is not None else ""
            text = f"{kind} ended{after}"
            if each.error:
                failure = f" ({classify_failure(each.error)})" if each.creates else ""
                text = f"{kind} failed{after}{failure}: {each.error}"
            yield Entry(at=ended, source="operation", about=each.pool, text=text, bad=bool(each.error))


def read_logs(open_logs: OpenLogs, cluster: str, namespace: str, name: str, *, now: float) -> list[Entry]:
    """Return the functions' log records about one workload: the newest 500 of the last day."""
    wanted = (
        f"jsonPayload.claim.name={json.dumps(name)} AND jsonPayload.claim.namespace={json.dumps(namespace)} "
        f"AND jsonPayload.claim.cluster={json.dumps(cluster)}"
    )
    return [
        Entry(
            at=at,
            source="log",
            about=f"{fields.get('function', '')} {fields.get('pool') or ''}".strip(),
            text=f"{fields.get('decision') or ''}: {fields.get('message', '')} [{fields.get('reason', '')}]",
            bad=severity in _LOUD,
        )
        for at, fields, severity in list_newest(open_logs, cluster, wanted, since=now - DAY_SECONDS)
    ]


VALID = "NAME, NAMESPACE/NAME, KIND/NAME or KIND NAME"
_WORD = re.compile(r"[a-z][-a-z0-9]{13,39}")


@dataclass(slots=True)
class History:
    """What is known of one workload in one cluster."""

    cluster: str
    namespace: str
    name: str
    kind: str = ""  # empty while nothing tells it
    exists: bool = False
    entries: list[Entry] = field(default_factory=list)
    now: Status = field(default_factory=Status)
    decisions: list[Decision] = field(default_factory=list)  # what its owner reads now
    suspended: str = ""  # what it waits for if it is suspended
    unread: list[str] = field(default_factory=list)
    """Sources that could not be read, with the error."""

    @property
    def reasons(self) -> dict[str, str]:
        """Return each reason of the present, with the first sentence of the runbook about it."""
        rows = [*self.now.pools, *self.now.waiting, *self.now.left_alone]
        named = [*(row.reason for row in rows), *(str(each.reason) for each in self.decisions)]
        return {reason: find_summary(reason) for reason in dict.fromkeys(filter(None, named))}

    def as_data(self, *, since: float = 0.0) -> dict[str, Any]:
        """Return it for programs, without entries before a time in unix seconds."""
        entries = [each for each in self.entries if each.at >= since]
        changes = {
            "entries": [{"time": format_moment(each.at), **dataclasses.asdict(each)} for each in entries],
            "now": self.now.as_data(),
            "decisions": [msgspec.to_builtins(each) for each in self.decisions],
            "runbook": self.reasons,
        }
        return dataclasses.asdict(self) | changes


def parse_workload(words: Sequence[str], namespace: str) -> tuple[str, str, str]:
    """Return kind (empty: any), namespace and name of a workload, which is named as for kubectl.

    A prefix that names no kind is a namespace.
    """
    prefix, slash, name = "/".join(words).rpartition("/")
    kind = next((each.name for each in KINDS if prefix.lower() in _list_names(each)), "")
    if len(words) > 1 and not kind:
        raise BadInput(f"WORKLOAD: is no kind of workload (got {words[0][:80]!r}); valid: {VALID}")
    home = prefix if slash and not kind else namespace or "default"
    if namespace not in ("", home):
        raise BadInput(f"WORKLOAD: contradicts --namespace={namespace!r} (got {prefix!r}); valid: one of the two")
    return kind, _check_name(home), _check_name(name)


def _check_name(text: str) -> str:
    if not OBJECT_NAME.fullmatch(text):
        raise BadInput(f"WORKLOAD: is not a Kubernetes name (got {text!r}); valid: {VALID}")
    return text


def _list_names(kind: Kind) -> tuple[str, ...]:
    """Return what kubectl accepts for a kind; its short names are mostly the initials."""
    initials = "".join(each for each in kind.name if each.isupper()).lower()
    short = {"deployments": "deploy", "statefulsets": "sts", "pods": "po"}.get(kind.plural, initials)
    return kind.name.lower(), kind.plural, f"{kind.plural}.{kind.group}", short


def find_owner(deployment: Deployment, cluster: str, namespace: str, name: str) -> tuple[str, str]:
    """Return kind and name of the workload of a pod: the pod itself where it is not there."""
    try:
        pod = view_pod(deployment.apis[cluster].get(f"/api/v1/namespaces/{namespace}/pods/{name}", Pod))
    except NotFound:
        return "", name
    kind = find_kind_of_pod(pod)
    return (kind.name, kind.find_owner(pod)) if kind else ("", name)


def tell(deployment: Deployment, cluster: str, kind_name: str, namespace: str, name: str) -> History:
    """Return the history of a workload, or of that of a pod. A source that fails is named in it."""
    if kind_name == "Pod":
        kind_name, name = find_owner(deployment, cluster, namespace, name)
    history = History(cluster=cluster, namespace=namespace, name=name)
    api, ports = deployment.apis[cluster], deployment.ports
    for kind in choose_kinds([kind_name] if kind_name else ports.settings.kinds):
        with noting(history.unread, f"the {kind.name}"), suppress(NotFound):
            body = api.get(kind.path_of(namespace, name), JsonObject)
            history.kind, history.exists = history.kind or kind.name, True
            history.entries += list_dates(kind, body)
            history.suspended = explain_suspension(kind, body)
    records: list[Entry] = []
    if deployment.open_logs is not None:
        with noting(history.unread, "logs"):
            records = read_logs(deployment.open_logs, cluster, namespace, name, now=ports.clock.now())
    with noting(history.unread, "Events"):
        history.entries += read_events(api, namespace, name, logged=bool(records))
    history.entries += records
    reading = read_cluster(
        cluster,
        ports,
        chooses=lambda key: (key.namespace, key.name) == (namespace, name) and kind_name in ("", key.kind),
        also=[Key(cluster, history.kind, namespace, name)] if history.kind else [],
    )
    add_present(history, reading)
    if records and deployment.open_logs is not None and needs_records(history.now):
        with noting(history.unread, "logs"):
            add_refusals(history.now, read_answers(deployment.open_logs, cluster, now=ports.clock.now()))
    history.entries += read_operations(reading.list_operations(_find_hashes(history, reading)))
    history.entries.sort(key=lambda each: each.at)
    return history


def add_present(history: History, reading: Reading) -> None:
    """Add the pods of the workload, and what the plan says of it and its pools.

    A workload that something waits for is not only suspended.
    """
    history.unread += [f"{history.cluster}: {error}" for error in reading.errors]
    add_reading(history.now, reading)
    if not history.now.is_empty:
        history.suspended = ""
    for one in reading.planned:
        history.kind = history.kind or one.look.key.kind
        history.decisions += list_decisions(one)
        history.entries += read_pods(one.look.pods)


def _find_hashes(history: History, reading: Reading) -> set[str]:
    """Return what the names of the workload's pools have, by its needs and by texts about them.

    Of a workload that is gone, only Events and log records name the pools.
    """
    words = (word for each in history.entries for word in _WORD.findall(f"{each.about} {each.text}"))
    named = {parsed.hash for word in words if (parsed := parse_name(word))}
    return named.union(*(one.hashes for one in reading.planned))
