"""Decodes what a Kubernetes API answers: one decoder for each type, and unreadable objects told."""

from __future__ import annotations

import logging
import threading
from typing import Any, TypeVar

import msgspec

from shared.edges.kubernetes_objects import Stored
from shared.json_text import JSON_ERRORS

T = TypeVar("T")
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_BUILDING = threading.Lock()
_logger = logging.getLogger(__name__)


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the one decoder for a type; building it costs far more than using it.

    One thread builds at a time: msgspec keeps what it learns of a struct on the struct itself, and
    a second thread that finds it half learnt there crashes the process.
    """
    decoder: msgspec.json.Decoder[T] | None = _DECODERS.get(kind)
    if decoder is None:
        with _BUILDING:
            decoder = _DECODERS[kind] = _DECODERS.get(kind) or msgspec.json.Decoder(kind)
    return decoder


def read_stored(piece: Any) -> Stored:
    """Return the identity of an undecoded object; empty if even that is unreadable."""
    try:
        return decoder_of(Stored).decode(piece) if isinstance(piece, msgspec.Raw) else Stored()
    except JSON_ERRORS:
        return Stored()


def report_unreadable(what: str, namespace: str, name: str, error: Exception) -> None:
    """Log that one object is skipped because it cannot be read."""
    problem = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    _logger.error(
        "object skipped: it cannot be read",
        extra={"request": what, "namespace": namespace, "name_of_object": name, "problem": problem},
    )
