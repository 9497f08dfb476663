"""List prices of TPU chips in US dollars an hour: one dated table, with its source.

What is not in the table is unknown, never guessed. Reservations and flex-start depend on a
commitment or a contract. Of GPUs the source has on-demand prices below those of spot (A100 80GB in
us-central1), so none of its rows for them is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.core.decide.limits import count_pool_chips
from shared.core.demand.capacity import Tier
from shared.core.shapes.tpu_catalogue import FAMILIES

if TYPE_CHECKING:
    from shared.core.demand.demand import Demand
    from shared.core.identity.pools import PoolSnapshot

READ_ON = "2026-11-23"
SOURCE = (
    "https://github.com/skypilot-org/skypilot-catalog/blob/006059e0f18acb1341e22a27751e9f80df6ba92f/"
    "catalogs/v8/gcp/vms.csv"
)
"""It is made from Google's Cloud Billing Catalog. Its rows are whole slices; a row here is such a
price divided by the chips of the slice. Spot prices change up to once a day."""
HOURS_PER_MONTH = 730
_V4, _V5E, _V5P, _V6E = "tpu-v4-podslice", "tpu-v5-lite-podslice", "tpu-v5p-slice", "tpu-v6e-slice"
CHIP_HOURS: dict[tuple[str, str], tuple[float, float | None]] = {
    (_V4, "us-central2"): (3.22, 0.9215),
    (_V5E, "asia-east1"): (1.3895, 0.5558),
    (_V5E, "asia-northeast1"): (1.5410, 0.4244),
    (_V5E, "asia-southeast1"): (1.56, 0.78),
    (_V5E, "europe-north1"): (1.3213, 0.6607),
    (_V5E, "europe-west1"): (1.3213, 0.5285),
    (_V5E, "europe-west3"): (1.416, 0.3900),
    (_V5E, "europe-west4"): (1.56, 0.4450),
    (_V5E, "northamerica-northeast1"): (1.3213, 0.3639),
    (_V5E, "southamerica-west1"): (1.716, 0.4726),
    (_V5E, "us-central1"): (1.20, 0.2449),
    (_V5E, "us-east1"): (1.20, 0.2449),
    (_V5E, "us-east4"): (1.20, 0.60),
    (_V5E, "us-east5"): (1.20, 0.60),
    (_V5E, "us-south1"): (1.416, 0.5664),
    (_V5E, "us-west1"): (1.20, 0.2449),
    (_V5E, "us-west4"): (1.20, 0.48),
    (_V5P, "europe-west1"): (4.4595, 1.7838),
    (_V5P, "europe-west4"): (4.2525, 1.3485),
    (_V5P, "us-central1"): (4.20, 0.8357),
    (_V5P, "us-east1"): (4.20, 0.8357),
    (_V5P, "us-east5"): (4.20, 1.68),
    (_V5P, "us-south1"): (4.779, 1.3161),
    (_V6E, "asia-northeast1"): (3.24, 0.9435),
    (_V6E, "asia-south1"): (3.24, 2.27),
    (_V6E, "asia-southeast1"): (2.97, 0.3629),
    (_V6E, "europe-west4"): (2.97, 1.0375),
    (_V6E, "southamerica-west1"): (2.70, None),
    (_V6E, "us-central1"): (2.70, 0.5442),
    (_V6E, "us-east1"): (2.70, 0.5442),
    (_V6E, "us-east4"): (2.70, 0.5777),
    (_V6E, "us-east5"): (2.70, 1.215),
    (_V6E, "us-south1"): (2.70, 1.35),
    (_V6E, "us-west1"): (2.70, 0.5442),
}
"""By accelerator and region: on-demand, spot; None where the source has only a placeholder."""


ACCELERATORS = {machine.name: family.accelerator for family in FAMILIES for machine in family.machines}
"""The TPU accelerator of each machine type."""


def find_price(demand: Demand) -> float | None:
    """Return the list price of a demand's pool in US dollars an hour; None if it is unknown."""
    return _find(demand.shape.accelerator, demand.zone, demand.capacity.tier, demand.shape.chips)


def find_pool_price(pool: PoolSnapshot, location: str) -> float | None:
    """Return the list price of all nodes of a pool in US dollars an hour; None if it is unknown.

    Args:
        pool: also one that has no nodes yet.
        location: the zone or region of its cluster; a pool is in the same region.
    """
    return _find(ACCELERATORS.get(pool.machine_type, ""), location, find_tier(pool), count_pool_chips(pool))


def find_tier(pool: PoolSnapshot) -> Tier:
    """Return how a pool gets its machines."""
    if pool.flex_start:
        return Tier.FLEX_START
    if pool.reserved:
        return Tier.RESERVATION
    return Tier.SPOT if pool.spot else Tier.ON_DEMAND


def find_chip_price(accelerator: str, location: str, tier: str) -> float | None:
    """Return the list price of one chip in US dollars an hour; None if it is unknown.

    The location is a zone or region.
    """
    row = CHIP_HOURS.get((accelerator, "-".join(location.split("-")[:2])))
    index = {str(Tier.ON_DEMAND): 0, str(Tier.SPOT): 1}.get(tier)
    return None if row is None or index is None else row[index]


def _find(accelerator: str, location: str, tier: Tier, chips: int) -> float | None:
    rate = find_chip_price(accelerator, location, tier)
    return None if rate is None else round(rate * chips, 2)


def write_price(per_hour: float | None) -> str:
    """Return a price for people, by the hour and by the month."""
    if per_hour is None:
        return "unknown"
    return f"${per_hour:,.2f}/h ${per_hour * HOURS_PER_MONTH:,.0f}/month"
