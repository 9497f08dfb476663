"""`plan` says before anything is applied what the functions would decide after it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.planning.manifests import read_manifests
from cli.planning.plan import plan
from cli.planning.plan_table import print_plan
from cli.prices import READ_ON, SOURCE
from shared.model import labels
from tests.builders import CLUSTER, settings
from tests.cli.cli_world import list_printed, read_json, run, write

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
REFUSED = "unsatisfiable-three-chips.yaml"
MACHINES = EXAMPLES / "scarce" / "capacity.yaml"
"""No manifest: what the demo's GKE has."""
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: team-a, annotations: {}}
spec:
  suspend: false
  replicatedJobs:
    - name: workers
      replicas: 3
      template:
        spec:
          parallelism: 4
          completions: 4
          template:
            spec:
              nodeSelector:
                cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice
                cloud.google.com/gke-tpu-topology: 4x4
              containers: [{name: main, resources: {limits: {google.com/tpu: 4}}}]
    - name: driver
      template: {spec: {template: {spec: {containers: [{name: main}]}}}}
"""


def planned(text: str, tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    """What `plan --json` says of each need."""
    path = write(tmp_path / "jobset.yaml", text)
    found: list[dict[str, Any]] = read_json("plan", path, *options)["needs"]
    return found


def test_slices_of_one_shape_are_one_line_and_jobs_without_tpus_are_none(tmp_path: Path) -> None:
    exclusive = "{alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool}"
    text = JOBSET.replace("annotations: {}", f"annotations: {exclusive}")
    result = run("plan", write(tmp_path / "jobset.yaml", text), "--zone", "us-east5-b")

    assert result.exit_code == 0
    table, _, output = result.stdout.partition("\n\n")
    heads = "JOB POOLS NODES CHIPS MACHINE TOPOLOGY TIER ZONE DECISION"
    cells = "team-a/train 3 12 48 ct6e-standard-4t 4x4 on-demand us-east5-b create"
    taints = "taints google.com/tpu=present:NoSchedule; no labels of its own"
    price = "price of each $43.20/h $31,536/month"
    assert [line.split() for line in table.splitlines()] == [heads.split(), cells.split()]
    assert output.splitlines() == [
        f"team-a/train: disk 100 GB (GKE's default) of the default type; {taints}; {price}",
        "assumed: no label of a namespace opts out of pools (no cluster was asked; --cluster asks it)",
        f"list price: $129.60 an hour, $94,608 a month of 730 hours (prices of {READ_ON}, {SOURCE})",
        "3 pools with 12 nodes and 48 chips",
    ]


def test_a_refusal_says_what_would_be_valid_and_ends_with_1() -> None:
    result = run("plan", str(EXAMPLES / REFUSED))

    assert result.exit_code == 1
    assert "refuse: shape_unsupported" in result.stdout
    assert "(got '3'); valid: 1 (ct5lp-hightpu-1t), 4 (ct5lp-hightpu-4t)" in result.stdout
    assert result.stdout.endswith("0 pools with 0 nodes and 0 chips; 1 refused\n")


@pytest.mark.parametrize("options", [(), ("--zone", "us-east5-b")], ids=["any-zone", "us-east5-b"])
@pytest.mark.parametrize("path", sorted({*EXAMPLES.rglob("*.yaml")} - {MACHINES}), ids=lambda path: path.name)
def test_every_example_is_planned_as_its_name_says(path: Path, options: tuple[str, ...]) -> None:
    variables = {
        "TPU_PROVISIONER_ALLOWED_RESERVATIONS": "*,capacity-project/*",
        "TPU_PROVISIONER_IDLE_SECONDS_MAX": "20",
    }
    result = run("plan", str(path), *options, "--json", environ=variables)

    decisions = {each["decision"] for each in json.loads(result.stdout)["needs"]}
    assert decisions == ({"refuse"} if path.name == REFUSED else {"create"})
    assert result.exit_code == (1 if path.name == REFUSED else 0)


def test_the_candidates_of_a_list_are_shown_in_their_order() -> None:
    path, zone = str(EXAMPLES / "v6e-candidates.yaml"), ("--zone", "us-east5-b")
    (planned_slice,) = read_json("plan", path, *zone)["needs"]
    candidates = [
        "reservation train in us-east5-a",
        "spot in us-east5-a",
        "spot in us-east5-b",
        "on-demand in us-east5-b",
    ]

    assert planned_slice["candidates"] == candidates
    assert (planned_slice["tier"], planned_slice["zone"]) == ("reservation", "us-east5-a")
    shown = " ".join(run("plan", path, *zone).stdout.split())
    listed = "; ".join(f"{number} {each}" for number, each in enumerate(candidates, start=1))
    assert f"candidates, tried in this order: {listed}" in shown


def test_an_absurd_number_of_slices_is_refused_at_once(tmp_path: Path) -> None:
    slices = planned(JOBSET.replace("replicas: 3", "replicas: 2000000000"), tmp_path)

    assert [(each["decision"], each["reason"]) for each in slices] == [("refuse", "limit_reached")]
    assert "valid: at most 10000" in str(slices[0]["message"])


def test_the_examples_of_the_other_kinds_are_planned_in_one_command() -> None:
    result = run("plan", str(EXAMPLES / "kinds"), "--zone", "us-east5-b", "--json")

    slices = json.loads(result.stdout)["needs"]
    assert {each["decision"] for each in slices} == {"create"}
    assert Counter((each["kind"], each["pools"], each["node_count"], each["topology"]) for each in slices) == {
        ("Job", 1, 4, "4x4"): 1,
        ("LeaderWorkerSet", 2, 8, "4x4"): 1,
        ("RayCluster", 2, 8, "4x4"): 1,
        ("RayCluster", 1, 4, "4x4"): 1,
        ("RayCluster", 2, 2, "2x4"): 1,
        ("Deployment", 1, 3, "2x2"): 1,
        ("StatefulSet", 1, 2, "2x4"): 1,
        ("Pod", 1, 1, "2x2"): 1,
        ("Job", 1, 6, ""): 1,
        ("RayCluster", 1, 2, ""): 1,
    }


def test_the_pool_is_shown_as_it_would_be_sent(tmp_path: Path) -> None:
    (first, *_) = planned(JOBSET, tmp_path, "--zone", "us-east5-c")

    assert first["node_pool"]["locations"] == ["us-east5-c"]
    assert first["node_pool"]["initialNodeCount"] == 4
    assert first["node_pool"]["placementPolicy"] == {"type": "COMPACT", "tpuTopology": "4x4"}


def test_a_pinned_job_carries_the_selector_that_jobset_will_add(tmp_path: Path) -> None:
    marks = "{alpha.jobset.sigs.k8s.io/exclusive-topology: pool, alpha.jobset.sigs.k8s.io/node-selector: 'true'}"
    slices = planned(JOBSET.replace("annotations: {}", f"annotations: {marks}"), tmp_path)

    pinned = [each["node_pool"]["config"]["labels"]["alpha.jobset.sigs.k8s.io/namespaced-job"] for each in slices]
    assert pinned == ["team-a_train-workers-0", "team-a_train-workers-1", "team-a_train-workers-2"]


def test_a_suspended_jobset_is_planned_as_if_it_was_admitted(tmp_path: Path) -> None:
    result = run("plan", write(tmp_path / "j.yaml", JOBSET.replace("suspend: false", "suspend: true")))

    assert "3 pools with" in result.stdout
    assert "team-a/train: it starts suspended (a queue admits it)" in result.stdout


def test_limits_count_what_stands_before_in_the_plan(tmp_path: Path) -> None:
    path = write(tmp_path / "j.yaml", JOBSET)
    environ = {"TPU_PROVISIONER_LIMIT_CHIPS": "32"}

    result = run("plan", path, "--json", environ=environ)

    (train,) = json.loads(result.stdout)["needs"]
    assert (train["decision"], train["pools"], train["chips"]) == ("create", 2, 32)


def test_labels_over_budget_are_refused_before_they_are_applied(tmp_path: Path) -> None:
    selectors = "\n".join(f"                example.com/{'k' * 40}{n}: {'v' * 60}" for n in range(9))
    marker = "                cloud.google.com/gke-tpu-topology: 4x4"

    slices = planned(JOBSET.replace(marker, f"{marker}\n{selectors}"), tmp_path)

    assert {each["reason"] for each in slices} == {"labels_over_budget"}


def test_a_name_that_is_too_long_is_refused_for_its_own_reason(tmp_path: Path) -> None:
    slices = planned(JOBSET.replace("{name: train,", f"{{name: {'train' * 13},"), tmp_path)

    assert {each["reason"] for each in slices} == {"name_unfit"}
    assert all("a shorter name" in each["message"] for each in slices)


def a_term(key: str, value: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}}


ZONES = [
    ({"nodeSelector": {labels.ZONE: "europe-west4-a"}}, "", "europe-west4-a"),
    ({"nodeSelector": {labels.REGION: "europe-west4"}}, "", "europe-west4-any"),
    (a_term(labels.ZONE, "europe-west4-a"), "", "europe-west4-a"),
    (a_term(labels.REGION, "europe-west4"), "[{}]", "europe-west4-any"),
    ({}, "[{location: {zones: [europe-west4-a]}}, {}]", "europe-west4-a"),
    ({}, "[{reservations: {specific: [{name: r}]}}, {}]", "any-region1-any"),
    ({}, "", "any-region1-any"),
]


@pytest.mark.parametrize(("spec", "listed", "zone"), ZONES)
def test_a_cluster_that_nobody_named_is_where_each_workload_asks_to_be(
    spec: dict[str, Any], listed: str, zone: str, tmp_path: Path
) -> None:
    body = yaml.safe_load(JOBSET)
    template = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"] |= spec | {"nodeSelector": template["spec"]["nodeSelector"] | spec.get("nodeSelector", {})}
    template["metadata"] = {"annotations": {labels.CAPACITY: listed} if listed else {}}
    topology = "gke-tpu-topology: 4x4\n"
    zoned = JOBSET.replace(topology, f"{topology}                {labels.ZONE}: us-east5-a\n")

    slices = planned(f"{zoned.replace('train', 'other')}---\n{yaml.safe_dump(body)}", tmp_path)

    assert not any("GKE may refuse" in note for each in slices for note in each["notes"])
    found = {(each["workload"], each["decision"], each["zone"]) for each in slices}
    assert found == {("other", "create", "us-east5-a"), ("train", "create", zone)}


def test_standard_input_and_folders_are_read_and_other_kinds_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", JOBSET)
    write(tmp_path / "b.yaml", "kind: Service\napiVersion: v1\nmetadata: {name: s}\n")

    assert "not planned: Service s" in run("plan", str(tmp_path)).stdout
    assert run("plan", "-", given=JOBSET).stdout.endswith("3 pools with 12 nodes and 48 chips\n")


def test_a_wrong_setting_ends_with_2() -> None:
    result = run("plan", str(EXAMPLES), environ={"TPU_PROVISIONER_GRACE_SECONDS": "soon"})

    assert (result.exit_code, "TPU_PROVISIONER_GRACE_SECONDS" in result.stderr) == (2, True)


def test_a_wrong_zone_is_told_as_an_option_and_not_as_a_setting() -> None:
    result = run("plan", str(EXAMPLES), "--zone", "nope")

    assert result.stderr == "error: --zone: is not valid (got 'nope'); valid: a zone like us-east5-b\n"


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_the_plan_within_its_width(width: int) -> None:
    found = read_manifests([str(EXAMPLES)])
    planned = plan(found.workloads, CLUSTER, settings())

    lines = list_printed(lambda console: print_plan(console, planned, found), width=width, terminal=True)

    assert max(len(line) for line in lines) <= width
    created = sum(bool(each.creates) for each in planned)
    assert sum(line.split()[-1:] == ["create"] for line in lines) == created > 10
