"""Deletion: grace, propagation, preconditions, finalizers; and what follows it.

An object without finalizers and grace is removed at once. Any other gets a deletionTimestamp first.
The garbage collector deletes dependents of deleted owners, and owners that wait for them; a
namespace is emptied before it goes.
Sources: https://kubernetes.io/docs/concepts/architecture/garbage-collection/ and
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from standins.cluster.kinds import BY_TYPE, KINDS, NAMESPACE, POD, Json, Kind
from standins.cluster.refusals import ApiError, conflict
from standins.cluster.runner import Controller, Key
from standins.cluster.store import Change, Stored
from standins.cluster.writing import Registry, may_leave
from standins.kit.fitting import is_finished

FOREGROUND = "foregroundDeletion"
_DEFAULT_GRACE_SECONDS = 30
_LOOK_AGAIN_SECONDS = 0.1


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The options of a delete request that this cluster knows."""

    grace_period_seconds: int | None = None
    propagation_policy: Literal["Background", "Foreground"] | None = None
    preconditions: dict[str, str] = {}  # what must be true of the object: its `uid` here


_LEARNT = msgspec.json.Decoder(DeleteOptions)  # two threads that learn it at one time would crash
BACKGROUND_NOW = DeleteOptions(grace_period_seconds=0, propagation_policy="Background")
BACKGROUND = DeleteOptions(propagation_policy="Background")
IN_FOREGROUND = DeleteOptions(propagation_policy="Foreground")


def read_options(body: bytes, query: dict[str, str]) -> DeleteOptions:
    """Return the options of a request: its body, overridden by its query.

    Raises ApiError: 400, naming the field.
    """
    try:
        options = msgspec.json.decode(body) if body.strip() else {}
        options |= {key: query[key] for key in ("gracePeriodSeconds", "propagationPolicy") if key in query}
        return msgspec.convert(options, type=DeleteOptions, strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError) as error:
        raise ApiError(400, f"invalid DeleteOptions: {error}") from error


def delete(registry: Registry, stored: Stored, options: DeleteOptions) -> tuple[Stored, bool]:
    """Delete an object, now or once nothing holds it; return its last state and whether it is gone.

    Raises ApiError: 409, when a precondition does not hold.
    """
    kind, uid = stored.kind, options.preconditions.get("uid", stored.uid)
    if uid != stored.uid:
        why = f"the UID in the precondition ({uid}) does not match the UID in record ({stored.uid})"
        raise conflict(kind, stored.name, why)
    body = stored.body()
    metadata = body["metadata"]
    if options.propagation_policy is not None:
        _set_propagation(metadata, options.propagation_policy)
    grace = _find_grace(kind, body, options.grace_period_seconds)
    if not stored.going:
        _show_going(kind, body)
    if not stored.going or grace < metadata.get("deletionGracePeriodSeconds", 0):
        metadata["deletionTimestamp"] = registry.clock.timestamp(after_seconds=grace)
        metadata["deletionGracePeriodSeconds"] = grace
    if not may_leave(kind, body):
        return registry.write(stored, body), False
    if kind is POD:
        # A pod is marked first, even if it has no grace: watchers see that before it is gone.
        metadata.pop("finalizers", None)
        stored = registry.store.put(kind, body)
    registry.store.remove(stored)
    return stored, True


def _set_propagation(metadata: Json, policy: str) -> None:
    """Let an object wait for its dependents, or not."""
    others = [name for name in metadata.get("finalizers", []) if name != FOREGROUND]
    metadata["finalizers"] = others + ([FOREGROUND] if policy == "Foreground" else [])


def _show_going(kind: Kind, body: Json) -> None:
    if kind.has_generation:
        body["metadata"]["generation"] = body["metadata"].get("generation", 1) + 1
    if kind is NAMESPACE:
        body.setdefault("status", {})["phase"] = "Terminating"


def _find_grace(kind: Kind, body: Json, asked: int | None) -> int:
    """Return the grace: only a pod that runs on a node has one."""
    if kind is not POD or not body["spec"].get("nodeName") or is_finished(body):
        return 0
    return max(
        0, body["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS) if asked is None else asked
    )


class GarbageCollector(Controller):
    """Follows ownerReferences."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at dependents of deleted owners, at owners that wait, and at new dependents."""
        if change.new is None:
            yield from (("dependent", stored.uid) for stored in self.registry.store.dependents(change.subject.uid))
            yield from (("owner", uid) for uid in change.subject.owner_uids)
            return
        if _waits_for_dependents(change.new):
            yield ("owner", change.new.uid)
        if change.old is None and any(map(self._is_gone, _owners(change.new))):
            yield ("dependent", change.new.uid)

    def reconcile(self, key: Key) -> float | None:
        """Collect a dependent, or move an owner that is being deleted one step on."""
        role, uid = key
        stored = self.registry.store.by_uid(uid)
        if stored is not None and role == "dependent":
            self._collect(stored)
        elif stored is not None and _waits_for_dependents(stored):
            self._advance_owner(stored)
        return None

    def _is_gone(self, owner: Json) -> bool:
        known = (owner["apiVersion"], owner["kind"]) in BY_TYPE
        return known and self.registry.store.by_uid(owner["uid"]) is None

    def _collect(self, stored: Stored) -> None:
        left = [owner for owner in _owners(stored) if not self._is_gone(owner)]
        if left:
            self.registry.change(stored, lambda body: body["metadata"].update(ownerReferences=left))
        elif not stored.going and _owners(stored):
            delete(self.registry, stored, BACKGROUND)

    def _advance_owner(self, stored: Stored) -> None:
        if not self._has_blocking(stored):
            self.registry.change(stored, lambda body: body["metadata"]["finalizers"].remove(FOREGROUND))
            return
        for dependent in self.registry.store.dependents(stored.uid):
            if not dependent.going:
                nested = self._has_blocking(dependent)
                delete(self.registry, dependent, IN_FOREGROUND if nested else BACKGROUND)

    def _has_blocking(self, stored: Stored) -> bool:
        return any(
            owner["uid"] == stored.uid and owner.get("blockOwnerDeletion")
            for dependent in self.registry.store.dependents(stored.uid)
            for owner in _owners(dependent)
        )


def _owners(stored: Stored) -> list[Json]:
    owners: list[Json] = stored.json["metadata"].get("ownerReferences", [])
    return owners


def _waits_for_dependents(stored: Stored) -> bool:
    return stored.going and FOREGROUND in stored.json["metadata"].get("finalizers", ())


class NamespaceController(Controller):
    """Empties namespaces that are being deleted."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a namespace that is being deleted."""
        new = change.new
        return ((new.name,),) if change.kind is NAMESPACE and new is not None and new.going else ()

    def reconcile(self, key: Key) -> float | None:
        """Delete everything in the namespace; let the namespace go once nothing is left."""
        stored = self.registry.store.get(NAMESPACE, "", key[0])
        if stored is None or not stored.going:
            return None
        kinds = (kind for kind in KINDS if kind.namespaced)
        left = [content for kind in kinds for content in self.registry.store.objects(kind, key[0])]
        for content in left:
            if not content.going:
                delete(self.registry, content, BACKGROUND)
        if left:
            return _LOOK_AGAIN_SECONDS
        self.registry.change(stored, lambda body: body["spec"].pop("finalizers", None))
        return None
