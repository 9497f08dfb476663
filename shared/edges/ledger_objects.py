"""The ledger of limit holds as a ConfigMap: one key for each pool, its value a line of JSON."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from shared.core.ports import Ledger, LimitHold
from shared.edges.kubernetes_objects import ObjectMeta, Record

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "tpu-provisioner-reservations"
_CHIPS_MAX = 10_000_000
_LOG = logging.getLogger("limits")


class ConfigMap(Record):
    """The ConfigMap, as far as it is read."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


class _Entry(msgspec.Struct):
    namespace: str
    chips: Annotated[int, msgspec.Meta(ge=0, le=_CHIPS_MAX)]
    made_at: float
    again: bool = False


_ENTRY = msgspec.json.Decoder(_Entry)


def read_entries(found: ConfigMap) -> Ledger:
    """Return the ledger of a ConfigMap. An unreadable entry is logged and left out."""
    entries = {}
    for name, text in (found.data or {}).items():
        try:
            entry = _ENTRY.decode(text)
        except (msgspec.DecodeError, UnicodeError) as error:
            _LOG.warning("a limit hold cannot be read and is left out", extra={"pool": name, "error": str(error)})
            continue
        if math.isfinite(entry.made_at):
            entries[name] = LimitHold(**msgspec.structs.asdict(entry))
    return Ledger(version=found.metadata.resource_version, entries=entries)


def format_entries(namespace: str, ledger: Ledger) -> dict[str, Any]:
    """Return the ConfigMap of a ledger, with the version that it replaces."""
    version = {"resourceVersion": ledger.version} if ledger.version else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": "tpu-provisioner"},
            **version,
        },
        "data": _format_data(ledger.entries),
    }


def _format_data(entries: Mapping[str, LimitHold]) -> dict[str, str]:
    return {name: msgspec.json.encode(each).decode() for name, each in entries.items()}
