"""Lists: selection, paging with a consistent snapshot, resource versions.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from local.cluster.errors import ApiError, bad_request, expired
from local.cluster.store.fields import selectable
from local.cluster.store.selectors import (
    ANY_FIELDS,
    EVERYTHING,
    FieldSelector,
    Selector,
    parse_fields,
    parse_labels,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from local.cluster.store.kinds import Kind
    from local.cluster.store.store import Store
    from local.cluster.store.stored import Stored

Json = dict[str, Any]

_KEPT_SNAPSHOTS = 3
_TIMEOUT = 504
_MATCHES = ("Exact", "NotOlderThan")


@dataclass(frozen=True)
class Selection:
    """Which objects of a kind a request is about."""

    kind: Kind
    namespace: str | None
    labels: Selector = EVERYTHING
    fields: FieldSelector = ANY_FIELDS

    def matches(self, stored: Stored) -> bool:
        """Return whether an object is selected."""
        if self.namespace is not None and stored.namespace != self.namespace:
            return False
        return self.labels.matches(stored.labels) and self.fields.matches(stored.fields)

    @property
    def selects_all(self) -> bool:
        """Return whether there is no label or field condition."""
        return self.labels == EVERYTHING and self.fields == ANY_FIELDS


def read_selection(kind: Kind, namespace: str | None, query: Mapping[str, str]) -> Selection:
    """Return the selection of a request.

    Raises:
        ApiError: 400, for a selector that cannot be read.
    """
    labels = parse_labels(query["labelSelector"]) if query.get("labelSelector") else EVERYTHING
    fields = parse_fields(query["fieldSelector"], selectable(kind)) if query.get("fieldSelector") else ANY_FIELDS
    return Selection(kind, namespace, labels, fields)


def unreadable_version(text: str) -> str:
    """Return what is said of a resource version that is no number."""
    return f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'


def read_number(query: Mapping[str, str], name: str) -> int:
    """Return a whole number of the query, 0 when absent.

    Raises:
        ApiError: 400, naming the parameter.
    """
    text = query.get(name) or "0"
    if not text.isdigit():
        if name == "resourceVersion":
            raise bad_request(f"invalid resource version: {unreadable_version(text)}")
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _check_version_match(query: Mapping[str, str]) -> None:
    match, version, token = (query.get(key) for key in ("resourceVersionMatch", "resourceVersion", "continue"))
    if not match:
        return
    problems = []
    for forbidden, why in (
        (not version, "forbidden unless resourceVersion is provided"),
        (token, "forbidden when continue is provided"),
    ):
        if forbidden:
            problems.append(f"resourceVersionMatch: Forbidden: resourceVersionMatch is {why}")
    if match not in _MATCHES:
        valid = ", ".join(f'"{each}"' for each in (*_MATCHES, ""))
        problems.append(f'resourceVersionMatch: Unsupported value: "{match}": supported values: {valid}')
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise ApiError(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {text}')


@dataclass(frozen=True)
class Page:
    """A part of a list and the list metadata that belongs to it."""

    items: list[Stored]
    metadata: Json


class _Token(msgspec.Struct):
    version: int
    after: tuple[str, str]


class Lister:
    """Answers list requests over one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots: OrderedDict[tuple[str, int], list[Stored]] = OrderedDict()

    def page(self, selection: Selection, query: Mapping[str, str]) -> Page:
        """Return the page that a list request asks for.

        Raises:
            ApiError: 400, 410 (token or exact version too old) or 504 (version in the future).
        """
        limit = read_number(query, "limit")
        _check_version_match(query)
        version = self._store.revision
        after: tuple[str, str] | None = None
        if query.get("continue"):
            token = _read_token(query["continue"])
            version, after = token.version, token.after
            source = self._at(selection, version, after=after)
        elif query.get("resourceVersionMatch") == "Exact":
            version = read_number(query, "resourceVersion")
            source = self._at(selection, version, after=None)
        else:
            self._check_not_in_future(query)
            if query.get("resourceVersion") == "0":
                limit = 0  # As the real server's watch cache does: https://github.com/kubernetes/kubernetes/issues/118394
            source = self._store.objects(selection.kind, selection.namespace)
        matching = (stored for stored in source if selection.matches(stored))
        items = list(islice(matching, limit + 1)) if limit else list(matching)
        metadata: Json = {"resourceVersion": str(version)}
        if limit and len(items) > limit:
            items.pop()
            metadata["continue"] = _write_token(_Token(version, items[-1].key))
            if selection.selects_all:
                metadata["remainingItemCount"] = self._remaining(selection, version, items[-1].key)
        return Page(items, metadata)

    def _remaining(self, selection: Selection, version: int, after: tuple[str, str]) -> int:
        kind, namespace = selection.kind, selection.namespace
        if not self._store.changes_since(kind, version):
            return self._store.count_after(kind, namespace, after)
        snapshot = self._snapshot(kind, version)
        return sum(stored.key > after for stored in snapshot if namespace in {None, stored.namespace})

    def _check_not_in_future(self, query: Mapping[str, str]) -> None:
        wanted = read_number(query, "resourceVersion")
        if wanted > self._store.revision:
            message = f"Too large resource version: {wanted}, current: {self._store.revision}"
            details = {
                "causes": [{"reason": "ResourceVersionTooLarge", "message": message}],
                "retryAfterSeconds": 1,
            }
            raise ApiError(_TIMEOUT, "Timeout", message, details)

    def _at(self, selection: Selection, version: int, *, after: tuple[str, str] | None) -> Iterator[Stored]:
        kind = selection.kind
        try:
            unchanged = not self._store.changes_since(kind, version)
        except ApiError as error:
            message = (
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter."
                if after is not None
                else error.message
            )
            raise expired(message) from error
        if unchanged:
            yield from self._store.objects(kind, selection.namespace, after=after)
            return
        for stored in self._snapshot(kind, version):
            if after is None or stored.key > after:
                yield stored

    def _snapshot(self, kind: Kind, version: int) -> list[Stored]:
        key = (kind.storage, version)
        if key not in self._snapshots:
            self._snapshots[key] = self._store.objects_at(kind, version)
            if len(self._snapshots) > _KEPT_SNAPSHOTS:
                self._snapshots.popitem(last=False)
        self._snapshots.move_to_end(key)
        return self._snapshots[key]


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request("continue key is not valid: it must be the one that a list answered with") from error
