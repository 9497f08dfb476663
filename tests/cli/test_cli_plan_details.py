"""What `plan` says besides the pools: prices, needs, growth, what runs, and notes for GitHub."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.prices import CHIP_HOURS, find_pool_price, find_price, find_tier
from shared.model import labels
from shared.model.errors import Denied
from shared.model.workloads import Disk
from shared.shapes.catalogue import TPUS
from tests.builders import CLUSTER, a_claim, a_pool
from tests.cli.cli_world import read_json, run, write
from tests.cli.test_cli_plan import JOBSET, planned
from tests.demands import a_demand
from tests.engine.world import World

SETTINGS = {
    "TPU_PROVISIONER_CLUSTERS": json.dumps({CLUSTER: {"endpoint": "http://127.0.0.1:9", "zone": "us-east5-b"}})
}
RAY = """
{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: ray}, spec: {workerGroupSpecs: [
  {groupName: tpu, replicas: 2, maxReplicas: 7, numOfHosts: 4, template: {spec: {
  nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice, cloud.google.com/gke-tpu-topology: 4x4},
  containers: [{name: c, resources: {limits: {google.com/tpu: 4}}}]}}}]}}
"""


def test_a_price_is_that_of_all_chips_of_the_pool_in_its_region_and_tier(tmp_path: Path) -> None:
    def price(text: str, zone: str) -> list[float | None]:
        first = planned(text.replace("replicas: 3", "replicas: 1"), tmp_path, "--zone", zone)[0]
        return [first["dollars_per_hour"], first["dollars_per_month"]]

    spot = JOBSET.replace("nodeSelector:", "nodeSelector:\n                cloud.google.com/gke-spot: 'true'")
    assert price(JOBSET, "us-east5-b") == [43.2, 31_536.0]
    assert price(JOBSET, "europe-west4-a") == [47.52, 34_689.6]
    assert price(spot, "us-east5-b") == [19.44, 14_191.2]
    assert price(JOBSET, "africa-south1-a") == [None, None]
    assert price(JOBSET, "southamerica-west1-a") == [43.2, 31_536.0]
    assert price(spot, "southamerica-west1-a") == [None, None]
    v4 = JOBSET.replace("tpu-v6e-slice", "tpu-v4-podslice").replace("4x4", "2x2x4")
    assert price(v4, "us-central2-b") == [51.52, 37_609.6]


@pytest.mark.parametrize(
    ("zone", "listed"),
    [
        ("us-east5-b", ""),
        ("us-east5-x", "us-east5-x, but in us-east5-a, us-east5-b, us-east5-c"),
        ("africa-south1-a", "africa-south1-a, but in other regions only"),
    ],
)
def test_a_zone_that_is_not_listed_for_the_machines_is_a_warning_and_no_refusal(
    tmp_path: Path, zone: str, listed: str
) -> None:
    (first, *_) = planned(JOBSET, tmp_path, "--zone", zone)
    warning = f"warning: on 2026-11-23 no v6e was listed in {listed}; GKE may refuse the pool"

    assert first["decision"] == "create"
    assert [each for each in first["notes"] if "listed" in each] == ([warning] if listed else [])


def test_prices_can_be_left_out_and_unknown_ones_are_said(tmp_path: Path) -> None:
    path = write(tmp_path / "j.yaml", JOBSET)

    assert "price" not in run("plan", path, "--zone", "us-east5-b", "--no-price").stdout
    unknown = run("plan", path, "--zone", "africa-south1-a").stdout
    assert "price of each unknown" in unknown
    assert "list price: unknown" in unknown
    assert read_json("plan", path, "--no-price")["needs"][0]["dollars_per_hour"] is None


def test_each_price_is_of_a_known_accelerator_and_spot_is_cheaper() -> None:
    assert find_price(a_demand(), chips=16) == pytest.approx(43.2)
    for accelerator, regions in CHIP_HOURS.items():
        assert accelerator in TPUS
        for region, (on_demand, spot) in regions.items():
            assert region.count("-") == 1
            assert spot is None or 0 < spot < on_demand


@pytest.mark.parametrize(
    ("pool", "location", "tier", "dollars"),
    [
        ({}, "us-east5", "on-demand", 16 * 2.70),
        ({"spot": True}, "us-east5-b", "spot", 16 * 1.215),
        ({"reservation": "r"}, "us-east5", "reservation", None),
        ({"flex_start": True}, "us-east5", "flex-start", None),
        ({}, "africa-south1", "on-demand", None),
        ({"spot": True}, "southamerica-west1", "spot", None),
        ({"machine_type": "ct6e-standard-8t"}, "us-east5", "on-demand", 16 * 2.70),
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
    assert find_pool_price(made, location, chips=16) == (
        None if dollars is None else pytest.approx(dollars, abs=0.01)
    )


def test_replicas_that_only_a_webhook_keeps_apart_say_so_with_the_functions_own_words(tmp_path: Path) -> None:
    path = write(tmp_path / "ray.yaml", RAY)
    text = run("plan", path).stdout

    assert (
        "default/ray: needs a way to keep its slices apart, else its pods are refused [slices_may_mix]: install "
        in text
    )
    alone = run(
        "plan",
        write(tmp_path / "one.yaml", RAY.replace("replicas: 2, maxReplicas: 7", "replicas: 1, maxReplicas: 1")),
    )
    assert "slices_may_mix" not in alone.stdout


@pytest.mark.parametrize(
    ("old", "new", "now", "later"),
    [
        ("spec: {workerGroupSpecs", "spec: {enableInTreeAutoscaling: true, workerGroupSpecs", 2, 5),
        ("replicas: 2", "replicas: 2", 2, 0),
        ("replicas: 2, maxReplicas: 7", "replicas: 0", 0, 0),
    ],
)
def test_a_group_that_may_grow_is_planned_as_up_to(
    old: str, new: str, now: int, later: int, tmp_path: Path
) -> None:
    path = write(tmp_path / "ray.yaml", RAY.replace(old, new))

    data = read_json("plan", path)

    assert [(each["pools"], each["up_to_more"]) for each in data["needs"]] == [(now, later)] * bool(now)
    assert (f"{now} (up to {later} more)   8 " in run("plan", path).stdout) == bool(later)


def test_what_a_workload_names_and_the_files_do_not_have_is_listed(tmp_path: Path) -> None:
    text = JOBSET.replace(
        "containers: [{name: main, ", "serviceAccountName: trainer\n              containers: [{name: main, "
    )
    text = text.replace("annotations: {}", "labels: {kueue.x-k8s.io/queue-name: tpus}")
    account = "kind: ServiceAccount\napiVersion: v1\nmetadata: {name: trainer, namespace: team-a}\n"

    alone = run("plan", write(tmp_path / "j.yaml", text)).stdout
    both = run("plan", write(tmp_path / "k.yaml", f"{account}---\n{text}")).stdout

    assert "team-a/train: needs the ServiceAccount trainer of namespace team-a" in alone
    assert "team-a/train: needs the LocalQueue tpus of namespace team-a" in alone
    assert "needs the ServiceAccount" not in both


def test_disk_taints_and_labels_are_those_that_would_be_sent(tmp_path: Path) -> None:
    text = JOBSET.replace("nodeSelector:", "nodeSelector:\n                example.com/team: a")
    environ = {"TPU_PROVISIONER_NODE_DISK_SIZE_GB": "200"}
    data = read_json("plan", write(tmp_path / "j.yaml", text), environ=environ)

    first = data["needs"][0]
    assert first["disk"] == "200 GB of the default type"
    assert first["taints"] == ["google.com/tpu=present:NoSchedule"]
    assert first["labels"] == {"example.com/team": "a"}


def test_a_namespace_that_opts_out_is_seen_when_the_cluster_is_asked(world: World, tmp_path: Path) -> None:
    path = write(tmp_path / "j.yaml", JOBSET)
    world.cluster.labels["team-a"] = {labels.DISABLE_AUTOPROVISIONING: "true"}

    asked = run("plan", path, "--cluster", CLUSTER, environ=SETTINGS).stdout
    assumed = run("plan", path, environ=SETTINGS).stdout

    assert "[demand_opted_out]" in asked
    assert "assumed" not in asked
    assert "3 pools with" in assumed
    assert (
        "assumed: no label of a namespace opts out of pools (no cluster was asked; --cluster asks it)" in assumed
    )


@pytest.fixture
def running(world: World) -> World:
    """Two slices run of a JobSet that a manifest describes."""
    world.wait(0, 1)
    world.provision()
    for number, name in enumerate(list(world.gke.pools)):
        world.run(number, name)
    return world


def difference(tmp_path: Path, text: str) -> list[str]:
    """What is added, kept and taken away, by the first word of each line."""
    result = run("plan", write(tmp_path / "j.yaml", text), "--diff", "--json", environ=SETTINGS)
    return [" ".join(line.split()[: 3 if line[0] == "+" else 1]) for line in json.loads(result.stdout)["diff"]]


def test_the_difference_to_what_runs_is_shown(running: World, tmp_path: Path) -> None:
    assert len(running.gke.pools) == 2
    text = JOBSET.replace("namespace: team-a", "namespace: default")

    assert difference(tmp_path, text) == ["=", "=", "+ default/train: 1"]
    assert difference(tmp_path, text.replace("replicas: 3", "replicas: 1")) == ["=", "-"]
    other = text.replace("4x4", "2x4").replace("parallelism: 4", "parallelism: 2")
    assert difference(tmp_path, other.replace("completions: 4", "completions: 2")) == [
        "+ default/train: 3",
        "-",
        "-",
    ]


def a_rayjob() -> str:
    spec = RAY.replace("kind: RayCluster", "kind: RayJob").replace("spec: {", "spec: {rayClusterSpec: {", 1)
    return f"{spec.strip()[:-1]}}}}}"


def test_a_made_workload_is_compared_with_each_that_may_be_of_the_manifest(world: World, tmp_path: Path) -> None:
    assert difference(tmp_path, a_rayjob()) == ["+ default/ray-xxxxx: 2"], "none of it runs"
    for name in ("ray-b2c4d", "ray-x9zzz", "ray-small", "ray-head-of-b2c4d"):
        pool = a_pool(claim=a_claim(kind="RayCluster", name=name), name=f"pool-of-{name}")
        world.gke.pools[pool.name] = pool

    assert difference(tmp_path, a_rayjob()) == ["=", "+ default/ray-b2c4d: 1", "=", "+ default/ray-x9zzz: 1"]


SERVING = """
{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: serve}, spec: {replicas: 1,
  leaderWorkerTemplate: {size: 3, leaderTemplate: {spec: {
    nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4},
    containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}, workerTemplate: {spec: {
    nodeSelector: {cloud.google.com/gke-accelerator: nvidia-tesla-t4},
    containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}
"""


@pytest.mark.parametrize(
    ("text", "limit", "message"),
    [
        (JOBSET, "40", "a limit allows only 2 of its 3 pools"),
        (RAY, "16", "a limit allows only 1 of its 2 pools"),
        (SERVING, "3", ""),
        (SERVING, "0", ""),
    ],
)
def test_a_limit_that_cuts_a_workload_is_said(text: str, limit: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "w.yaml", text)

    slices = read_json("plan", path, environ={"TPU_PROVISIONER_LIMIT_CHIPS": limit})["needs"]

    notes = [note for each in slices for note in each["notes"] if "a limit allows" in note]
    assert notes == ([message] if message else [])


CLAIMING = JOBSET.replace(
    "containers: [{name: main,",
    "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n              containers: [{name: main,",
    1,
)
NO_DISK = "assumed: no disk binds pods to a zone"


def test_the_disks_of_claims_are_seen_when_the_cluster_is_asked(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "j.yaml", CLAIMING)
    monkeypatch.setattr(
        world.cluster, "find_disk", lambda *_claim: Disk(claim="data", zones=("us-east5-a",)), raising=False
    )

    asked = read_json("plan", path, "--cluster", CLUSTER, environ=SETTINGS)
    blind = read_json("plan", path, "--zone", "us-east5-b")
    pinned = CLAIMING.replace("nodeSelector:", f"nodeSelector:\n                {labels.ZONE}: us-east5-c")
    refused = run("plan", write(tmp_path / "p.yaml", pinned), "--cluster", CLUSTER, environ=SETTINGS)

    assert ({each["zone"] for each in asked["needs"]}, asked["assumed"]) == ({"us-east5-a"}, [])
    assert {each["zone"] for each in blind["needs"]} == {"us-east5-b"}
    assert f"{NO_DISK} (no cluster was asked; --cluster asks it)" in blind["assumed"]
    assert refused.exit_code == 1
    assert "the disk of claim data is in us-east5-a" in " ".join(refused.stdout.split())


def test_disks_that_an_operator_may_not_read_are_assumed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_claim: str) -> None:
        raise Denied("persistentvolumeclaims is forbidden")

    monkeypatch.setattr(world.cluster, "find_disk", refuse, raising=False)
    path = write(tmp_path / "j.yaml", CLAIMING)

    asked = read_json("plan", path, "--cluster", CLUSTER, environ=SETTINGS)
    plain = write(tmp_path / "plain.yaml", JOBSET)
    without = read_json("plan", plain, "--zone", "us-east5-b")

    assert asked["assumed"] == [f"{NO_DISK} (persistentvolumeclaims is forbidden)"]
    assert {each["zone"] for each in asked["needs"]} == {"us-east5-b"}
    assert not any(NO_DISK in each for each in without["assumed"])
