"""Which zones exist, and which of them have the machines of a TPU family.

Written independently of the table of the code under test, on purpose. Zones:
https://cloud.google.com/compute/docs/regions-zones. TPUs: as listed on 2026-11-23 in
https://github.com/skypilot-org/skypilot-catalog/blob/006059e/catalogs/v8/gcp/vms.csv.
A family that is not here is everywhere, because the list has none of its zones.
"""

from standins.fakegke.errors import invalid, invalid_field
from standins.fakegke.model.machines import Machine
from standins.fakegke.resource_names import region_of

_USUAL = "a b c"
_LETTERS = {
    "us-central1": "a b c f ai1a",
    "us-central2": "a b c d",
    "us-east1": "b c d",
    "us-south1": "a b c ai1b",
    "europe-west1": "b c d",
}
_V5E = (
    "asia-east1:abc asia-northeast1:b asia-southeast1:b europe-north1:ac europe-west1:bc europe-west3:c "
    "europe-west4:ab northamerica-northeast1:b southamerica-west1:bc us-central1:a us-east1:bc us-east4:b "
    "us-east5:abc us-south1:ab us-west1:c us-west4:ab"
)
_FAMILIES = {
    "tpu-v4-podslice": "us-central2:b",
    "tpu-v5-lite-podslice": _V5E,
    "tpu-v5-lite-device": _V5E,
    "tpu-v5p-slice": "europe-west1:bd europe-west4:b us-central1:a us-east1:d us-east5:abc us-south1:abc",
    "tpu-v6e-slice": (
        "asia-east1:c asia-northeast1:b asia-south1:bc asia-southeast1:b europe-west4:a southamerica-east1:c "
        "southamerica-west1:a us-central1:abc us-central2:b us-east1:d us-east4:a us-east5:abc us-south1:ac "
        "us-west1:c"
    ),
}
_AI_ZONES = {"tpu-v6e-slice": {"us-south1-ai1b"}}


def list_zones(region: str) -> list[str]:
    """Return the zones of a region: most regions have a, b and c."""
    return [f"{region}-{letter}" for letter in _LETTERS.get(region, _USUAL).split()]


def check_machine_zone(machine: Machine, zone: str, *, everywhere: bool) -> None:
    """Refuse a zone that does not exist, and one without the machine, unless it is everywhere.

    The second text is GKE's own (https://github.com/keras-team/kinetic/issues/305), the first one a
    guess in Compute Engine's words.
    """
    if zone not in list_zones(region_of(zone)):
        raise invalid_field("node_pool.locations", zone, "Unknown zone.")
    accelerator = machine.family.accelerator if machine.family and not everywhere else ""
    listed = dict(each.split(":") for each in _FAMILIES.get(accelerator, "").split())
    letter = zone.rpartition("-")[2]
    if listed and letter not in [*listed.get(region_of(zone), "")] and zone not in _AI_ZONES.get(accelerator, ()):
        raise invalid(f'Invalid machine type "{machine.name}" in zone "{zone}": GCE_NOT_FOUND.')
