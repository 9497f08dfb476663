"""The verbs on objects: get, create, replace, patch, delete, delete a collection; and the subresources of pods.

Lists and watches are in `lists` and `watches`; here is what changes or reads single objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.cluster.api.event_forms import to_core_event
from local.cluster.api.lists import read_selection
from local.cluster.api.patches import APPLY_PATCH, read_object, read_patch, strategic_merge
from local.cluster.deletion import delete, read_options
from local.cluster.errors import ApiError, bad_request, method_not_allowed
from local.cluster.store.kinds import CLAIM, EVENT, NAMESPACE, POD, SERVICE, Kind
from local.cluster.store.stored import encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from local.cluster.api.paths import Target
    from local.cluster.registry import Registry
    from local.cluster.store.stored import Stored

Json = dict[str, Any]

OK, CREATED = 200, 201
_ANSWERED_WITH_THE_OBJECT = {POD.storage, SERVICE.storage, CLAIM.storage, NAMESPACE.storage}


class Verbs:
    """Reads and changes single objects in the name of requests."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def get(self, target: Target) -> Stored:
        """Return an object; its status subresource is the object itself."""
        return self._registry.get(_stored_kind(target.kind), target.namespace or "", target.name)

    def log(self, target: Target, query: Mapping[str, str]) -> bytes:
        """Return a short text in place of a container's output: nothing runs here."""
        stored = self._registry.get(POD, target.namespace or "", target.name)
        body = stored.body()
        names = [container["name"] for container in body["spec"]["containers"]]
        wanted = query.get("container") or names[0]
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {stored.name}; valid: {', '.join(names)}")
        if not body["spec"].get("nodeName"):
            raise bad_request(f'pod {stored.name} does not have a host assigned; container "{wanted}" has no log')
        phase = body["status"].get("phase", "Unknown")
        return f"{stored.namespace}/{stored.name}/{wanted}: simulated container, phase {phase}\n".encode()

    def create(self, target: Target, query: Mapping[str, str], body: bytes) -> Stored:
        """Create an object."""
        if target.namespace is None and target.kind.namespaced:
            raise method_not_allowed()
        return self._registry.create(
            _stored_kind(target.kind),
            _read(target.kind, body),
            target.namespace or "",
            dry_run=_dry_run(query),
        )

    def replace(self, target: Target, query: Mapping[str, str], body: bytes) -> Stored:
        """Replace an object or its status."""
        new = _read(target.kind, body)
        given = new.get("metadata", {}).get("name", target.name)
        if given != target.name:
            raise bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({target.name})"
            )
        return self._registry.replace(
            _stored_kind(target.kind),
            target.namespace or "",
            target.name,
            new,
            status_only=target.subresource == "status",
            dry_run=_dry_run(query),
        )

    def patch(
        self, target: Target, query: Mapping[str, str], content_type: str, body: bytes
    ) -> tuple[Stored, int]:
        """Patch an object or its status; a server-side apply creates it when it is not there."""
        change = read_patch(target.kind, content_type, body)
        kind, namespace = _stored_kind(target.kind), target.namespace or ""
        applying = content_type.split(";", maxsplit=1)[0].strip() == APPLY_PATCH
        if applying and not query.get("fieldManager"):
            why = "fieldManager: Required value: is required for apply patch"
            raise ApiError(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {why}')
        missing = self._registry.store.get(kind, namespace, target.name) is None
        if applying and missing and not target.subresource:
            new = strategic_merge({}, read_object(body))
            new.setdefault("metadata", {})["name"] = target.name
            return self._registry.create(kind, new, namespace, dry_run=_dry_run(query)), CREATED
        stored = self._registry.patch(
            kind,
            namespace,
            target.name,
            change,
            status_only=target.subresource == "status",
            dry_run=_dry_run(query),
        )
        return stored, OK

    def delete(self, target: Target, query: Mapping[str, str], body: bytes) -> bytes | Stored:
        """Delete an object; returns it while it is still there, a Status once it is gone."""
        options = read_options(body, dict(query))
        stored = self.get(target)
        last, gone = delete(self._registry, stored, options)
        if not gone or target.kind.storage in _ANSWERED_WITH_THE_OBJECT:
            return last
        details = {"name": stored.name, "kind": target.kind.plural, "uid": stored.uid}
        if target.kind.group:
            details["group"] = target.kind.group
        return _success(details)

    def delete_collection(self, target: Target, query: Mapping[str, str], body: bytes) -> list[Stored]:
        """Delete all selected objects and return them."""
        options = read_options(body, dict(query))
        selection = read_selection(target.kind, target.namespace, query)
        found = [s for s in self._registry.store.objects(target.kind, target.namespace) if selection.matches(s)]
        return [delete(self._registry, stored, options)[0] for stored in found]

    def bind(self, target: Target, body: bytes) -> bytes:
        """Bind a pod to the node of a Binding."""
        node = read_object(body).get("target", {}).get("name")
        if not node:
            raise ApiError(500, "", "target.name: Required value")
        self._registry.bind(target.namespace or "", target.name, node)
        return _success(None)

    def evict(self, target: Target, body: bytes) -> bytes:
        """Delete a pod gracefully, as an Eviction asks; disruption budgets are not enforced."""
        eviction = read_object(body)
        options = read_options(encode(eviction.get("deleteOptions", {})), {})
        delete(self._registry, self._registry.get(POD, target.namespace or "", target.name), options)
        return _success(None)

    def finalize(self, target: Target, body: bytes) -> Stored:
        """Replace the finalizers of a namespace's spec."""
        stored = self._registry.get(NAMESPACE, "", target.name)
        new = stored.body()
        new["spec"] = read_object(body).get("spec", {})
        return self._registry.write(NAMESPACE, stored, new)


def _stored_kind(kind: Kind) -> Kind:
    return EVENT if kind.stored_as == EVENT.storage else kind


def _read(kind: Kind, body: bytes) -> Json:
    found = read_object(body)
    return to_core_event(found) if kind.stored_as == EVENT.storage else found


def _dry_run(query: Mapping[str, str]) -> bool:
    if query.get("dryRun") not in {None, "", "All"}:
        raise bad_request(f'invalid value for dryRun: "{query["dryRun"]}"; valid: All')
    return query.get("dryRun") == "All"


def _success(details: Json | None) -> bytes:
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return encode(body | ({"details": details} if details else {"code": CREATED}))
