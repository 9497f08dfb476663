"""The dated list of zones: it warns of a zone that it lacks, and says nothing of other types."""

import pytest

from cli.planning.plan import ZONES, tell_unlisted
from shared.shapes.catalogue import GPUS, TPUS

KINDS = {family.accelerator: family.generation for family in TPUS.values()} | {
    family.accelerator: family.accelerator for family in GPUS.values()
}


@pytest.mark.parametrize("accelerator", KINDS)
def test_a_zone_outside_the_list_is_warned_of_and_each_listed_one_is_not(accelerator: str) -> None:
    kind = KINDS[accelerator]
    regions = dict(each.split(":") for each in ZONES.get(kind, "").split())
    listed = [f"{region}-{letter}" for region, letters in regions.items() for letter in letters.split(",")]

    assert [tell_unlisted(accelerator, zone) for zone in listed] == [""] * len(listed)
    elsewhere = f"on 2026-11-23 no {kind} was listed in mars-north1-a, but in other regions only"
    assert tell_unlisted(accelerator, "mars-north1-a") == (elsewhere if listed else "")


def test_every_row_of_the_list_is_of_an_accelerator_that_we_know() -> None:
    assert set(ZONES) <= set(KINDS.values())


def test_the_zones_of_the_same_region_are_named() -> None:
    assert tell_unlisted("tpu7x", "us-central1-a").endswith("but in us-central1-c, us-central1-ai1a")
