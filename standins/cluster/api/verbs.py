"""The verbs on objects: get, create, replace, patch, delete, delete a collection.

Lists and watches are in `lists` and `watches`.
"""

from collections.abc import Mapping
from typing import Any

from standins.cluster.api.lists import read_selection
from standins.cluster.api.patches import read_object, read_patch
from standins.cluster.api.paths import Target
from standins.cluster.store.errors import bad_request, method_not_allowed
from standins.cluster.store.kinds import NAMESPACE, POD, SERVICE
from standins.cluster.store.stored import Stored, encode
from standins.cluster.writing.deletion import delete, read_options
from standins.cluster.writing.registry import Registry

Json = dict[str, Any]

OK, CREATED = 200, 201
_ANSWERED_WITH_THE_OBJECT = (POD, SERVICE, NAMESPACE)


class Verbs:
    """Reads and changes single objects for requests."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def get(self, target: Target) -> Stored:
        """Return an object; its status subresource is the object itself."""
        return self._registry.get(target.kind, target.namespace or "", target.name)

    def create(self, target: Target, query: Mapping[str, str], body: bytes) -> Stored:
        """Create an object."""
        _refuse_dry_run(query)
        if target.namespace is None and target.kind.namespaced:
            raise method_not_allowed()
        return self._registry.create(target.kind, read_object(body), target.namespace or "")

    def replace(self, target: Target, query: Mapping[str, str], body: bytes) -> Stored:
        """Replace an object or its status."""
        _refuse_dry_run(query)
        new = read_object(body)
        given = new.get("metadata", {}).get("name", target.name)
        if given != target.name:
            raise bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({target.name})"
            )
        status_only = target.subresource == "status"
        return self._registry.replace(
            target.kind, target.namespace or "", target.name, new, status_only=status_only
        )

    def patch(self, target: Target, query: Mapping[str, str], content_type: str, body: bytes) -> Stored:
        """Patch an object or its status."""
        _refuse_dry_run(query)
        change = read_patch(target.kind, content_type, body)
        status_only = target.subresource == "status"
        return self._registry.patch(
            target.kind, target.namespace or "", target.name, change, status_only=status_only
        )

    def delete(self, target: Target, query: Mapping[str, str], body: bytes) -> bytes | Stored:
        """Delete an object; returns it while it is still there, a Status once it is gone."""
        _refuse_dry_run(query)
        options = read_options(body, dict(query))
        stored = self.get(target)
        last, gone = delete(self._registry, stored, options)
        if not gone or target.kind in _ANSWERED_WITH_THE_OBJECT:
            return last
        details = {"name": stored.name, "kind": target.kind.plural, "uid": stored.uid}
        if target.kind.group:
            details["group"] = target.kind.group
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return encode(head | {"details": details})

    def delete_collection(self, target: Target, query: Mapping[str, str], body: bytes) -> list[Stored]:
        """Delete all selected objects and return them."""
        _refuse_dry_run(query)
        options = read_options(body, dict(query))
        selection = read_selection(target.kind, target.namespace, query)
        found = [s for s in self._registry.store.objects(target.kind, target.namespace) if selection.matches(s)]
        return [delete(self._registry, stored, options)[0] for stored in found]


def _refuse_dry_run(query: Mapping[str, str]) -> None:
    if query.get("dryRun"):
        raise bad_request(
            "dryRun: the embedded cluster has no dry runs. Ask the real control plane: docs/local-stack.md"
        )
