"""`plan` says before anything is applied what the functions would decide after it."""

import cProfile
import gc
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.planning.manifests import read_manifests
from cli.planning.plan import ZONES, Facts, plan, tell_unlisted
from cli.prices import CHIP_HOURS, find_pool_price, find_tier
from shared.shapes.catalogue import GPUS, TPUS
from tests.builders import CLUSTER, a_pool, settings
from tests.cli.cli_world import read_json, run, write
from tests.cli.manifests import EXAMPLES, JOBSET, expand

REFUSED = "unsatisfiable-three-chips.yaml"
MACHINES = EXAMPLES / "scarce" / "capacity.yaml"  # no manifest: what the demo's GKE has


def planned(text: str, tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    """What `plan --json` says of each need."""
    path = write(tmp_path / "jobset.yaml", text)
    found: list[dict[str, Any]] = read_json("plan", path, *options)["needs"]
    return found


@pytest.mark.parametrize("options", [(), ("--zone", "us-east5-b")], ids=["any-zone", "us-east5-b"])
@pytest.mark.parametrize("path", sorted({*EXAMPLES.rglob("*.yaml")} - {MACHINES}), ids=lambda path: path.name)
def test_every_example_is_planned_as_its_name_says(path: Path, options: tuple[str, ...]) -> None:
    variables = {
        "TPU_PROVISIONER_ALLOWED_RESERVATIONS": "*,capacity-project/*",
        "TPU_PROVISIONER_IDLE_SECONDS_MAX": "20",
    }
    result = run("plan", str(path), *options, "-o", "json", environ=variables)

    decisions = {each["decision"] for each in json.loads(result.stdout)["needs"]}
    assert decisions == ({"refuse"} if path.name == REFUSED else {"create"})
    assert result.exit_code == (1 if path.name == REFUSED else 0)


def test_the_pool_is_shown_as_it_would_be_sent_pinned_as_jobset_will_ask(tmp_path: Path) -> None:
    pins = "jobset train | annotations: { => annotations: {alpha.jobset.sigs.k8s.io/node-selector: 'true', "
    slices = planned(expand(pins), tmp_path, "--zone", "us-east5-c")

    first = slices[0]["node_pool"]
    assert (first["locations"], first["initialNodeCount"]) == (["us-east5-c"], 4)
    assert first["placementPolicy"] == {"type": "COMPACT", "tpuTopology": "4x4"}
    assert first["management"]["autoUpgrade"], "as in a cluster on a release channel"
    key = "alpha.jobset.sigs.k8s.io/namespaced-job"
    pinned = [each["node_pool"]["config"]["labels"][key] for each in slices]
    assert pinned == [f"team-a_train-workers-{number}" for number in range(3)]
    assert [(each["dollars_per_hour"], each["dollars_per_month"]) for each in slices] == [(43.2, 31_536.0)] * 3
    assert "dollars_per_hour" not in planned(JOBSET, tmp_path, "--no-price")[0]


def test_standard_input_and_folders_in_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path in (tmp_path / "a" / "one.yaml", tmp_path / "a" / "b" / "two.yaml"):
        write(path, JOBSET.replace("train", path.stem))
    write(tmp_path / "a" / "notes.md", JOBSET)
    (tmp_path / "c").mkdir()

    assert "6 pools" in run("plan", str(tmp_path / "a")).stdout
    assert "no manifest is there" in run("plan", str(tmp_path / "c")).stderr
    assert run("plan", "-", given=JOBSET).stdout.endswith("3 pools with 12 nodes and 48 chips\n")


def test_each_price_is_of_a_known_accelerator_and_spot_is_cheaper() -> None:
    for accelerator, regions in CHIP_HOURS.items():
        assert accelerator in TPUS
        for region, (on_demand, spot) in regions.items():
            assert region.count("-") == 1
            assert spot is None or 0 < spot < on_demand


@pytest.mark.parametrize(
    ("pool", "location", "tier", "dollars"),
    [
        ({}, "us-east5", "on-demand", 15 * 2.70),
        ({}, "europe-west4-a", "on-demand", 15 * 2.97),
        ({}, "southamerica-west1", "on-demand", 15 * 2.70),
        ({"spot": True}, "us-east5-b", "spot", 18.23),
        ({"reservation": "r"}, "us-east5", "reservation", None),
        ({"flex_start": True}, "us-east5", "flex-start", None),
        ({}, "africa-south1", "on-demand", None),
        ({"spot": True}, "southamerica-west1", "spot", None),
        ({"machine_type": "ct4p-hightpu-4t"}, "us-central2-b", "on-demand", 15 * 3.22),
        ({"machine_type": "ct6e-standard-8t"}, "us-east5", "on-demand", 15 * 2.70),
        ({"machine_type": "ct5l-hightpu-8t"}, "us-central1", "on-demand", None),
        ({"machine_type": "a3-highgpu-8g", "gpus_per_node": 8}, "us-central1", "on-demand", None),
        ({"machine_type": ""}, "us-east5", "on-demand", None),
    ],
)
def test_the_price_of_a_pool_is_that_of_its_tier_and_region(
    pool: dict[str, Any], location: str, tier: str, dollars: float | None
) -> None:
    made = a_pool(**pool)

    assert find_tier(made.spot, made.flex_start, made.reservation) == tier
    assert find_pool_price(made, location, chips=15) == (
        None if dollars is None else pytest.approx(dollars, abs=0.001)
    )


def test_lists_of_any_kind_are_planned_item_by_item(tmp_path: Path) -> None:
    body = yaml.safe_load(JOBSET)
    untyped = {key: body[key] for key in ("metadata", "spec")}
    typed = {"kind": "JobSetList", "apiVersion": body["apiVersion"], "items": [untyped]}
    other = body | {"metadata": {"name": "other"}}
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": [typed, other]})

    assert sum(each["pools"] for each in planned(text, tmp_path)) == 6
    assert sum(each["pools"] for each in planned(f"{json.dumps(body)}\n{json.dumps(other)}", tmp_path)) == 6


def count_calls(slices: int, tmp_path: Path) -> int:
    """Return how many Python functions a plan of so many slices calls."""
    text = JOBSET.replace("replicas: 3", f"replicas: {slices}")
    found = read_manifests([write(tmp_path / f"{slices}.yaml", text)])
    gc.disable()  # else it may call what other tests have left to be finalized
    try:
        with cProfile.Profile() as profile:
            made = plan(found, CLUSTER, settings(limit_chips=1_000_000), Facts({}, None))
    finally:
        gc.enable()
    assert [each.pools for each in made] == [slices]
    return sum(each.callcount for each in profile.getstats())


def test_a_plan_is_linear_in_its_slices(tmp_path: Path) -> None:
    count_calls(10, tmp_path)  # what is kept for the next plan
    few, many = count_calls(100, tmp_path), count_calls(1000, tmp_path)

    assert few > 100
    assert many < 10.5 * few


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
