"""Tables: what `kubectl get` prints, as the server computes it.

Which columns a kind has is in `columns`. Source:
https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from local.cluster.api.columns import columns_of
from local.cluster.api.representations import metadata_only
from local.cluster.store.stored import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from local.cluster.store.kinds import Kind
    from local.cluster.store.stored import Stored

Json = dict[str, Any]


class TableWriter:
    """Writes tables of one kind; only the first one carries the column definitions, as in a watch."""

    def __init__(self, kind: Kind, *, include: str = "Metadata") -> None:
        self._columns = columns_of(kind)
        self._include = include
        self._defined = False

    def rows(self, items: Iterable[Stored], metadata: Json | None = None) -> bytes:
        """Return a table with one row for each object."""
        table: Json = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata or {}}
        table["columnDefinitions"] = [] if self._defined else [column.definition() for column in self._columns]
        self._defined = True
        table["rows"] = [self._row(stored) for stored in items]
        return encode(table)

    def bookmark(self, metadata: Json) -> Json:
        """Return the table of a bookmark: one row that only carries metadata."""
        body: Json = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": []}
        marker = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
        cells: list[str] = [""] * len(self._columns)
        return body | {"rows": [{"cells": cells, "object": marker}]}

    def _row(self, stored: Stored) -> Json:
        body = stored.body()
        row: Json = {"cells": [column.value(body) for column in self._columns]}
        if self._include == "Object":
            row["object"] = msgspec.Raw(stored.encoded)
        elif self._include != "None":
            row["object"] = msgspec.Raw(metadata_only(stored))
        return row
