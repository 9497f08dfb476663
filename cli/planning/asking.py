"""Finds how an object of any kind asks for TPUs or GPUs: by selectors, amounts or claims."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from cli.planning.object_checks import walk
from shared.model.labels import (
    ACCELERATOR,
    GPU_ACCELERATOR,
    GPU_NODE,
    GPU_RESOURCE,
    INSTANCE_TYPE,
    MACHINE_FAMILY,
    TOPOLOGY,
    TPU_RESOURCE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_AMOUNTS = ("limits", "requests")
_RESOURCES = (TPU_RESOURCE, GPU_RESOURCE, "tpu", "gpu")
"""As they are written in `_AMOUNTS`; some operators have short names of their own."""
_GPU_PARTS = "nvidia.com/mig-"
_SELECTORS = (ACCELERATOR, GPU_ACCELERATOR, TOPOLOGY, GPU_NODE, "nvidia.com/gpu.product")
_MACHINES = re.compile(r"(ct[0-9]|tpu|a[2-9]-|g[2-9]-)")
"""Machine types with TPUs or GPUs, by their first letters."""


def find_requests(body: Mapping[str, Any]) -> str:
    """Return the first way by which an object asks, as ``key: value``; empty for none."""
    entries = [(key, value) for _, key, value in walk(body)]
    ways = (_list_selected, _list_required, _list_amounts, _list_claims)
    return next(itertools.chain.from_iterable(way(*entry) for way in ways for entry in entries), "")


def _list_selected(key: str, value: Any) -> Iterator[str]:
    if key != "nodeSelector" or not isinstance(value, dict):
        return
    yield from (f"{label}: {value[label]}" for label in _SELECTORS if label in value)
    machine = value.get(INSTANCE_TYPE, value.get(MACHINE_FAMILY, ""))
    if _MACHINES.match(f"{machine}-"):
        yield f"{INSTANCE_TYPE}: {machine}"


def _list_required(key: str, value: Any) -> Iterator[str]:
    terms = value if key == "matchExpressions" and isinstance(value, list) else ()
    for each in terms:
        if isinstance(each, dict) and each.get("key") in _SELECTORS and each.get("operator") in ("In", "Exists"):
            values = each.get("values")
            yield f"{each['key']}: {', '.join(map(str, values)) if isinstance(values, list) else 'any'}"


def _list_amounts(key: str, value: Any) -> Iterator[str]:
    amounts = value if key in _AMOUNTS and isinstance(value, dict) else {}
    for name, amount in amounts.items():
        if name in _RESOURCES or name.startswith(_GPU_PARTS):
            yield f"{name}: {amount}"


def _list_claims(key: str, value: Any) -> Iterator[str]:
    if key == "deviceClassName":
        yield f"{key}: {value}"
