"""Which zones have the machines of an accelerator, by a dated list. It refuses nothing. Pure."""

from __future__ import annotations

from shared.core.shapes.tpu_catalogue import BY_ACCELERATOR

LISTED_ON = "2026-11-23"
ZONES = {
    "v3": "europe-west4:a us-central1:a,b,f us-east1:d",
    "v4": "us-central2:b",
    "v5e": (
        "asia-east1:a,b,c asia-northeast1:b asia-southeast1:b europe-north1:a,c europe-west1:b,c europe-west3:c "
        "europe-west4:a,b northamerica-northeast1:b southamerica-west1:b,c us-central1:a us-east1:b,c us-east4:b "
        "us-east5:a,b,c us-south1:a,b us-west1:c us-west4:a,b"
    ),
    "v5p": "europe-west1:b,d europe-west4:b us-central1:a us-east1:d us-east5:a,b,c us-south1:a,b,c",
    "v6e": (
        "asia-east1:c asia-northeast1:b asia-south1:b,c asia-southeast1:b europe-west4:a southamerica-east1:c "
        "southamerica-west1:a us-central1:a,b,c us-central2:b us-east1:d us-east4:a us-east5:a,b,c "
        "us-south1:a,c,ai1b us-west1:c"
    ),
    "tpu7x": "us-central1:c,ai1a",
    "nvidia-tesla-t4": (
        "asia-east1:a,c asia-east2:a,c asia-northeast1:a,c asia-northeast3:b,c asia-south1:a,b "
        "asia-southeast1:a,b,c asia-southeast2:a,b australia-southeast1:a,c europe-central2:b,c "
        "europe-west1:b,c,d europe-west2:a,b europe-west3:b europe-west4:a,b,c me-west1:b,c "
        "northamerica-northeast1:c southamerica-east1:a,b,c us-central1:a,b,c,f us-east1:b,c,d us-east4:a,b,c "
        "us-west1:a,b us-west2:b,c us-west3:b us-west4:a,b"
    ),
    "nvidia-tesla-p4": (
        "asia-southeast1:a,b,c australia-southeast1:a,b europe-west4:b,c northamerica-northeast1:a,b,c "
        "us-central1:a,c us-east4:a,b,c us-west2:b,c"
    ),
    "nvidia-tesla-p100": (
        "asia-east1:a,c australia-southeast1:b europe-west1:b,d europe-west4:a us-central1:c,f us-east1:b,c "
        "us-west1:a,b"
    ),
    "nvidia-tesla-v100": "asia-east1:c europe-west4:a,b,c us-central1:a,b,c,f us-east1:b,c us-west1:a,b",
    "nvidia-tesla-a100": (
        "asia-northeast1:a,c asia-northeast3:a,b asia-southeast1:a,b,c europe-west4:a,b me-west1:a,c "
        "us-central1:a,b,c,f us-east1:b us-west1:b us-west3:b us-west4:b"
    ),
    "nvidia-a100-80gb": "asia-southeast1:c europe-west4:a us-central1:a,c us-east4:c us-east5:a,b",
    "nvidia-l4": (
        "asia-east1:a,b,c asia-northeast1:a,b,c asia-northeast3:a,b asia-south1:a,b,c asia-southeast1:a,b,c "
        "europe-west1:b,c europe-west2:a,b europe-west3:a,b europe-west4:a,b,c europe-west6:b,c me-central2:a,c "
        "northamerica-northeast1:b,c northamerica-northeast2:a,b us-central1:a,b,c us-east1:b,c,d us-east4:a,c "
        "us-west1:a,b,c us-west4:a,c"
    ),
    "nvidia-h100-80gb": (
        "asia-east1:c asia-northeast1:b asia-northeast3:a,c asia-south1:c asia-south2:b asia-southeast1:b,c "
        "australia-southeast1:c europe-north1:c europe-west1:b,c europe-west2:b europe-west3:a,c europe-west4:b,c "
        "europe-west8:c europe-west9:c northamerica-northeast2:c us-central1:a,b,c us-east4:a,b,c us-east5:a "
        "us-west1:a,b us-west4:a"
    ),
    "nvidia-h100-mega-80gb": (
        "asia-northeast1:b asia-northeast3:a,c asia-south1:c asia-southeast1:b,c australia-southeast1:c "
        "europe-west1:b,c europe-west3:a,c europe-west4:b,c northamerica-northeast2:c us-central1:a,b,c "
        "us-east4:a,b,c us-east5:a us-west1:a,b us-west4:a"
    ),
    "nvidia-h200-141gb": (
        "asia-south1:b asia-south2:c europe-west1:b europe-west4:a us-central1:b us-east4:b us-east5:a "
        "us-south1:b us-west1:c"
    ),
    "nvidia-b200": (
        "asia-northeast1:b asia-southeast1:b europe-north1:b europe-west4:b us-central1:b us-east1:b us-east4:b "
        "us-south1:b us-west2:c us-west3:b,c"
    ),
}
"""The zones of each region, by generation of TPUs and type of GPUs. Google adds zones, so a missing
zone is a hint only, and of a missing type nothing is said. Sources:
https://github.com/skypilot-org/skypilot-catalog/blob/006059e/catalogs/v8/gcp/vms.csv, and for tpu7x
https://docs.cloud.google.com/tpu/docs/regions-zones."""


def tell_unlisted(accelerator: str, zone: str) -> str:
    """Return a warning if `ZONES` has an accelerator, but not in a zone; else an empty text."""
    kind = BY_ACCELERATOR[accelerator].generation if accelerator in BY_ACCELERATOR else accelerator
    regions = dict(each.split(":") for each in ZONES.get(kind, "").split())
    region, _, letter = zone.rpartition("-")
    listed = regions.get(region, "").split(",")
    if not regions or letter in listed:
        return ""
    near = ", ".join(f"{region}-{each}" for each in listed) if region in regions else "other regions only"
    return f"on {LISTED_ON} no {kind} was listed in {zone}, but in {near}"
