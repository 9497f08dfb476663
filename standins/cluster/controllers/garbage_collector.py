"""The garbage collector: it deletes dependents of deleted owners, and owners that wait for them.

Source: https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from collections.abc import Iterable

from standins.cluster.controllers.runner import Controller, Key
from standins.cluster.objects.shapes import AnyObject, Owner
from standins.cluster.store.kinds import BY_TYPE
from standins.cluster.store.stored import Change, Stored
from standins.cluster.writing.deletion import BACKGROUND, FOREGROUND, IN_FOREGROUND, ORPHAN, delete


class GarbageCollector(Controller):
    """Follows ownerReferences."""

    name = "garbage-collector"

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at dependents of deleted owners, at owners that wait, and at new dependents."""
        if change.new is None:
            yield from (("dependent", stored.uid) for stored in self.registry.store.dependents(change.subject.uid))
            yield from (("owner", uid) for uid in change.subject.owner_uids)
            return
        metadata = change.new.view(AnyObject).metadata
        if metadata.deletion_timestamp is not None and {ORPHAN, FOREGROUND} & set(metadata.finalizers):
            yield ("owner", change.new.uid)
        if change.type == "ADDED" and any(self._is_gone(owner) for owner in metadata.owner_references):
            yield ("dependent", change.new.uid)

    def reconcile(self, key: Key) -> float | None:
        """Collect a dependent, or move an owner that is being deleted one step on."""
        role, uid = key
        stored = self.registry.store.by_uid(uid)
        if stored is not None:
            if role == "dependent":
                self._collect(stored)
            else:
                self._advance_owner(stored)
        return None

    def _is_gone(self, owner: Owner) -> bool:
        known = (owner.api_version, owner.kind) in BY_TYPE
        return known and self.registry.store.by_uid(owner.uid) is None

    def _collect(self, stored: Stored) -> None:
        metadata = stored.view(AnyObject).metadata
        gone = {owner.uid for owner in metadata.owner_references if self._is_gone(owner)}
        if not gone:
            return
        if len(gone) == len(metadata.owner_references):
            if metadata.deletion_timestamp is None:
                delete(self.registry, stored, BACKGROUND)
            return
        self._drop_references(stored, gone)

    def _drop_references(self, stored: Stored, owners: set[str]) -> None:
        body = stored.body()
        kept = [owner for owner in body["metadata"].get("ownerReferences", []) if owner["uid"] not in owners]
        body["metadata"]["ownerReferences"] = kept
        self.registry.write(stored.kind, stored, body)

    def _advance_owner(self, stored: Stored) -> None:
        metadata = stored.view(AnyObject).metadata
        if metadata.deletion_timestamp is None:
            return
        if ORPHAN in metadata.finalizers:
            for dependent in self.registry.store.dependents(stored.uid):
                self._drop_references(dependent, {stored.uid})
            self._drop_finalizer(stored, ORPHAN)
        elif FOREGROUND in metadata.finalizers:
            if not self._has_blocking(stored):
                self._drop_finalizer(stored, FOREGROUND)
                return
            for dependent in self.registry.store.dependents(stored.uid):
                if dependent.view(AnyObject).metadata.deletion_timestamp is None:
                    nested = self._has_blocking(dependent)
                    delete(self.registry, dependent, IN_FOREGROUND if nested else BACKGROUND)

    def _has_blocking(self, stored: Stored) -> bool:
        return any(
            owner.uid == stored.uid and owner.block_owner_deletion
            for dependent in self.registry.store.dependents(stored.uid)
            for owner in dependent.view(AnyObject).metadata.owner_references
        )

    def _drop_finalizer(self, stored: Stored, finalizer: str) -> None:
        body = stored.body()
        body["metadata"]["finalizers"] = [f for f in body["metadata"]["finalizers"] if f != finalizer]
        self.registry.write(stored.kind, stored, body)
