"""The default machine of the CPU pool exists where TPUs are."""

import pytest
import yaml

from cli.planning.plan import ZONES
from shared.shapes.catalogue import TPUS
from tests.field.planned import INPUTS
from tests.infra.terraform_cli import TERRAFORM
from tests.infra.terraform_text import read_configuration

LISTED = yaml.safe_load((INPUTS / "cpu-machine-of-zones.yaml").read_text())


def spread(text: str) -> set[str]:
    """The zones of a line of regions with their letters."""
    regions = (each.split(":") for each in text.split())
    return {f"{region}-{letter}" for region, letters in regions for letter in letters.split(",")}


@pytest.mark.parametrize("generation", sorted({each.generation for each in TPUS.values()}))
def test_every_zone_of_a_generation_has_the_default_machine(generation: str) -> None:
    zones = spread(ZONES[generation]) - set(LISTED["unknown"])

    assert zones <= spread(LISTED["zones"])


def test_the_default_is_the_listed_machine() -> None:
    variables = read_configuration(TERRAFORM / "modules/environment").of("variable")
    (default,) = [each.body["default"] for each in variables if each.name == "cpu_pool_machine_type"]

    assert default == LISTED["machine"]
