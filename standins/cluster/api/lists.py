"""Lists: selection, and pages of one consistent snapshot.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from standins.cluster.store.errors import ApiError, bad_request
from standins.cluster.store.kinds import Kind, selectable
from standins.cluster.store.object_store import Store
from standins.cluster.store.selectors import EVERYTHING, Selector, parse_fields, parse_labels
from standins.cluster.store.stored import Stored, encode

Json = dict[str, Any]


@dataclass(frozen=True)
class Selection:
    """Which objects of a kind a request is about."""

    kind: Kind
    namespace: str | None
    labels: Selector = EVERYTHING
    fields: Selector = EVERYTHING

    def matches(self, stored: Stored) -> bool:
        """Return whether an object is selected."""
        if self.namespace is not None and stored.namespace != self.namespace:
            return False
        return self.labels.matches(stored.labels) and self.fields.matches(stored.fields)


def read_selection(kind: Kind, namespace: str | None, query: Mapping[str, str]) -> Selection:
    """Return the selection of a request.

    Raises ApiError: 400, for a selector that cannot be read.
    """
    labels = parse_labels(query["labelSelector"]) if query.get("labelSelector") else EVERYTHING
    fields = parse_fields(query["fieldSelector"], selectable(kind)) if query.get("fieldSelector") else EVERYTHING
    return Selection(kind, namespace, labels, fields)


def read_number(query: Mapping[str, str], name: str) -> int:
    """Return a whole number of the query, 0 when absent.

    Raises ApiError: 400, naming the parameter.
    """
    text = query.get(name) or "0"
    if not text.isdigit():
        raise bad_request(f'{name}: Invalid value: "{text}": must be a whole number')
    return int(text)


@dataclass(frozen=True)
class Page:
    """A part of a list and its list metadata."""

    items: list[Stored]
    metadata: Json


class _Token(msgspec.Struct):
    version: int
    after: tuple[str, str]


def page(store: Store, selection: Selection, query: Mapping[str, str]) -> Page:
    """Return the page that a list request asks for; later pages show the version of the first.

    Raises ApiError: 400, 410 (token or exact version too old) or 504 (version in the future).
    """
    limit = read_number(query, "limit")
    version = read_number(query, "resourceVersion")
    if version > store.revision:
        why = f"Too large resource version: {version}, current: {store.revision}"
        raise ApiError(504, "Timeout", why, {"retryAfterSeconds": 1})
    token = _read_token(query["continue"]) if query.get("continue") else None
    source: Iterable[Stored]
    if token is not None:
        version = token.version
        source = (stored for stored in store.objects_at(selection.kind, version) if stored.key > token.after)
    elif query.get("resourceVersionMatch") == "Exact":
        source = store.objects_at(selection.kind, version)
    else:
        if query.get("resourceVersion") == "0":
            limit = (
                0  # As the real server's watch cache does: https://github.com/kubernetes/kubernetes/issues/118394
            )
        version = store.revision
        source = store.objects(selection.kind, selection.namespace)
    matching = (stored for stored in source if selection.matches(stored))
    items = list(islice(matching, limit + 1)) if limit else list(matching)
    metadata: Json = {"resourceVersion": str(version)}
    if limit and len(items) > limit:
        items.pop()
        metadata["continue"] = _write_token(_Token(version, items[-1].key))
    return Page(items, metadata)


def encoded_list(kind: Kind, items: Iterable[Stored], metadata: Json) -> bytes:
    """Return a list as bytes.

    Items of built-in kinds do not repeat their kind, as in the real server; custom resources do.
    """
    head = (
        b""
        if ".x-k8s.io" in kind.group
        else encode({"apiVersion": kind.api_version, "kind": kind.kind})[:-1] + b","
    )
    parts = []
    for stored in items:
        item = stored.encoded
        parts.append(b"{" + item[len(head) :] if head and item.startswith(head) else item)
    opening = encode({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata})[:-1]
    return opening + b',"items":[' + b",".join(parts) + b"]}"


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request("continue key is not valid: it must be the one that a list answered with") from error
