"""`plan` says of the inputs what `rows.yaml` has, of whatever kind the mistake is written in.

Beside it, the demo refuses wrong lists, and the zones of TPUs have the machine of the CPU pool.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from cli.planning.plan import ZONES
from demo.manifests import BadManifest, load
from shared.shapes.catalogue import TPUS
from tests.cli.cli_world import read_json, run
from tests.corpus.corpus_rows import Row, read_field, write_outcomes
from tests.field.field_world import INPUTS
from tests.infra.terraform_text import TERRAFORM, read_configuration

ROWS = read_field()
ELSEWHERE = {"cpu-machine-of-zones.yaml", "cpu-pod-without-node.yaml", "no-service-account.yaml"}
"""What the test of zones and the demo's tests ask for."""
LISTED = yaml.safe_load((INPUTS / "cpu-machine-of-zones.yaml").read_text())


def list_words(words: str | list[str]) -> list[str]:
    return [words] if isinstance(words, str) else words


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
def test_a_file_gets_its_pools_and_its_words(row: Row) -> None:
    printed = run("plan", str(INPUTS / row.path))
    result = run("plan", str(INPUTS / row.path), "-o", "json")
    needs = json.loads(result.stdout)["needs"]
    said: dict[str, str] = {}
    for need in needs:
        said[need["workload"]] = said.get(need["workload"], "") + json.dumps(need)

    assert write_outcomes(needs) == row.gets
    assert (printed.exit_code, result.exit_code) == (row.code, row.code)
    for workload, words in row.says.items():
        assert [each for each in list_words(words) if each not in said[workload]] == [], said[workload]
    screen = " ".join(printed.stdout.split())
    assert [words for words in row.prints if words not in screen] == [], screen
    assert [words for words in row.unreadable if words not in result.stderr] == [], result.stderr
    assert result.stderr.count("error: ") == len(row.unreadable)


def test_only_slices_that_may_mix_are_warned_about_and_nothing_left_to_gke_is_promised() -> None:
    needs = read_json("plan", str(INPUTS / "mixing-slices.yaml"))["needs"]
    warned = {need["workload"] for need in needs if "slices_may_mix" in json.dumps(need["notes"])}

    assert warned == {"four-slices", "two-parts", "two-replicas"}
    assert "pools are created" not in run("plan", str(INPUTS / "queued-provisioning.yaml")).stdout


def test_no_input_is_without_an_answer() -> None:
    assert {path.name for path in INPUTS.iterdir()} - {row.path for row in ROWS} == ELSEWHERE


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
