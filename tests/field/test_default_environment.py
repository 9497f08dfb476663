"""The default machine of the CPU pool exists where TPUs are; without one a build is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.planning.pool_details import ZONES
from infra.build.preflight import read_declared
from shared.shapes.catalogue import TPUS
from tests.field.planned import INPUTS
from tests.infra.answering_apis import AnsweringApis
from tests.infra.terraform_cli import TERRAFORM
from tests.infra.test_preflight import PROJECT, REGION, apis, run, run_with  # noqa: F401 -- a fixture

LISTED = yaml.safe_load((INPUTS / "cpu-machine-of-zones.yaml").read_text())
ZONE = "us-central2-b"
V4 = {"REGION": "us-central2", "ZONE": ZONE, "SERVICES_REGION": "us-central1", "TPU_TYPE": "v4-16"}


def spread(text: str) -> set[str]:
    """The zones of a line of regions with their letters."""
    regions = (each.split(":") for each in text.split())
    return {f"{region}-{letter}" for region, letters in regions for letter in letters.split(",")}


@pytest.fixture
def us_central2(apis: AnsweringApis) -> AnsweringApis:  # noqa: F811
    """A region with the quotas of a new project, and a zone without E2."""
    apis.answers[REGION.replace("us-central1", "us-central2")] = apis.answers[REGION]
    pages: dict[str, Any] = {"items": [{"name": each} for each in LISTED["of_us_central2_b"]]}
    apis.answers[f"/compute/v1/projects/{PROJECT}/zones/{ZONE}/machineTypes"] = pages
    return apis


@pytest.mark.parametrize("generation", sorted({each.generation for each in TPUS.values()}))
def test_every_zone_of_a_generation_has_the_default_machine(generation: str) -> None:
    zones = spread(ZONES[generation]) - set(LISTED["unknown"])

    assert zones <= spread(LISTED["zones"])


def test_the_defaults_of_the_roots_are_the_listed_machine() -> None:
    for root in ("complete", "modules/environment"):
        assert read_declared(TERRAFORM / root)["cpu_pool_machine_type"] == LISTED["machine"]


def test_the_default_environment_of_v4_is_accepted_in_its_only_zone(us_central2: AnsweringApis) -> None:
    assert run(**V4).refusals == []
    assert any(each.endswith("/machineTypes") for each in us_central2.asked)


def test_a_machine_that_the_zone_does_not_have_is_refused_before_anything_is_made(
    us_central2: AnsweringApis, tmp_path: Path
) -> None:
    more = {"cpu_pool_machine_type": "e2-standard-2"}
    (refused,) = run_with(tmp_path / "more.json", more, **V4).refusals

    assert refused.startswith(
        f"cpu_pool_machine_type: {ZONE} has no machine type e2-standard-2; valid: one of {ZONE}"
    )
    assert "n2-standard-2" in refused
    assert us_central2.asked


def test_the_zones_of_the_cpu_pool_count_and_not_that_of_the_slices(
    us_central2: AnsweringApis, tmp_path: Path
) -> None:
    us_central2.answers[f"/compute/v1/projects/{PROJECT}/zones/us-central2-c/machineTypes"] = {
        "items": [{"name": "e2-standard-2"}]
    }
    more = {"cpu_pool_machine_type": "e2-standard-2", "cpu_pool_zones": ["us-central2-c"]}

    assert run_with(tmp_path / "more.json", more, **V4).refusals == []


def test_a_slice_that_the_zone_does_not_have_is_refused_if_it_is_made_at_once(us_central2: AnsweringApis) -> None:
    absent = f"TPU_TYPE: {ZONE} has no machine type ct5p-hightpu-4t; valid: one of {ZONE}"
    waiting, static = run(**V4 | {"TPU_TYPE": "v5p-16"}), run(**V4 | {"TPU_TYPE": "v5p-16"}, NUM_TPU_POOLS="1")

    assert any(f"The first slice would wait: {absent}" in each for each in waiting.notes)
    assert any(absent in each for each in static.refusals)
    assert us_central2.asked


def test_a_list_that_may_not_be_read_is_a_note(us_central2: AnsweringApis) -> None:
    us_central2.answers[f"/compute/v1/projects/{PROJECT}/zones/{ZONE}/machineTypes"] = 403
    found = run(**V4)

    assert found.refusals == []
    assert any(f"Not checked: the machine types of {ZONE}" in each for each in found.notes), json.dumps(
        found.notes
    )
