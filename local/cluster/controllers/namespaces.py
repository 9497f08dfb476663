"""The namespace controller: furnishes a new namespace, empties one that is being deleted, then lets it go.

Sources: https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/ and, for what every
namespace has, https://kubernetes.io/docs/concepts/security/service-accounts/#default-service-accounts and
https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/ (`kube-root-ca.crt`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local.cluster.deletion import BACKGROUND, delete
from local.cluster.store.kinds import BY_TYPE, KINDS, NAMESPACE
from local.cluster.views import AnyObject

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local.cluster.controllers.runner import Key
    from local.cluster.registry import Registry
    from local.cluster.store.stored import Change

FURNITURE = {"ServiceAccount": "default", "ConfigMap": "kube-root-ca.crt"}
"""The name of what every namespace has, by its kind; the content of the certificates' map is nobody's here."""


class NamespaceController:
    """Keeps the furniture of a namespace in place; deletes what is in a terminating one."""

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
            if change.old is None:
                return ((name,),)
        elif change.new is None and (
            change.subject.namespace in self._terminating or FURNITURE.get(change.kind.kind) == change.subject.name
        ):
            return ((change.subject.namespace,),)
        return ()

    def reconcile(self, key: Key) -> float | None:
        """Furnish the namespace; or, when it is going, delete everything in it, then let it go."""
        stored = self._registry.store.get(NAMESPACE, "", key[0])
        if stored is None:
            return None
        if stored.view(AnyObject).metadata.deletion_timestamp is None:
            self._furnish(key[0])
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

    def _furnish(self, namespace: str) -> None:
        for kind_name, name in FURNITURE.items():
            kind = BY_TYPE["v1", kind_name]
            if self._registry.store.get(kind, namespace, name) is None:
                self._registry.create(kind, {"metadata": {"name": name}}, namespace)
