"""List prices of TPU chips in US dollars an hour, by the dated table `market.yaml`.

What is not in the table is unknown, never guessed. Reservations and flex-start depend on a
commitment or a contract.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

import yaml

from shared.model.needs import Tier
from shared.shapes.catalogue import TPUS

if TYPE_CHECKING:
    from shared.model.pools import NodePool

MARKET = yaml.safe_load((files("cli") / "market.yaml").read_text(encoding="utf-8"))
"""Dated facts about Google's offer, with their sources."""
READ_ON, SOURCE = MARKET["prices"]["read_on"], MARKET["prices"]["source"]
CHIP_HOURS: dict[str, dict[str, tuple[float, float | None]]] = MARKET["prices"]["chip_hours"]
"""By accelerator and region: on-demand and spot; None where it is unknown."""
HOURS_PER_MONTH = 730
ACCELERATORS = {machine.name: family.accelerator for family in TPUS.values() for machine in family.machines}
"""The TPU accelerator of each machine type."""


def find_price(accelerator: str, location: str, tier: str, *, chips: int) -> float | None:
    """Return the list price of so many chips in US dollars an hour; None if it is unknown."""
    rate = find_chip_price(accelerator, location, tier)
    return None if rate is None else round(rate * chips, 2)


def find_pool_price(pool: NodePool, location: str, *, chips: int) -> float | None:
    """Return the list price of so many chips of a pool in US dollars an hour; None if unknown.

    The location is the zone or region of its cluster; a pool is in the same region.
    """
    tier = find_tier(pool.spot, pool.flex_start, pool.reservation)
    return find_price(ACCELERATORS.get(pool.machine_type, ""), location, tier, chips=chips)


def find_tier(spot: object, flex_start: object, reservation: object) -> Tier:
    """Return how a pool gets its machines, by what GKE or a record says of it."""
    if flex_start or reservation:
        return Tier.FLEX_START if flex_start else Tier.RESERVATION
    return Tier.SPOT if spot else Tier.ON_DEMAND


def find_chip_price(accelerator: str, location: str, tier: str) -> float | None:
    """Return the list price of one chip in US dollars an hour; None if it is unknown.

    The location is a zone or region.
    """
    row = CHIP_HOURS.get(accelerator, {}).get("-".join(location.split("-")[:2]))
    index = {str(Tier.ON_DEMAND): 0, str(Tier.SPOT): 1}.get(tier)
    return None if row is None or index is None else row[index]
