"""Which zones exist, and which of them have an accelerator.

Written independently of the table of the code under test, on purpose. Zones:
https://cloud.google.com/compute/docs/regions-zones. Accelerators: as listed on 2026-11-23 in
https://github.com/skypilot-org/skypilot-catalog/blob/006059e/catalogs/v8/gcp/vms.csv, and tpu7x in
https://docs.cloud.google.com/tpu/docs/regions-zones.
An accelerator that is not here is everywhere, because no list has any of its zones.
"""

from standins.google.gke.errors import invalid, invalid_field

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
_V3 = "europe-west4:a us-central1:abf us-east1:d"
_ACCELERATORS = {
    "tpu-v3-slice": _V3,
    "tpu-v3-device": _V3,
    "tpu-v4-podslice": "us-central2:b",
    "tpu-v5-lite-podslice": _V5E,
    "tpu-v5-lite-device": _V5E,
    "tpu-v5p-slice": "europe-west1:bd europe-west4:b us-central1:a us-east1:d us-east5:abc us-south1:abc",
    "tpu-v6e-slice": (
        "asia-east1:c asia-northeast1:b asia-south1:bc asia-southeast1:b europe-west4:a southamerica-east1:c "
        "southamerica-west1:a us-central1:abc us-central2:b us-east1:d us-east4:a us-east5:abc us-south1:ac "
        "us-west1:c"
    ),
    "tpu7x": "us-central1:c",
    "nvidia-tesla-t4": (
        "asia-east1:ac asia-east2:ac asia-northeast1:ac asia-northeast3:bc asia-south1:ab asia-southeast1:abc "
        "asia-southeast2:ab australia-southeast1:ac europe-central2:bc europe-west1:bcd europe-west2:ab "
        "europe-west3:b europe-west4:abc me-west1:bc northamerica-northeast1:c southamerica-east1:abc "
        "us-central1:abcf us-east1:bcd us-east4:abc us-west1:ab us-west2:bc us-west3:b us-west4:ab"
    ),
    "nvidia-tesla-p4": (
        "asia-southeast1:abc australia-southeast1:ab europe-west4:bc northamerica-northeast1:abc "
        "us-central1:ac us-east4:abc us-west2:bc"
    ),
    "nvidia-tesla-p100": (
        "asia-east1:ac australia-southeast1:b europe-west1:bd europe-west4:a us-central1:cf us-east1:bc "
        "us-west1:ab"
    ),
    "nvidia-tesla-v100": "asia-east1:c europe-west4:abc us-central1:abcf us-east1:bc us-west1:ab",
    "nvidia-tesla-a100": (
        "asia-northeast1:ac asia-northeast3:ab asia-southeast1:abc europe-west4:ab me-west1:ac "
        "us-central1:abcf us-east1:b us-west1:b us-west3:b us-west4:b"
    ),
    "nvidia-a100-80gb": "asia-southeast1:c europe-west4:a us-central1:ac us-east4:c us-east5:ab",
    "nvidia-l4": (
        "asia-east1:abc asia-northeast1:abc asia-northeast3:ab asia-south1:abc asia-southeast1:abc "
        "europe-west1:bc europe-west2:ab europe-west3:ab europe-west4:abc europe-west6:bc me-central2:ac "
        "northamerica-northeast1:bc northamerica-northeast2:ab us-central1:abc us-east1:bcd us-east4:ac "
        "us-west1:abc us-west4:ac"
    ),
    "nvidia-h100-80gb": (
        "asia-east1:c asia-northeast1:b asia-northeast3:ac asia-south1:c asia-south2:b asia-southeast1:bc "
        "australia-southeast1:c europe-north1:c europe-west1:bc europe-west2:b europe-west3:ac "
        "europe-west4:bc europe-west8:c europe-west9:c northamerica-northeast2:c us-central1:abc us-east4:abc "
        "us-east5:a us-west1:ab us-west4:a"
    ),
    "nvidia-h100-mega-80gb": (
        "asia-northeast1:b asia-northeast3:ac asia-south1:c asia-southeast1:bc australia-southeast1:c "
        "europe-west1:bc europe-west3:ac europe-west4:bc northamerica-northeast2:c us-central1:abc "
        "us-east4:abc us-east5:a us-west1:ab us-west4:a"
    ),
    "nvidia-h200-141gb": (
        "asia-south1:b asia-south2:c europe-west1:b europe-west4:a us-central1:b us-east4:b us-east5:a "
        "us-south1:b us-west1:c"
    ),
    "nvidia-b200": (
        "asia-northeast1:b asia-southeast1:b europe-north1:b europe-west4:b us-central1:b us-east1:b "
        "us-east4:b us-south1:b us-west2:c us-west3:bc"
    ),
}
_AI_ZONES = {"tpu-v6e-slice": {"us-south1-ai1b"}, "tpu7x": {"us-central1-ai1a"}}


def list_zones(region: str) -> list[str]:
    """Return the zones of a region: most regions have a, b and c."""
    return [f"{region}-{letter}" for letter in _LETTERS.get(region, _USUAL).split()]


def check_zone(machine: str, accelerator: str, zone: str, *, attached: bool) -> None:
    """Refuse a zone that does not exist, and one without the accelerator; "" is in every zone.

    `attached`: the pool asks for the accelerator by name. The words about it are GKE's own
    (https://github.com/GoogleCloudPlatform/k8s-config-connector/pull/1902), and so are those about
    a machine type (https://github.com/keras-team/kinetic/issues/305). Those about a zone that does
    not exist are a guess in Compute Engine's words.
    """
    region, _, letter = zone.rpartition("-")
    if zone not in list_zones(region):
        raise invalid_field("node_pool.locations", zone, "Unknown zone.")
    listed = dict(each.split(":") for each in _ACCELERATORS.get(accelerator, "").split())
    if not listed or letter in [*listed.get(region, "")] or zone in _AI_ZONES.get(accelerator, ()):
        return
    if attached:
        raise invalid(f'Accelerator type "{accelerator}" does not exist in zone {zone}.')
    raise invalid(f'Invalid machine type "{machine}" in zone "{zone}": GCE_NOT_FOUND.')
