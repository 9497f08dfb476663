"""The history of one workload in order of time, and what the plan says of it now."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from cli.access.log_search import read_answers
from cli.exit_codes import BadInput, say
from cli.explaining import find_summary
from cli.explanation.history import (
    Entry,
    read_events,
    read_logs,
    read_operations,
    read_pods,
    read_pools,
    read_workload_dates,
)
from cli.fleet.looks import read_cluster
from cli.fleet.rows import list_decisions
from cli.fleet.status import Status, add_reading, add_refusals, needs_records
from cli.moments import format_moment
from shared.edges.kubernetes import JsonObject
from shared.edges.pods import Pod, view_pod
from shared.engine.budget import Key
from shared.kinds.objects import list_suspend_writes, read_flag, read_text, read_texts
from shared.kinds.table import KIND_NAMES, KINDS, choose_kinds, find_kind_of_pod
from shared.model.errors import NotFound, ProvisionerError
from shared.model.names import parse_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cli.access.log_search import OpenLogs
    from cli.access.operator_access import Deployment
    from cli.fleet.looks import Reading
    from shared.edges.kubernetes import KubernetesApi
    from shared.kinds.kind import Kind, Resource
    from shared.model.decisions import Decision

_QUEUE_NAME = "kueue.x-k8s.io/queue-name"


def read_suspension(api: KubernetesApi, kind: Resource, namespace: str, name: str) -> str:
    """Return what a suspended workload waits for, as the end of a sentence; empty for any other.

    Kubernetes keeps the name of the program that last wrote ``spec.suspend``:
    https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management.
    """
    try:
        body = api.get(kind.path_of(namespace, name), JsonObject)
    except NotFound:
        return ""
    if not read_flag(body, "spec", "suspend"):
        return ""
    writers = [(read_text(each, "time"), read_text(each, "manager")) for each in list_suspend_writes(body)]
    by = f" by {writer}" if (writer := max(writers, default=("", ""))[1]) else ""
    resume = '{"spec":{"suspend":false}}'
    resumes = f"to resume it: kubectl patch {kind.plural} {name} -n {namespace} --type=merge -p '{resume}'"
    if queue := read_texts(body, "metadata", "labels").get(_QUEUE_NAME):
        resumes = f"Kueue resumes it when its queue {queue} admits it (kubectl describe workloads -n {namespace})"
    return f"is suspended{by}, so it needs no pools; {resumes}"


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
        before = len(history.entries)
        _add(history, f"the {kind.name}", partial(read_workload_dates, api, kind, namespace, name))
        if len(history.entries) > before:
            history.kind, history.exists = history.kind or kind.name, True
    _add(history, "Events", lambda: read_events(api, namespace, name))
    also = [Key(cluster, history.kind, namespace, name)] if history.kind else []
    reading = read_cluster(
        cluster,
        ports,
        chooses=lambda key: (key.namespace, key.name) == (namespace, name) and kind_name in ("", key.kind),
        also=also,
    )
    add_present(history, reading)
    history.kind = history.kind or _guess_kind(history)
    open_logs = deployment.open_logs
    if open_logs is not None:
        now = ports.clock.now()
        before = len(history.entries)
        _add(history, "logs", lambda: read_logs(open_logs, cluster, namespace, name, now=now))
        if len(history.entries) > before:
            _add_refusals(history, open_logs, now)
            # The functions write the same words on the workload and in their log.
            history.entries = [
                dataclasses.replace(each, detail=True) if each.ours else each for each in history.entries
            ]
    history.entries += read_operations(reading.list_operations(_find_hashes(history, reading)))
    history.entries.sort(key=lambda each: each.at)
    add_suspension(history, deployment)
    return history


def add_present(history: History, reading: Reading) -> None:
    """Add the pods and pools of the workload, and what the plan says of it."""
    history.unread += [f"{history.cluster}: {error}" for error in reading.errors]
    add_reading(history.now, reading)
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


def _add_refusals(history: History, open_logs: OpenLogs, now: float) -> None:
    if not needs_records(history.now):
        return
    try:
        add_refusals(history.now, read_answers(open_logs, history.cluster, now=now))
    except ProvisionerError as error:
        history.unread.append(f"what was refused: {say(error)}")


def add_suspension(history: History, deployment: Deployment) -> None:
    """Add what the workload waits for if it is suspended, and nothing else tells of it."""
    kinds = choose_kinds(deployment.settings.kinds)
    found = next((kind for kind in kinds if kind.name == history.kind), None)
    if found is None or not history.exists or not history.now.is_empty:
        return
    read = partial(read_suspension, deployment.apis[history.cluster], found, history.namespace, history.name)
    try:
        history.suspended = read()
    except ProvisionerError as error:
        history.unread.append(f"whether it is suspended: {say(error)}")


def list_absent_kinds(deployment: Deployment, cluster: str) -> list[str]:
    """Return the kinds of workload that a cluster lacks, or that are not served."""
    served = deployment.settings.kinds
    absent = [f"{kind.name} (not in the setting kinds)" for kind in KINDS if kind.name not in served]
    for kind in choose_kinds(served):
        try:
            deployment.apis[cluster].get(kind.root, JsonObject)
        except NotFound:
            absent.append(f"{kind.name} (not installed)")
    return absent


def _add(history: History, what: str, read: Callable[[], list[Entry]]) -> None:
    try:
        history.entries += read()
    except ProvisionerError as error:
        history.unread.append(f"{what}: {say(error)}")


def _guess_kind(history: History) -> str:
    """Return the kind of a workload that is gone, from its Events."""
    named = [name for each in history.entries for name in KIND_NAMES if each.about == f"{name} {history.name}"]
    return next(iter(named), "")
