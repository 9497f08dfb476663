"""Every write to the cluster except deletion: create, replace, patch, bind.

HTTP requests and controllers call the same methods, so that admission, optimistic concurrency and
the counting of generations hold for both.
"""

import random
import uuid
from collections.abc import Callable
from typing import Any

from standins.cluster.admission import Admission
from standins.cluster.admission import metadata_rules as meta
from standins.cluster.clock import Clock
from standins.cluster.objects.conditions import set_condition
from standins.cluster.store.errors import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    modified,
    not_found,
)
from standins.cluster.store.kinds import JOBSET, LEASE, NAMESPACE, NODE, POD, Kind
from standins.cluster.store.object_store import Store
from standins.cluster.store.stored import Stored

Json = dict[str, Any]

_VERSION_REQUIRED = (LEASE, JOBSET)
"""Kinds whose replacement must name the version that it is based on."""


class Registry:
    """The writing side of the cluster, over one store."""

    def __init__(self, store: Store, clock: Clock, *, seed: int = 1) -> None:
        self.store = store
        self.clock = clock
        self.random = random.Random(seed)
        self.admission = Admission(store, clock)

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        """Return an object. Raises ApiError: 404."""
        found = self.store.get(kind, namespace, name)
        if found is None:
            raise not_found(kind, name)
        return found

    def create(self, kind: Kind, body: Json, namespace: str = "") -> Stored:
        """Store a new object after defaulting and validation, and return it.

        Raises ApiError: 400, 403, 404 (namespace), 409 or 422, as the API server answers.
        """
        body = self._of_kind(kind, meta.without_nulls(body))
        metadata = body.setdefault("metadata", {})
        if metadata.pop("resourceVersion", None):
            raise bad_request("resourceVersion should not be set on objects to be created")
        meta.settle_namespace(kind, metadata, namespace)
        name = meta.settle_name(kind, metadata, self.random)
        meta.check_metadata(kind, metadata)
        if kind.namespaced:
            self._check_namespace(kind, namespace, name)
        if self.store.get(kind, metadata.get("namespace", ""), name) is not None:
            raise already_exists(kind, name)
        for field in ("managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(field, None)
        metadata["uid"] = self._new_uid()
        metadata["creationTimestamp"] = self.clock.timestamp()
        if kind.has_generation:
            metadata["generation"] = 1
        if kind.has_status and kind is not NODE:  # A kubelet registers its node with its status.
            body.pop("status", None)
        meta.drop_empty(metadata)
        self.admission.create(kind, body)
        return self.store.put(kind, body)

    def replace(self, kind: Kind, namespace: str, name: str, body: Json, *, status_only: bool = False) -> Stored:
        """Store a changed object and return it; a write that changes nothing makes no new version.

        Raises ApiError: 404, 409 when `metadata.resourceVersion` is not the stored one, or 422.
        """
        old = self.get(kind, namespace, name)
        new = self._merge_with_stored(kind, old, meta.without_nulls(body), status_only=status_only)
        return self.write(kind, old, new)

    def patch(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Json], Json], *, status_only: bool = False
    ) -> Stored:
        """Apply a change to the stored body, as `replace` does with the result."""
        changed = change(self.get(kind, namespace, name).body())
        return self.replace(kind, namespace, name, changed, status_only=status_only)

    def set_status(self, stored: Stored, status: Json) -> Stored:
        """Store a new status for an object that a controller has just read."""
        body = stored.body()
        body["status"] = status
        return self.replace(stored.kind, stored.namespace, stored.name, body, status_only=True)

    def write(self, kind: Kind, old: Stored, new: Json) -> Stored:
        """Store a body that has passed all checks, or remove its object if nothing holds it now."""
        new["metadata"]["resourceVersion"] = str(old.version)
        meta.drop_empty(new["metadata"])
        if new == old.body():
            return old
        if may_leave(kind, new):
            # As in the real server, watchers get one DELETED with the last stored state.
            self.store.remove(old)
            return Stored(kind, new, self.store.revision)
        return self.store.put(kind, new)

    def mark(self, old: Stored, new: Json) -> Stored:
        """Store a body although nothing holds its object any more; the caller removes it next."""
        new["metadata"]["resourceVersion"] = str(old.version)
        meta.drop_empty(new["metadata"])
        return self.store.put(old.kind, new)

    def bind(self, namespace: str, name: str, node: str) -> Stored:
        """Bind a pod to a node, as a scheduler asks for it.

        Raises ApiError: 404, or 409 when the pod is bound, going or gated.
        """
        old = self.get(POD, namespace, name)
        body = old.body()
        bound_to = body["spec"].get("nodeName")
        if bound_to:
            raise conflict(POD, name, f'pod {name} is already assigned to node "{bound_to}"')
        if body["metadata"].get("deletionTimestamp"):
            raise conflict(POD, name, f"pod {name} is being deleted, cannot be assigned to a host")
        if body["spec"].get("schedulingGates"):
            raise conflict(POD, name, f"pod {name} has non-empty .spec.schedulingGates")
        body["spec"]["nodeName"] = node
        set_condition(body["status"], {"type": "PodScheduled", "status": "True"}, self.clock.timestamp())
        return self.write(POD, old, body)

    def _merge_with_stored(self, kind: Kind, old: Stored, new: Json, *, status_only: bool) -> Json:
        before = old.body()
        metadata = new.setdefault("metadata", {})
        if kind in _VERSION_REQUIRED and not metadata.get("resourceVersion"):
            why = "Invalid value: 0: must be specified for an update"
            raise invalid(kind, old.name, "metadata.resourceVersion", why)
        if metadata.get("resourceVersion", str(old.version)) != str(old.version):
            raise modified(kind, old.name)
        if metadata.get("uid", old.uid) != old.uid:
            raise conflict(kind, old.name, f"the UID {metadata['uid']} is not the stored one, {old.uid}")
        if status_only:
            merged = old.body()
            merged["status"] = new.get("status", {})
            self.admission.check_shape(kind, merged)
            return merged
        new = self._of_kind(kind, new)
        meta.carry_over(before["metadata"], metadata)
        meta.check_metadata(kind, metadata)
        if kind.has_status:
            if "status" in before:
                new["status"] = before["status"]
            else:
                new.pop("status", None)
        self.admission.update(kind, before, new)
        if kind.has_generation and _desired(before) != _desired(new):
            metadata["generation"] = before["metadata"].get("generation", 1) + 1
        return new

    def _of_kind(self, kind: Kind, body: Json) -> Json:
        given = (body.get("apiVersion", kind.api_version), body.get("kind", kind.kind))
        if given != (kind.api_version, kind.kind):
            raise bad_request(
                f"the API version or kind of the object ({given[0]}, {given[1]}) does not match the expected one "
                f"({kind.api_version}, {kind.kind})"
            )
        return {"apiVersion": kind.api_version, "kind": kind.kind} | body

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        stored = self.store.get(NAMESPACE, "", namespace)
        if stored is None:
            raise not_found(NAMESPACE, namespace)
        if "deletionTimestamp" in stored.body()["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(kind, name, why)

    def _new_uid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))


def may_leave(kind: Kind, body: Json) -> bool:
    """Return whether an object that is being deleted has nothing left that holds it."""
    metadata = body["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind is POD:
        return not metadata.get("deletionGracePeriodSeconds")
    return kind is not NAMESPACE or not body.get("spec", {}).get("finalizers")


def _desired(body: Json) -> Json:
    return {key: value for key, value in body.items() if key not in {"metadata", "status"}}
