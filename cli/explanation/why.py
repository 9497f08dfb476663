"""The history of one workload in order of time, and what the plan says of it now."""

from __future__ import annotations

import dataclasses
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cli.access.log_search import read_answers
from cli.exit_codes import BadInput, say
from cli.explaining import find_summary
from cli.explanation.history import (
    Entry,
    explain_suspension,
    list_dates,
    read_events,
    read_logs,
    read_operations,
    read_pods,
    read_pools,
    read_workload_object,
)
from cli.fleet.looks import read_cluster
from cli.fleet.rows import list_decisions
from cli.fleet.status import Status, add_reading, add_refusals, needs_records
from cli.moments import format_moment
from shared.edges.pods import Pod, view_pod
from shared.engine.budget import Key
from shared.kinds.table import KIND_NAMES, KINDS, choose_kinds, find_kind_of_pod
from shared.model.errors import NotFound, ProvisionerError
from shared.model.names import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cli.access.log_search import OpenLogs
    from cli.access.operator_access import Deployment
    from cli.fleet.looks import Reading
    from shared.kinds.kind import Kind
    from shared.model.decisions import Decision

VALID = "NAME, NAMESPACE/NAME, KIND/NAME or KIND NAME"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_WORD = re.compile(r"[a-z][-a-z0-9]{13,39}")


@dataclass(slots=True)
class History:
    """What is known of one workload in one cluster."""

    cluster: str
    namespace: str
    name: str
    kind: str = ""
    """Empty while nothing tells it."""
    exists: bool = False
    entries: list[Entry] = field(default_factory=list)
    now: Status = field(default_factory=Status)
    decisions: list[Decision] = field(default_factory=list)
    """What its owner is told now."""
    suspended: str = ""
    """What it waits for if it is suspended."""
    unread: list[str] = field(default_factory=list)
    """Sources that could not be read, with the error."""

    @property
    def known(self) -> bool:
        """Return whether there is anything to tell."""
        return self.exists or bool(self.entries)

    @property
    def reasons(self) -> dict[str, str]:
        """Return each reason of the present, with the first sentence of the runbook about it."""
        rows = [*self.now.pools, *self.now.waiting, *self.now.left_alone]
        named = [*(row.reason for row in rows), *(str(each.reason) for each in self.decisions)]
        return {reason: find_summary(reason) for reason in dict.fromkeys(filter(None, named))}

    def as_data(self, *, since: float | None = None) -> dict[str, Any]:
        """Return it for programs, without entries before a time in unix seconds."""
        entries = [each for each in self.entries if since is None or each.at >= since]
        return {
            "cluster": self.cluster,
            "namespace": self.namespace,
            "name": self.name,
            "kind": self.kind,
            "exists": self.exists,
            "entries": [{"time": format_moment(each.at), **dataclasses.asdict(each)} for each in entries],
            "now": self.now.as_data(),
            "decisions": [
                {key: str(value) for key, value in dataclasses.asdict(each).items()} for each in self.decisions
            ],
            "runbook": self.reasons,
            "suspended": self.suspended,
            "unread": self.unread,
        }


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
    for what, value in (("namespace", home), ("name", name)):
        if not _NAME.fullmatch(value):
            raise BadInput(f"WORKLOAD: the {what} is not a Kubernetes name (got {value!r}); valid: {VALID}")
    return kind, home, name


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


def tell(deployment: Deployment, cluster: str, namespace: str, name: str, kind_name: str = "") -> History:
    """Return the history of a workload in one cluster. A source that fails is named in it."""
    history = History(cluster=cluster, namespace=namespace, name=name)
    api, ports = deployment.apis[cluster], deployment.ports
    for kind in choose_kinds([kind_name] if kind_name else ports.settings.kinds):
        with _reading(history, f"the {kind.name}"):
            body = read_workload_object(api, kind, namespace, name)
            if body is not None:
                history.kind, history.exists = history.kind or kind.name, True
                history.entries += list_dates(kind, body)
                history.suspended = explain_suspension(kind, body)
    with _reading(history, "Events"):
        history.entries += read_events(api, namespace, name)
    reading = read_cluster(
        cluster,
        ports,
        chooses=lambda key: (key.namespace, key.name) == (namespace, name) and kind_name in ("", key.kind),
        also=[Key(cluster, history.kind, namespace, name)] if history.kind else [],
    )
    add_present(history, reading)
    history.kind = history.kind or _guess_kind(history)
    if deployment.open_logs is not None:
        with _reading(history, "logs"):
            _add_logs(history, deployment.open_logs, ports.clock.now())
    history.entries += read_operations(reading.list_operations(_find_hashes(history, reading)))
    history.entries.sort(key=lambda each: each.at)
    return history


def _add_logs(history: History, open_logs: OpenLogs, now: float) -> None:
    """Add what the functions logged: they write the same words on the workload."""
    records = read_logs(open_logs, history.cluster, history.namespace, history.name, now=now)
    if records:
        history.entries = [
            *(dataclasses.replace(each, detail=True) if each.ours else each for each in history.entries),
            *records,
        ]
    if records and needs_records(history.now):
        add_refusals(history.now, read_answers(open_logs, history.cluster, now=now))


def add_present(history: History, reading: Reading) -> None:
    """Add the pods and pools of the workload, and what the plan says of it.

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
        history.entries += read_pools(one.look.pools.values())


def _find_hashes(history: History, reading: Reading) -> set[str]:
    """Return what the names of the workload's pools have, by its needs and by texts about them.

    Of a workload that is gone, only Events and log records name the pools.
    """
    words = (word for each in history.entries for word in _WORD.findall(f"{each.about} {each.text}"))
    named = {parsed.hash for word in words if (parsed := parse_name(word))}
    return named.union(*(one.slots for one in reading.planned))


@contextmanager
def _reading(history: History, what: str) -> Iterator[None]:
    try:
        yield
    except ProvisionerError as error:
        history.unread.append(f"{what}: {say(error)}")


def _guess_kind(history: History) -> str:
    """Return the kind of a workload that is gone, from its Events."""
    named = [name for each in history.entries for name in KIND_NAMES if each.about == f"{name} {history.name}"]
    return next(iter(named), "")
