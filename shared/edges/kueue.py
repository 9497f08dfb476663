"""Reads and answers Kueue's admission checks over HTTPS: `shared.engine.outside.Queues`.

Kueue has one Workload for each object that it suspends; `shared.model.workloads` says what follows.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from shared.edges.kubernetes import JsonObject, KubernetesApi, reading
from shared.edges.pods import read_workload
from shared.edges.process import SYSTEM_CLOCK
from shared.kinds import read
from shared.kinds.kind import Kind
from shared.kinds.read import Json
from shared.kinds.table import find_kind
from shared.model.errors import KindAbsent, NotFound, StaleView, refuse
from shared.model.names import ObjectName
from shared.model.times import format_time, parse_count
from shared.model.workloads import Check, CheckState, QueuedWorkload, WorkloadView

CONTROLLER = "tpu-provisioner.cloud.google.com/capacity"
"""``spec.controllerName`` of the admission checks that this provisioner answers."""
API_VERSION = "kueue.x-k8s.io/v1beta2"
OWNER_UID = "kueue.x-k8s.io/job-uid"
"""The label of a Workload with the UID of the object that it is for."""
_MIN_PODS, _ALL_AT_ONCE = (
    "kueue.x-k8s.io/job-min-parallelism",
    "kueue.x-k8s.io/job-completions-equal-parallelism",
)
_MESSAGE_LENGTH_MAX = 1024


def read_check(body: Json) -> Check | None:
    """Return an AdmissionCheck; None if another controller answers it."""
    if read.text(body, "spec", "controllerName") != CONTROLLER:
        return None
    return Check(
        name=read.text(body, "metadata", "name"),
        active="Active" in read.held_conditions(body),
        generation=read.number(body, "metadata", "generation"),
    )


def read_flavor(body: Json) -> Json:
    """Return what a ResourceFlavor adds to pods; one with a topology is `Rejected`."""
    topology = read.text(body, "spec", "topologyName")
    if topology:
        raise refuse("flavor_with_topology", topology)
    return read.fields(body, "spec")


def read_queued(body: Json) -> QueuedWorkload:
    """Return a Workload."""
    held = read.held_conditions(body)
    controller, namespace = read.controller(body), read.text(body, "metadata", "namespace")
    owner = {field: read.text(controller, field) for field in ("kind", "name", "uid")}
    ended = {"Evicted", "Finished"} & set(held) or read.text(body, "metadata", "deletionTimestamp")
    active = read.fields(body, "spec").get("active") is not False
    checks = tuple(_read_state(each) for each in read.objects(body, "status", "admissionChecks"))
    losing = any(each.state in ("Retry", "Rejected") for each in checks)
    lost = (read.held_conditions(body, "False").get("QuotaReserved"), held.get("Evicted"))
    assigned = read.objects(body, "status", "admission", "podSetAssignments")
    return QueuedWorkload(
        namespace=namespace,
        name=read.text(body, "metadata", "name"),
        uid=read.text(body, "metadata", "uid"),
        version=read.text(body, "metadata", "resourceVersion"),
        owner=ObjectName(namespace=namespace, **owner),
        flavors={
            read.text(each, "name"): tuple(dict.fromkeys(read.texts(each, "flavors").values()))
            for each in assigned
        },
        counts={read.text(each, "name"): read.number(each, "count") for each in assigned},
        checks=checks,
        reserved_at=held.get("QuotaReserved"),
        lost_at=max(filter(None, lost), default=None),
        # With requeueAfterSeconds Kueue keeps the quota until that pause is over, and evicts then:
        # https://github.com/kubernetes-sigs/kueue/blob/v0.15.0/pkg/controller/core/workload_controller.go.
        holds_quota="QuotaReserved" in held and active and not (ended or losing),
    )


def _read_state(body: Json) -> CheckState:
    return CheckState(
        name=read.text(body, "name"),
        state=read.text(body, "state"),
        message=read.text(body, "message"),
        since=read.text(body, "lastTransitionTime"),
        retries=read.number(body, "retryCount"),
    )


def inject_flavors(
    kind: Kind, body: Json, queued: QueuedWorkload, flavors: Mapping[str, Json]
) -> Json:
    """Return an owner's JSON as Kueue resumes it: node labels, tolerations, the pods with quota.

    As https://github.com/kubernetes-sigs/kueue/blob/v0.15.0/pkg/podset/podset.go merges them. A pod
    template that selects another value is refused: Kueue never resumes such a workload.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(body))
    marks = read.texts(changed, "metadata", "annotations")
    for role, template in kind.list_templates(changed):
        pod_set = role.lower()
        owned: Any = template  # of the copy, so it may be changed
        for name in queued.flavors.get(pod_set, ()):
            _add_flavor(owned.setdefault("spec", {}), name, flavors[name])
        if "parallelism" in changed["spec"] and parse_count(marks.get(_MIN_PODS, "")) is not None:
            _set_count(changed["spec"], marks, queued.counts.get(pod_set, 0))
    return changed


def _add_flavor(spec: dict[str, Any], name: str, flavor: Json) -> None:
    """Let the pods of a template select what a flavor has, and tolerate what it says."""
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in read.texts(flavor, "nodeLabels").items():
        if selector.setdefault(key, value) != value:
            raise refuse("flavor_contradicts", str(selector[key]), key=key, name=name, wanted=value)
    tolerations = list(spec.get("tolerations") or ())
    own = read.objects(flavor, "tolerations")
    tolerations += [each for each in own if each not in tolerations]
    spec |= {"nodeSelector": selector, "tolerations": tolerations}


