"""What surrounds the inputs: the demo refuses wrong lists, and TPU zones have CPU machines."""

from pathlib import Path

import pytest
import yaml

from cli.planning.plan import ZONES
from demo.manifests import BadManifest, load
from shared.shapes.catalogue import TPUS
from tests.field.field_world import INPUTS
from tests.infra.terraform_text import TERRAFORM, read_configuration

LISTED = yaml.safe_load((INPUTS / "cpu-machine-of-zones.yaml").read_text())


@pytest.mark.parametrize(
    ("items", "words"), [("{}", "no workload"), ("7", "is not valid"), ("[x]", "is not valid")]
)
def test_a_list_without_objects_is_named(items: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(f"apiVersion: v1\nkind: JobSetList\nitems: {items}\n")

    with pytest.raises(BadManifest, match=words):
        load([str(path)])


def spread(text: str) -> set[str]:
    """Return the zones of a line of regions with their letters."""
    regions = (each.split(":") for each in text.split())
    return {f"{region}-{letter}" for region, letters in regions for letter in letters.split(",")}


def test_every_zone_of_a_tpu_has_the_default_machine_of_the_cpu_pool() -> None:
    variables = read_configuration(TERRAFORM / "modules/environment").of("variable")
    (default,) = [each.body["default"] for each in variables if each.name == "cpu_pool_machine_type"]
    zones = set[str]().union(*(spread(ZONES[each.generation]) for each in TPUS.values()))

    assert default == LISTED["machine"]
    assert zones - set(LISTED["unknown"]) <= spread(LISTED["zones"])
