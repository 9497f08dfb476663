"""Which zones have the machines of an accelerator, by a dated list. It refuses nothing. Pure."""

from __future__ import annotations

from cli.prices import MARKET
from shared.shapes.catalogue import TPUS

LISTED_ON = MARKET["zones"]["listed_on"]
ZONES: dict[str, str] = MARKET["zones"]["of"]
"""The zones of each region, by generation of TPUs and type of GPUs."""


def tell_unlisted(accelerator: str, zone: str) -> str:
    """Return a warning if `ZONES` has an accelerator, but not in a zone; else an empty text."""
    kind = TPUS[accelerator].generation if accelerator in TPUS else accelerator
    regions = dict(each.split(":") for each in ZONES.get(kind, "").split())
    region, _, letter = zone.rpartition("-")
    listed = regions.get(region, "").split(",")
    if not regions or letter in listed:
        return ""
    near = ", ".join(f"{region}-{each}" for each in listed) if region in regions else "other regions only"
    return f"on {LISTED_ON} no {kind} was listed in {zone}, but in {near}"