def _set_count(spec: dict[str, Any], marks: Mapping[str, str], count: int) -> None:
    """Let a Job run as many pods as have quota."""
    if count:
        spec["parallelism"] = count
        if marks.get(_ALL_AT_ONCE, "").lower() in ("1", "t", "true"):
            spec["completions"] = count


def format_state(
    queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None
) -> dict[str, Any]:
    """Return the body of a server-side apply that writes one check of a Workload and nothing else.

    It names the version that was read, so that a Workload which has changed meanwhile is left
    alone. Kueue's own controllers write their checks in the same way:
    https://github.com/kubernetes-sigs/kueue/blob/v0.15.0/pkg/controller/admissionchecks/provisioning/controller.go.
    """
    check: dict[str, Any] = {
        "name": state.name,
        "state": state.state,
        "message": state.message[:_MESSAGE_LENGTH_MAX],
        "lastTransitionTime": state.since,
    }
    if retry_seconds is not None:
        check["requeueAfterSeconds"] = retry_seconds
    identity = {"namespace": queued.namespace, "name": queued.name, "uid": queued.uid}
    version = {"resourceVersion": queued.version}
    return _format("Workload", identity | version, admissionChecks=[check])


def format_active(check: Check, now: str) -> dict[str, Any]:
    """Return the body of a server-side apply that says that a check is answered."""
    condition = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "TPU Provisioner answers this check",
        "observedGeneration": check.generation,
        "lastTransitionTime": now,
    }
    return _format("AdmissionCheck", {"name": check.name}, conditions=[condition])


def _format(kind: str, metadata: dict[str, str], **status: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status}


T = TypeVar("T")
_NAME_LENGTH_MAX = 64  # the API takes 128 characters with what is before it
_ROOT = f"/apis/{API_VERSION}"
_FORCE = {"fieldManager": CONTROLLER, "force": "true"}


class KueueQueues:
    """`shared.engine.outside.Queues` over HTTPS."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api

    def list_checks(self) -> list[Check]:
        """Return the admission checks that name our controller."""
        return [each for each in self._list("admissionchecks", read_check) if each is not None]

    def mark_active(self, check: Check) -> None:
        """Set the condition ``Active`` of an admission check."""
        body = format_active(check, format_time(SYSTEM_CLOCK.now()))
        self._api.apply(f"{_ROOT}/admissionchecks/{check.name}/status", body, _FORCE)

    def list_workloads(self) -> Iterator[QueuedWorkload]:
        """Yield every Workload of the cluster, page by page."""
        return self._list("workloads", read_queued)

    def list_owned(self, namespace: str, owner_uid: str) -> Iterator[QueuedWorkload]:
        """Yield the Workloads that Kueue made for one object, by its UID; none without Kueue."""
        path = f"namespaces/{namespace}/workloads"
        with suppress(KindAbsent):  # so there is no quota; `list_checks` names the setting
            yield from self._list(path, read_queued, {"labelSelector": f"{OWNER_UID}={owner_uid}"})

    def view_owner(self, queued: QueuedWorkload) -> WorkloadView | None:
        """Return the owner of a Workload with what its flavors add; None if it is gone."""
        kind = find_kind(queued.owner.kind)
        if kind is None or not kind.queued:
            return None
        try:
            body = self._api.get(kind.path_of(queued.namespace, queued.owner.name), JsonObject)
        except NotFound:
            return None
        names = {name for names in queued.flavors.values() for name in names}
        flavors = {name: self._get_flavor(name) for name in names}
        with reading(str(queued.owner)):
            changed = inject_flavors(kind, body, queued, flavors)
        owner = read_workload(kind, dict(changed))
        return owner if owner.uid == queued.owner.uid else None

    def write_state(
        self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None
    ) -> None:
        """Write one check of a Workload; `StaleView` unless the Workload is as it was read."""
        path = f"{_ROOT}/namespaces/{queued.namespace}/workloads/{queued.name}/status"
        # One for each check: an apply deletes what its manager wrote before and does not name.
        short = len(state.name) <= _NAME_LENGTH_MAX
        name = state.name if short else hashlib.sha256(state.name.encode()).hexdigest()
        forced = _FORCE | {"fieldManager": f"{CONTROLLER} {name}"}
        try:
            self._api.apply(path, format_state(queued, state, retry_seconds=retry_seconds), forced)
        except NotFound as error:
            raise StaleView(f"{queued} is gone: {error}") from error

    def _get_flavor(self, name: str) -> Json:
        try:
            with reading(f"ResourceFlavor {name}"):
                return read_flavor(self._api.get(f"{_ROOT}/resourceflavors/{name}", JsonObject))
        except NotFound as error:
            raise StaleView(
                f"the ResourceFlavor {name}, which has quota, is gone: {error}"
            ) from error

    def _list(
        self, path: str, read: Callable[[JsonObject], T], params: dict[str, str] | None = None
    ) -> Iterator[T]:
        """Yield the objects of a list; one that cannot be read is logged and left out."""
        try:
            yield from self._api.read_each(f"{_ROOT}/{path}", JsonObject, read, params)
        except NotFound as error:
            problem = f"is on, but the cluster does not know {_ROOT}/{path}"
            raise KindAbsent(f"the setting kueue_admission_check {problem}") from error
