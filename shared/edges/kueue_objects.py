"""Reads and answers Kueue's admission checks over HTTPS: `shared.model.ports.Queues`."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from typing import TYPE_CHECKING, TypeVar

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.kubernetes_api import APPLY_PATCH
from shared.edges.kubernetes_decoding import report_unreadable
from shared.edges.kubernetes_errors import Unreadable
from shared.edges.kubernetes_objects import JsonObject, Stored
from shared.edges.kueue_records import (
    CONTROLLER,
    OWNER_UID,
    Flavor,
    format_active,
    format_state,
    inject_flavors,
    read_check,
    read_flavor,
    read_queued,
)
from shared.edges.workload_objects import read_workload
from shared.kinds.objects import UnexpectedValue
from shared.kinds.table import find_kind
from shared.model.errors import KindAbsent, NotFound, StaleView
from shared.model.times import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shared.edges.kubernetes_api import KubernetesApi
    from shared.model.kueue import Check, CheckState, QueuedWorkload
    from shared.model.times import Clock
    from shared.model.workloads import WorkloadView

T = TypeVar("T")
_ROOT = "/apis/kueue.x-k8s.io/v1beta2"
_MANAGER_LENGTH_MAX = 128
_FORCE = {"fieldManager": CONTROLLER, "force": "true"}


def _name_manager(check: str) -> str:
    """Return the field manager of one check, within the 128 characters that the API accepts."""
    name, digest = f"{CONTROLLER} {check}", hashlib.sha256(check.encode()).hexdigest()
    return name if len(name) <= _MANAGER_LENGTH_MAX else f"{CONTROLLER} {digest}"


class KueueQueues:
    """`shared.model.ports.Queues` over HTTPS."""

    def __init__(self, api: KubernetesApi, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._api, self._clock = api, clock

    def list_checks(self) -> list[Check]:
        """Return the admission checks that name our controller."""
        return [each for each in self._list("admissionchecks", read_check) if each is not None]

    def mark_active(self, check: Check) -> None:
        """Set the condition ``Active`` of an admission check."""
        body = format_active(check, format_time(self._clock.now()))
        self._api.patch(
            f"{_ROOT}/admissionchecks/{check.name}/status", body, APPLY_PATCH, Stored, _FORCE
        )

    def list_workloads(self) -> Iterator[QueuedWorkload]:
        """Yield every Workload of the cluster, page by page."""
        return self._list("workloads", read_queued)

    def list_owned(self, namespace: str, owner_uid: str) -> Iterator[QueuedWorkload]:
        """Yield the Workloads that Kueue made for one object, by its UID; none without Kueue."""
        path = f"namespaces/{namespace}/workloads"
        with contextlib.suppress(
            KindAbsent
        ):  # so there is no quota; `list_checks` names the setting
            yield from self._list(path, read_queued, {"labelSelector": f"{OWNER_UID}={owner_uid}"})

    def view_owner(self, queued: QueuedWorkload) -> WorkloadView | None:
        """Return the owner of a Workload with what its flavors add; None if it is gone."""
        kind = find_kind(queued.owner_kind)
        if kind is None or kind.pod_sets is None:
            return None
        try:
            body = self._api.get(kind.path_of(queued.namespace, queued.owner_name), JsonObject)
        except NotFound:
            return None
        flavors = {
            name: self._get_flavor(name) for names in queued.flavors.values() for name in names
        }
        try:
            changed = inject_flavors(kind, body, queued, flavors)
        except UnexpectedValue as error:
            raise Unreadable(
                f"{kind.name} {queued.namespace}/{queued.owner_name}: {error}"
            ) from error
        owner = read_workload(kind, dict(changed))
        return (
            dataclasses.replace(owner, quota_reserved=True)
            if owner.uid == queued.owner_uid
            else None
        )

    def write_state(
        self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None
    ) -> None:
        """Write one check of a Workload; `StaleView` unless the Workload is as it was read."""
        path = f"{_ROOT}/namespaces/{queued.namespace}/workloads/{queued.name}/status"
        try:
            body = format_state(queued, state, retry_seconds=retry_seconds)
            # One for each check: an apply deletes what its manager wrote before and does not name.
            forced = _FORCE | {"fieldManager": _name_manager(state.name)}
            self._api.patch(path, body, APPLY_PATCH, Stored, forced)
        except NotFound as error:
            raise StaleView(f"{queued} is gone: {error}") from error

    def _get_flavor(self, name: str) -> Flavor:
        try:
            return read_flavor(self._api.get(f"{_ROOT}/resourceflavors/{name}", JsonObject))
        except NotFound as error:
            raise StaleView(
                f"the ResourceFlavor {name} of a workload with quota is gone: {error}"
            ) from error
        except UnexpectedValue as error:
            raise Unreadable(f"ResourceFlavor {name}: {error}") from error

    def _list(
        self, path: str, read: Callable[[JsonObject], T], params: dict[str, str] | None = None
    ) -> Iterator[T]:
        """Yield the objects of a list; one that cannot be read is logged and left out."""
        try:
            for page in self._api.list_pages(f"{_ROOT}/{path}", JsonObject, params):
                for body in page.items:
                    try:
                        entry = read(body)
                    except UnexpectedValue as error:
                        named = body.get("metadata") or {}
                        report_unreadable(
                            path, str(named.get("namespace", "")), str(named.get("name", "")), error
                        )
                        continue
                    yield entry
        except NotFound as error:
            text = (
                "the setting kueue_admission_check is on, but the cluster does not know "
                f"{_ROOT}/{path}"
            )
            raise KindAbsent(text) from error
