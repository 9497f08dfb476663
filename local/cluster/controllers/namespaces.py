"""The namespace controller: empties a namespace that is being deleted, then lets it go.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.cluster.deletion import BACKGROUND, delete
from local.cluster.store.kinds import KINDS, NAMESPACE
from local.cluster.views import AnyObject

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local.cluster.controllers.runner import Key
    from local.cluster.registry import Registry
    from local.cluster.store.stored import Change


class NamespaceController:
    """Deletes what is in a terminating namespace."""

    name = "namespaces"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._terminating: set[str] = set()

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a namespace that is going, again whenever something in it has gone."""
        if change.kind is NAMESPACE:
            name = change.subject.name
            going = change.new is not None and change.new.view(AnyObject).metadata.deletion_timestamp is not None
            if going:
                self._terminating.add(name)
                return ((name,),)
            self._terminating.discard(name)
        elif change.new is None and change.subject.namespace in self._terminating:
            return ((change.subject.namespace,),)
        return ()

    def reconcile(self, key: Key) -> float | None:
        """Delete everything in the namespace; when nothing is left, let the namespace go."""
        stored = self._registry.store.get(NAMESPACE, "", key[0])
        if stored is None:
            return None
        left = False
        for kind in KINDS:
            if not kind.namespaced or kind.stored_as:
                continue
            for content in tuple(self._registry.store.objects(kind, key[0])):
                left = True
                if content.view(AnyObject).metadata.deletion_timestamp is None:
                    delete(self._registry, content, BACKGROUND)
        if not left:
            body = stored.body()
            body["spec"].pop("finalizers", None)
            self._registry.write(NAMESPACE, stored, body)
        # Deleting above may have left nothing behind, which nobody else would report.
        return 0.1 if left else None
