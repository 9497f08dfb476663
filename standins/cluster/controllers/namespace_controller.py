"""The namespace controller: it empties a namespace that is being deleted, then deletes it.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/
"""

from collections.abc import Iterable

from standins.cluster.controllers.runner import Controller, Key
from standins.cluster.objects.shapes import AnyObject
from standins.cluster.store.kinds import KINDS, NAMESPACE
from standins.cluster.store.stored import Change
from standins.cluster.writing.deletion import BACKGROUND, delete

_LOOK_AGAIN_SECONDS = 0.1


class NamespaceController(Controller):
    """Empties namespaces that are being deleted."""

    name = "namespaces"

    def keys_for(self, change: Change) -> Iterable[Key]:
        """Look at a namespace that is being deleted."""
        if change.kind is not NAMESPACE or change.new is None:
            return ()
        going = change.new.view(AnyObject).metadata.deletion_timestamp is not None
        return ((change.new.name,),) if going else ()

    def reconcile(self, key: Key) -> float | None:
        """Delete everything in the namespace; let the namespace go once nothing is left."""
        stored = self.registry.store.get(NAMESPACE, "", key[0])
        if stored is None or stored.view(AnyObject).metadata.deletion_timestamp is None:
            return None
        kinds = (kind for kind in KINDS if kind.namespaced)
        left = [content for kind in kinds for content in self.registry.store.objects(kind, key[0])]
        for content in left:
            if content.view(AnyObject).metadata.deletion_timestamp is None:
                delete(self.registry, content, BACKGROUND)
        if left:
            return _LOOK_AGAIN_SECONDS
        body = stored.body()
        body["spec"].pop("finalizers", None)
        self.registry.write(NAMESPACE, stored, body)
        return None
