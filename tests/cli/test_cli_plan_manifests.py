"""`plan` reads what kubectl reads, opens what makes workloads, and says what it cannot plan."""

import cProfile
import gc
import json
from pathlib import Path

import pytest
import yaml

from cli.planning.manifests import read_manifests
from cli.planning.plan import plan
from tests.builders import CLUSTER, settings
from tests.cli.cli_world import read_json, run, write
from tests.cli.test_cli_plan import JOBSET, planned

BOMB = "a: &l0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]\n" for level in range(1, 12)
)
"""A kilobyte that repeats itself to ten to the twelfth values."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("", "contains no workload (found: nothing)"),
        ("- 1", "document 1 (line 1): the document: is not valid (got '[1]'); valid: a Kubernetes object"),
        (BOMB, "is not YAML: its aliases repeat more than 200000 values"),
        ("a: &a [*a]", "is not YAML: "),
        ("a: .inf", "is not YAML: it has an infinite number"),
        ("[" * 3000, "is not YAML: "),
        ("a: " + "9" * 5000, "is not YAML: "),
        (JOBSET.replace("name: train,", ""), "metadata.name: is missing"),
        (
            JOBSET.replace("replicas: 3", "replicas: three"),
            "replicas: is not valid (got 'three'); valid: a whole number",
        ),
        (JOBSET.replace("v1alpha2", "v2"), "apiVersion: is not valid (got 'jobset.x-k8s.io/v2'); valid: jobset."),
        (
            JOBSET.replace("replicas: 3", "replicas: -3"),
            "spec.replicatedJobs[0].replicas: is not valid (got '-3')",
        ),
        (JOBSET.replace("tpu: 4", "tpu: -4"), "limits.google.com/tpu: is not valid (got '-4'); valid: 0 or more"),
        (
            JOBSET.replace("gke-tpu-topology: 4x4", "gke-tpu-topology: 4"),
            "nodeSelector.cloud.google.com/gke-tpu-topology: 4 is a number in YAML; write it in quotes",
        ),
        (JOBSET.replace("name: train", "name: '${NAME}'"), "valid: a manifest whose variables are replaced"),
        ("a: {{ .Values.name }}", "it is a template: valid: the output of `helm template`"),
        ("kind: List\napiVersion: v1\nitems: x", "items: is not valid (got 'x'); valid: a list of objects"),
    ],
)
def test_what_cannot_be_read_is_named_and_ends_with_2(text: str, message: str, tmp_path: Path) -> None:
    result = run("plan", write(tmp_path / "bad.yaml", text))

    assert result.exit_code == 2
    assert "bad.yaml" in result.stderr
    assert message in result.stderr


@pytest.mark.parametrize(
    "bad",
    [
        "a: [",
        "kind: JobSet\napiVersion: jobset.x-k8s.io/v2\nmetadata: {name: x}",
        JOBSET.replace("replicas: 3", "replicas: -3"),
        JOBSET.replace("4x4", "4"),
        BOMB,
        "- 1",
    ],
    ids=["not-yaml", "version", "negative", "number-as-text", "bomb", "no-object"],
)
def test_what_is_wrong_in_one_document_stops_no_other(bad: str, tmp_path: Path) -> None:
    path = write(tmp_path / "many.yaml", f"{bad}\n---\n{JOBSET}\n---\n{bad}")

    result = run("plan", path)

    assert result.exit_code == 2
    assert "3 pools with 12 nodes and 48 chips" in result.stdout
    assert result.stderr.count("error: ") == 2
    assert f"{path}, document 1 (line " in result.stderr


def test_the_output_of_helm_is_planned_whole(tmp_path: Path) -> None:
    limits = "resources: {limits: {nvidia.com/gpu: 1}}"
    empty = "template: {metadata: null, spec: {nodeSelector: null, containers: [{name: c, resources: null}]}}"
    others = [
        "kind: Service\napiVersion: v1\nmetadata: {name: s}",
        f"kind: Deployment\napiVersion: apps/v1\nmetadata: {{name: web}}\nspec: {{replicas: 2, {empty}}}",
        "kind: LeaderWorkerSet\napiVersion: leaderworkerset.x-k8s.io/v1\nmetadata: {name: l}\nspec: {replicas: 1}",
        "# only a comment",
        f"kind: DaemonSet\napiVersion: apps/v1\nmetadata: {{name: plugin}}\nspec: {{template: {{{limits}}}}}",
        "kind: Job\napiVersion: batch.volcano.sh/v1alpha1\nmetadata: {name: v}",
        "a: 1",
    ]
    text = "---\n# Source: chart/templates/x.yaml\n".join(["", *(f"{each}\n" for each in others * 6), JOBSET])

    result = run("plan", write(tmp_path / "helm.yaml", text))

    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("3 pools with 12 nodes and 48 chips\n")
    for message in (
        "Deployment web (needs no accelerators)",
        "LeaderWorkerSet l (needs no accelerators)",
        "DaemonSet plugin (asks for accelerators (nvidia.com/gpu: 1), but no pools are made for this kind)",
        "Job v (its apiVersion is batch.volcano.sh/v1alpha1)",
        "(no Kubernetes object: it has neither kind nor apiVersion)",
    ):
        assert message in result.stdout


def test_what_libyaml_reads_and_null_fields_are_planned(tmp_path: Path) -> None:
    tabs = JOBSET.replace("suspend: false", "suspend: false\t").replace("replicas: 3", "replicas: 3 \t# three")
    nulls = tabs.replace("          template:\n", "          template:\n            metadata: null\n", 1)

    for text in (tabs, nulls):
        assert [each["pools"] for each in planned(text, tmp_path)] == [3]


@pytest.mark.parametrize("selector", ["{}", "{cloud.google.com/gke-accelerator: nvidia-l4}"])
def test_devices_that_are_only_claimed_get_no_pools_and_the_author_is_told(selector: str, tmp_path: Path) -> None:
    pods = f"spec: {{nodeSelector: {selector}, resourceClaims: [{{name: gpus}}], containers: [{{name: c}}]}}"
    text = f"kind: Deployment\napiVersion: apps/v1\nmetadata: {{name: web}}\nspec: {{template: {{{pods}}}}}"

    result = run("plan", write(tmp_path / "claims.yaml", text))

    assert result.exit_code == 0
    assert "; what it asks for by resourceClaims gets no pools" in result.stdout
    assert ("needs no accelerators" in result.stdout) == (selector == "{}")
    assert "request google.com/tpu or nvidia.com/gpu" in result.stdout


def test_lists_of_any_kind_are_planned_item_by_item(tmp_path: Path) -> None:
    body = yaml.safe_load(JOBSET)
    untyped = {key: body[key] for key in ("metadata", "spec")}
    typed = {"kind": "JobSetList", "apiVersion": body["apiVersion"], "items": [untyped]}
    other = body | {"metadata": {"name": "other"}}
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": [typed, other]})

    assert sum(each["pools"] for each in planned(text, tmp_path)) == 6
    assert sum(each["pools"] for each in planned(f"{json.dumps(body)}\n{json.dumps(other)}", tmp_path)) == 6


def test_a_pattern_and_folders_in_folders_are_read(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path in (tmp_path / "a" / "one.yaml", tmp_path / "a" / "b" / "two.yaml"):
        write(path, JOBSET.replace("train", path.stem))

    assert "3 pools" in run("plan", str(tmp_path / "a")).stdout
    assert "6 pools" in run("plan", str(tmp_path / "a"), "-R").stdout
    assert "6 pools" in run("plan", str(tmp_path / "**" / "*.yaml")).stdout
    assert "no file fits this pattern" in run("plan", str(tmp_path / "*.json")).stderr


RAY_GROUPS = """
{workerGroupSpecs: [{groupName: tpu, replicas: 2, numOfHosts: 4, template: {spec: {
  nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice, cloud.google.com/gke-tpu-topology: 4x4},
  containers: [{name: c, resources: {limits: {google.com/tpu: 4}}}]}}}]}
