"""Every write to the cluster except deletion: create, replace, patch, bind; and Events.

HTTP requests and controllers call the same methods, so that admission, optimistic concurrency and
the counting of generations hold for both.
"""

import random
import uuid
from collections import OrderedDict
from collections.abc import Callable

from standins.cluster import admission
from standins.cluster.kinds import EVENT, JOBSET, LEASE, NAMESPACE, NODE, POD, Json, Kind
from standins.cluster.objects import Clock, set_condition
from standins.cluster.refusals import ApiError, about, conflict, forbidden, invalid, not_found
from standins.cluster.store import Store, Stored

_VERSION_REQUIRED = (LEASE, JOBSET)
"""Kinds whose replacement must name the version that it is based on."""
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_EVENTS_MAX = 5_000  # the oldest Events are removed when there are more: no logic depends on them


class Registry:
    """The writing side of the cluster, over one store."""

    def __init__(self, store: Store, clock: Clock, seed: int) -> None:
        self.store = store
        self.clock = clock
        self._random = random.Random(seed)
        self._events: OrderedDict[tuple[str, ...], tuple[str, str]] = OrderedDict()
        """By component, object, reason and message: namespace and name of the Event."""

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        """Return an object. Raises ApiError: 404."""
        stored = self.store.get(kind, namespace, name)
        if stored is None:
            raise not_found(kind, name)
        return stored

    def create(self, kind: Kind, body: Json, namespace: str = "") -> Stored:
        """Store a new object after defaulting and validation, and return it.

        Raises ApiError: 400, 403, 404 (namespace), 409 or 422, as the API server answers.
        """
        body = _of_kind(kind, admission.without_nulls(body))
        meta = body.setdefault("metadata", {})
        if meta.pop("resourceVersion", None):
            raise ApiError(400, "resourceVersion should not be set on objects to be created")
        admission.settle_namespace(kind, meta, namespace)
        name = admission.settle_name(kind, meta, self._random)
        admission.check_metadata(kind, meta)
        if kind.namespaced:
            self._check_namespace(kind, namespace, name)
        if self.store.get(kind, meta.get("namespace", ""), name) is not None:
            text = f'{kind.resource} "{name}" already exists'
            raise ApiError(409, text, reason="AlreadyExists", details=about(kind, name))
        for field in ("managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"):
            meta.pop(field, None)
        meta["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        meta["creationTimestamp"] = self.clock.timestamp()
        if kind.has_generation:
            meta["generation"] = 1
        if kind.has_status and kind is not NODE:  # A kubelet registers its node with its status.
            body.pop("status", None)
        admission.drop_empty(meta)
        admission.admit_new(self.store, kind, body, self.clock.timestamp())
        return self.store.put(kind, body)

    def replace(self, old: Stored, body: Json, *, status_only: bool = False) -> Stored:
        """Store a changed object and return it; a write that changes nothing makes no new version.

        Raises ApiError: 409 when `metadata.resourceVersion` is not the stored one, or 422.
        """
        return self.write(
            old, self._merge_with_stored(old, admission.without_nulls(body), status_only=status_only)
        )

    def change_status(self, stored: Stored, status: Json) -> Stored:
        """Store a new status for an object that a controller has just read."""
        return self.replace(stored, stored.body() | {"status": status}, status_only=True)

    def change(self, stored: Stored, change: Callable[[Json], None]) -> Stored:
        """Store an object with a change that a controller makes, past admission."""
        body = stored.body()
        change(body)
        return self.write(stored, body)

    def write(self, old: Stored, new: Json) -> Stored:
        """Store a body that has passed all checks, or remove its object if nothing holds it now."""
        new["metadata"]["resourceVersion"] = str(old.version)
        admission.drop_empty(new["metadata"])
        if new == old.json:
            return old
        if may_leave(old.kind, new):
            # As in the real server, watchers get one DELETED with the last stored state.
            self.store.remove(old)
            return Stored(old.kind, new, self.store.revision)
        return self.store.put(old.kind, new)

    def bind(self, pod: Stored, node: str) -> Stored:
        """Bind a pod to a node."""
        now = self.clock.timestamp()

        def bind(body: Json) -> None:
            body["spec"]["nodeName"] = node
            set_condition(body["status"], {"type": "PodScheduled", "status": "True"}, now)

        return self.change(pod, bind)

    def record(self, component: str, about: Stored, reason: str, message: str, *, warning: bool = False) -> None:
        """Write an Event in the name of a component, or count the same one again."""
        now = self.clock.timestamp()
        key = (component, about.uid, reason, message)
        same = self.store.get(EVENT, *self._events[key]) if key in self._events else None
        if same is not None:
            self.change(same, lambda body: body.update(count=body["count"] + 1, lastTimestamp=now))
            return
        involved = {
            "kind": about.kind.kind,
            "apiVersion": about.kind.api_version,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": str(about.version),
        }
        body = {
            "metadata": {"name": f"{about.name}.{self._random.getrandbits(64):016x}"},
            "involvedObject": involved | ({"namespace": about.namespace} if about.namespace else {}),
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Warning" if warning else "Normal",
        }
        try:
            self._events[key] = self.create(EVENT, body, about.namespace or "default").key
        except ApiError:
            # The namespace is being deleted: the real recorders lose such Events too.
            return
        if len(self._events) > _EVENTS_MAX:
            _, oldest = self._events.popitem(last=False)
            if (stored := self.store.get(EVENT, *oldest)) is not None:
                self.store.remove(stored)

    def _merge_with_stored(self, old: Stored, new: Json, *, status_only: bool) -> Json:
        kind, before = old.kind, old.body()
        meta = new.setdefault("metadata", {})
        if kind in _VERSION_REQUIRED and not meta.get("resourceVersion"):
            why = "Invalid value: 0: must be specified for an update"
            raise invalid(kind, old.name, ("metadata.resourceVersion", why))
        if meta.get("resourceVersion", str(old.version)) != str(old.version):
            raise conflict(kind, old.name, _MODIFIED)
        if meta.get("uid", old.uid) != old.uid:
            raise conflict(kind, old.name, f"the UID {meta['uid']} is not the stored one, {old.uid}")
        if status_only:
            return before | {"status": new.get("status", {})}
        new = _of_kind(kind, new)
        admission.carry_over(before["metadata"], meta)
        admission.check_metadata(kind, meta)
        if kind.has_status:
            new.pop("status", None)
            new |= {"status": before["status"]} if "status" in before else {}
        admission.admit_change(kind, before, new)
        if kind.has_generation and _desired(before) != _desired(new):
            meta["generation"] = before["metadata"].get("generation", 1) + 1
        return new

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if self.get(NAMESPACE, "", namespace).going:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(kind, name, why)


def may_leave(kind: Kind, body: Json) -> bool:
    """Return whether an object that is being deleted has nothing left that holds it."""
    meta = body["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    if kind is POD:
        return not meta.get("deletionGracePeriodSeconds")
    return kind is not NAMESPACE or not body.get("spec", {}).get("finalizers")


def _of_kind(kind: Kind, body: Json) -> Json:
    own = (kind.api_version, kind.kind)
    named = (body.get("apiVersion", kind.api_version), body.get("kind", kind.kind))
    if named != own:
        raise ApiError(400, f"the API version and kind of the object, {named}, do not match those expected, {own}")
    return {"apiVersion": kind.api_version, "kind": kind.kind} | body


def _desired(body: Json) -> Json:
    return {key: value for key, value in body.items() if key not in {"metadata", "status"}}
