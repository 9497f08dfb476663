"""`plan` says of the inputs what `rows.yaml` has, of whatever kind the mistake is written in."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cli.cli_world import read_json, run, write
from tests.corpus.corpus_rows import Row, read_field, write_outcomes
from tests.field.field_world import INPUTS

if TYPE_CHECKING:
    from pathlib import Path

ROWS = read_field()
Json = dict[str, Any]


def list_words(words: str | list[str]) -> list[str]:
    return [words] if isinstance(words, str) else words


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
def test_a_file_gets_its_pools_and_its_words(row: Row) -> None:
    printed = run("plan", str(INPUTS / row.path), environ=row.environ)
    result = run("plan", str(INPUTS / row.path), "-o", "json", environ=row.environ)
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


KINDS: dict[str, tuple[str, Callable[[Json], Json]]] = {
    "Pod": ("v1", lambda template: dict(template["spec"])),
    "Deployment": ("apps/v1", lambda template: {"replicas": 1, "template": template}),
    "StatefulSet": ("apps/v1", lambda template: {"replicas": 2, "template": template}),
    "Job": ("batch/v1", lambda template: {"completionMode": "Indexed", "template": template}),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        lambda template: {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": template}}}]},
    ),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        lambda template: {"leaderWorkerTemplate": {"size": 1, "workerTemplate": template}},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_the_same_of_a_mistake(kind: str, tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all((INPUTS / "mistaken-slices.yaml").read_text()))
    (mistakes,) = [row.says for row in ROWS if row.path == "mistaken-slices.yaml"]
    version, make = KINDS[kind]
    for job in documents:
        body: Json = {"apiVersion": version, "kind": kind, "metadata": job["metadata"]}
        body["spec"] = make(copy.deepcopy(job["spec"]["template"]))
        (need, *_) = read_json("plan", write(tmp_path / "one.yaml", yaml.safe_dump(body)))["needs"]

        assert mistakes[need["workload"]] in need["message"]