"""
PATHWAYS = """
apiVersion: pathways-job.pathways.domain/v1
kind: PathwaysJob
metadata: {name: trial}
spec:
  workers: [{type: ct5p-hightpu-4t, topology: 2x2x2, numSlices: 2, nodeSelector: {example.com/team: a}}]
  controller: {deploymentMode: default, template: {spec: {containers: [{name: main}]}}}
"""


@pytest.mark.parametrize(
    ("head", "spec", "kind", "name"),
    [
        ("{kind: RayJob, apiVersion: ray.io/v1", f"rayClusterSpec: {RAY_GROUPS}", "RayJob", "x-xxxxx"),
        ("{kind: RayService, apiVersion: ray.io/v1", f"rayClusterConfig: {RAY_GROUPS}", "RayService", "x-xxxxx"),
        ("{kind: RayCluster, apiVersion: ray.io/v1alpha1", RAY_GROUPS.strip()[1:-1], "", "x"),
    ],
)
def test_the_cluster_that_a_ray_object_makes_is_planned(
    head: str, spec: str, kind: str, name: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "ray.yaml", f"{head}, metadata: {{name: x}}, spec: {{{spec}}}}}")

    found = read_json("plan", path)["needs"]

    assert [(each["workload"], each["kind"], each["node_count"]) for each in found] == [(name, "RayCluster", 8)]
    assert all((f"made by {kind} x" in each["notes"]) == bool(kind) for each in found)


def test_a_rayjob_on_a_cluster_that_exists_makes_none(tmp_path: Path) -> None:
    spec = "{clusterSelector: {ray.io/cluster: mine}}"
    text = f"{{kind: RayJob, apiVersion: ray.io/v1, metadata: {{name: x}}, spec: {spec}}}"

    result = run("plan", write(tmp_path / "ray.yaml", text))

    assert result.exit_code == 0
    assert "RayJob x (it makes no RayCluster, because spec.clusterSelector names one (ray.io/cluster=mine))" in (
        result.stdout
    )


@pytest.mark.parametrize("mode", ["default", "colocate_head_with_workers"])
def test_the_jobset_of_a_pathwaysjob_is_planned(mode: str, tmp_path: Path) -> None:
    # With a priority of their own, JobSet lets the workers share the nodes of the head.
    text = PATHWAYS.replace("default", mode).replace("numSlices: 2", "numSlices: 2, priorityClassName: high")
    # Nothing adds the toleration to a head that requests no chips.
    text = text.replace("containers:", "tolerations: [{key: google.com/tpu, operator: Exists}], containers:")

    slices = planned(text, tmp_path)

    assert [(each["pools"], each["machine_type"], each["topology"], each["node_count"]) for each in slices] == [
        (2, "ct5p-hightpu-4t", "2x2x2", 4)
    ]
    assert {each["node_pool"]["config"]["labels"]["example.com/team"] for each in slices} == {"a"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "ct5p-hightpu-4t",
            "ct9-hightpu-4t",
            "spec.workers[0].type: is not valid (got 'ct9-hightpu-4t'); valid: ",
        ),
        ("2x2x2", "many", "spec.workers[0].topology: is not valid (got 'many'); valid: a topology like 4x4"),
        ("workers: [{", "workers: [{}, {", "spec.workers: is not valid (got '2'); valid: exactly one entry"),
    ],
)
def test_a_pathwaysjob_that_its_controller_refuses_is_said(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    result = run("plan", write(tmp_path / "p.yaml", PATHWAYS.replace(old, new)))

    assert result.exit_code == 2
    assert message in result.stderr


def test_the_job_of_a_cronjob_is_planned(tmp_path: Path) -> None:
    job = yaml.safe_load(JOBSET)["spec"]["replicatedJobs"][0]["template"]["spec"] | {"completionMode": "Indexed"}
    body = {"kind": "CronJob", "apiVersion": "batch/v1", "metadata": {"name": "nightly"}}
    (only,) = planned(json.dumps(body | {"spec": {"suspend": True, "jobTemplate": {"spec": job}}}), tmp_path)

    assert (only["workload"], only["kind"], only["node_count"]) == ("nightly-xxxxx", "Job", 4)
    assert "made by CronJob nightly" in only["notes"]


def test_a_near_miss_is_named_though_nothing_asks_for_accelerators(tmp_path: Path) -> None:
    selector = "{cloud.google.com/gke-tpu-topolgy: 2x2}"
    text = f"{{kind: Pod, apiVersion: v1, metadata: {{name: p}}, spec: {{nodeSelector: {selector}}}}}"

    output = run("plan", write(tmp_path / "p.yaml", text)).stdout

    assert (
        "no node has the label cloud.google.com/gke-tpu-topolgy that it selects: is it cloud.google.com/gke-tpu-"
        in output
    )


def test_a_queue_of_kueue_is_said(tmp_path: Path) -> None:
    text = JOBSET.replace("annotations: {}", "labels: {kueue.x-k8s.io/queue-name: tpus}")
    plain = text.replace("  suspend: false\n", "")

    assert (
        "lets Kueue hold it until the queue tpus admits it"
        in run("plan", write(tmp_path / "j.yaml", plain)).stdout
    )


def test_an_annotation_for_a_provisioning_request_of_kueue_is_said(tmp_path: Path) -> None:
    key = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"
    text = JOBSET.replace("annotations: {}", f"annotations: {{{key}: '600'}}")

    output = run("plan", write(tmp_path / "j.yaml", text.replace("suspend: false", "suspend: true"))).stdout

    assert f"its annotation {key} is for a ProvisioningRequest of Kueue; if its queue makes one, GKE" in output


def test_of_a_key_that_is_there_twice_the_last_one_counts_as_for_kubectl(tmp_path: Path) -> None:
    text = JOBSET.replace("replicas: 3", "replicas: 2\n      replicas: 1")
    result = run("plan", write(tmp_path / "j.yaml", f"{text}\n---\n{JOBSET.replace('train', 'other')}"))

    assert result.exit_code == 0
    assert "4 pools" in result.stdout


RAYJOB = "{kind: RayJob, apiVersion: ray.io/v1, metadata: {name: train}, spec: {rayClusterSpec: %s}}"
NO_TPUS = JOBSET.replace("limits: {google.com/tpu: 4}", "").replace("cloud.google.com/gke-tpu-", "example.com/")


@pytest.mark.parametrize(
    ("first", "last", "pools"),
    [
        (JOBSET, JOBSET.replace("replicas: 3", "replicas: 1"), 1),
        (JOBSET.replace("replicas: 3", "replicas: 3\n      replicas: 2"), JOBSET, 3),
        (JOBSET, NO_TPUS, 0),
        (JOBSET, JOBSET.replace("team-a", "team-b"), 6),
        (JOBSET.replace("name: train", "generateName: train-"),) * 2 + (6,),
        (RAYJOB % RAY_GROUPS,) * 2 + (2,),
        (RAYJOB % RAY_GROUPS, JOBSET, 5),
    ],
)
def test_of_an_object_that_is_there_twice_the_last_one_counts(
    first: str, last: str, pools: int, tmp_path: Path
) -> None:
    path = write(tmp_path / "j.yaml", f"{first}\n---\n{last}")

    found = read_json("plan", path)

    assert sum(each["pools"] for each in found["needs"]) == pools
    line = 1 + first.startswith("\n")
    replaced = f"train ({path}, document 1 (line {line}): a later one replaces it)"
    assert any(replaced in each for each in found["not_planned"]) == (pools < 5)


def count_calls(slices: int, tmp_path: Path) -> int:
    """Return how many Python functions a plan of so many slices calls."""
    text = JOBSET.replace("replicas: 3", f"replicas: {slices}")
    found = read_manifests([write(tmp_path / f"{slices}.yaml", text)])
    gc.disable()  # else it may call what other tests have left to be finalized
    try:
        with cProfile.Profile() as profile:
            made = plan(found.workloads, CLUSTER, settings(limit_chips=1_000_000))
    finally:
        gc.enable()
    assert [each.pools for each in made] == [slices]
    return sum(each.callcount for each in profile.getstats())


def test_a_plan_is_linear_in_its_slices(tmp_path: Path) -> None:
    count_calls(10, tmp_path)  # what is kept for the next plan
    few, many = count_calls(100, tmp_path), count_calls(1000, tmp_path)

    assert few > 100
    assert many < 10.5 * few
