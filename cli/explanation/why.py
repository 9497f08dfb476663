"""The history of one workload in order of time, and the present state of each of its slices."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from cli.exit_codes import BadInput, say
from cli.explanation.history import (
    Entry,
    read_events,
    read_leaders,
    read_logs,
    read_operations,
    read_pools,
    read_workload_dates,
)
from cli.explanation.suspensions import read_suspension
from cli.fleet.status import Status, read_status
from cli.moments import format_moment
from shared.edges.kubernetes_objects import JsonObject
from shared.kinds.table import KIND_NAMES, KINDS, choose_kinds, list_slices
from shared.model.errors import NotFound, ProvisionerError, Rejected
from shared.model.names import build_pool_name, parse_pool_name
from shared.needs.demand import claim_slice

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.access.operator_access import Deployment
    from shared.model.pools import PoolSnapshot

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
    suspended: str = ""
    """What it waits for if it is suspended and has nothing else to tell of its present state."""
    unread: list[str] = field(default_factory=list)
    """Sources that could not be read, with the error."""

    @property
    def known(self) -> bool:
        """Return whether there is anything to tell."""
        return self.exists or bool(self.entries)

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
            "suspended": self.suspended,
            "unread": self.unread,
        }


def parse_workload(text: str, namespace: str) -> tuple[str, str]:
    """Return namespace and name of ``NAME`` or ``NAMESPACE/NAME``.

    Raises:
        BadInput: it is no name of Kubernetes, or two namespaces are named.
    """
    prefix, slash, name = text.rpartition("/")
    if slash and namespace and prefix != namespace:
        raise BadInput(f"WORKLOAD: contradicts --namespace={namespace!r} (got {text!r}); valid: one of the two")
    home = prefix if slash else namespace or "default"
    for what, value in (("namespace", home), ("name", name)):
        if not _NAME.fullmatch(value):
            raise BadInput(
                f"WORKLOAD: the {what} is not a Kubernetes name (got {value!r}); valid: NAME or NAMESPACE/NAME"
            )
    return home, name


def tell(deployment: Deployment, cluster: str, namespace: str, name: str) -> History:
    """Return the history of a workload in one cluster. A source that fails is named in it."""
    history = History(cluster=cluster, namespace=namespace, name=name)
    api, ports = deployment.apis[cluster], deployment.ports
    for kind in choose_kinds(ports.settings.kinds):
        before = len(history.entries)
        _add(history, f"the {kind.name}", partial(read_workload_dates, api, kind, namespace, name))
        if len(history.entries) > before:
            history.kind, history.exists = history.kind or kind.name, True
        _add(history, "its pods", partial(read_leaders, api, kind, namespace, name))
    _add(history, "Events", lambda: read_events(api, namespace, name))
    pools: list[PoolSnapshot] = []
    try:
        pools = [pool for pool in ports.pools.list(cluster) if _is_of(pool, namespace, name)]
    except ProvisionerError as error:
        history.unread.append(f"node pools: {say(error)}")
    history.entries += read_pools(pools)
    history.kind = history.kind or _guess_kind(history, pools)
    names = {pool.name for pool in pools} | _find_names(history, deployment)
    if names:
        _add(history, "GKE's operations", lambda: read_operations(deployment.gke, cluster, names))
    if deployment.open_logs is not None:
        open_logs = deployment.open_logs
        now = ports.clock.now()
        _add(history, "logs", lambda: read_logs(open_logs, cluster, namespace, name, now=now))
    history.entries = mark_repetitions(sorted(history.entries, key=lambda each: each.at))
    return history


def mark_repetitions(entries: list[Entry]) -> list[Entry]:
    """Return the entries; those that repeat an earlier entry are marked as details.

    The provisioner writes each Event on the workload and on the leader pod, and logs it; one of
    them is enough.
    """
    told_by_workload = {each.message for each in entries if each.message and _is_on_workload(each)}
    seen: set[str] = set()
    marked = []
    for each in entries:
        elsewhere = each.message in told_by_workload and not _is_on_workload(each)
        if each.message and (elsewhere or each.message in seen):
            marked.append(dataclasses.replace(each, detail=True))
            continue
        seen.add(each.message)
        marked.append(each)
    return marked


def add_present(history: History, deployment: Deployment) -> None:
    """Add the present state of the workload's pools and waiting slices."""
    status = read_status(deployment.ports, namespace=history.namespace, open_logs=deployment.open_logs)
    home = (history.cluster, history.name)
    history.now = Status(
        pools=[row for row in status.pools if (row.cluster, row.workload) == home],
        waiting=[row for row in status.waiting if (row.cluster, row.workload) == home],
        failures=[row for row in status.failures if (row.cluster, row.workload) == home],
        left_alone=[row for row in status.left_alone if (row.cluster, row.workload) == home],
        errors=[each for each in status.errors if each.startswith(f"{history.cluster}: ")],
    )
    history.unread += status.errors
    _add_suspension(history, deployment)


def _add_suspension(history: History, deployment: Deployment) -> None:
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
    """Return the kinds of workload that a cluster does not have installed, or that are not served.

    Raises:
        ProvisionerError: the cluster did not answer.
    """
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


def _is_of(pool: PoolSnapshot, namespace: str, name: str) -> bool:
    owner = pool.owner
    return owner is not None and (owner.namespace, owner.name) == (namespace, name)


_KINDS_WITH_PODS = frozenset(kind.name for kind in KINDS if kind.watched)
"""If a workload and its pods have the same text, the workload's is shown; a bare pod is both."""


def _is_on_workload(entry: Entry) -> bool:
    return entry.about.split(" ")[0] in _KINDS_WITH_PODS


def _guess_kind(history: History, pools: list[PoolSnapshot]) -> str:
    """Return the kind of a workload that is gone, from what was left of it."""
    of_pools = [pool.owner.kind for pool in pools if pool.owner]
    of_events = [name for each in history.entries for name in KIND_NAMES if each.about == f"{name} {history.name}"]
    return next(iter([*of_pools, *of_events]), "")


def _find_names(history: History, deployment: Deployment) -> set[str]:
    """Return names of pools that may be gone: from texts about them, and from the claims."""
    names = {word for each in history.entries for word in _WORD.findall(each.text) if parse_pool_name(word)}
    if not history.exists:
        return names
    try:
        workload = deployment.ports.clusters[history.cluster].get_workload(
            history.kind, history.namespace, history.name
        )
    except ProvisionerError as error:
        history.unread.append(f"the {history.kind}: {say(error)}")
        return names
    if workload is None:
        return names
    try:
        wanted = list_slices(workload)
    except Rejected:
        return names  # such a workload never had a pool
    return names | {build_pool_name(claim_slice(history.cluster, workload, each)) for each in wanted}
