"""A suspended workload that waits for its capacity has no pods, yet each command tells of it."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.errors import Denied, NotFound
from shared.core.identity.names import build_pool_name
from shared.core.times import format_minute, format_time, parse_time
from shared.core.workloads import Parent
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.edges.kubernetes_objects import Page
from tests.builders import CLUSTER, NOW, a_claim, a_jobset, a_pool
from tests.cli.cli_world import NOWHERE, a_deployment, put_in_place, read_json, run, write
from tests.cli.test_cli_plan import JOBSET
from tests.component.world import Records, World
from tests.contract.stand_ins import stand_in
from tests.unit.rayclusters import UID, a_raycluster

ASKS = {labels.CAPACITY_FIRST: "true"}
SECOND = a_claim(slice_key="default/train-workers-1")
BEGUN = {labels.CAPACITY_FIRST_ROUND: f"2 from {format_time(NOW - 600)}"}
PAUSED = {labels.CAPACITY_FIRST_ROUND: f"1 from {format_time(NOW + 300)}"}
ON = {"TPU_PROVISIONER_CAPACITY_FIRST": "true"}


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """A cluster with the JobSet, for the dates that `why` reads."""
    with stand_in(tmp_path_factory.mktemp("cluster"), "standins.cluster", "serve") as ports:
        api = KubernetesApi(Connection(url=ports["url"]))
        body = yaml.safe_load(suspended(ASKS))
        body["metadata"]["namespace"] = "default"
        api.create("/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets", body)
        yield api


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, kubernetes: KubernetesApi) -> World:
    """A suspended JobSet of two slices that asks, without pods, pools and Events."""
    world = World(Records())
    world.cluster.pods.clear()
    put(world)
    use(monkeypatch, world, kubernetes)
    return world


def use(monkeypatch: pytest.MonkeyPatch, world: World, kubernetes: KubernetesApi, **overrides: Any) -> None:
    """Let the commands open a deployment with these settings."""
    world.use(**{"capacity_first": True, **overrides})
    deployment = a_deployment(world)
    deployment.apis[CLUSTER] = kubernetes
    put_in_place(monkeypatch, deployment)


def put(world: World, marks: dict[str, str] | None = None, **overrides: Any) -> None:
    asked: dict[str, Any] = {
        "suspended": True,
        "suspended_since": NOW - 900,
        "marks": ASKS | (marks or {}),
        "version": "1",
    }
    world.cluster.add(a_jobset(**asked | overrides))


def a_half(world: World) -> str:
    """The first slice has its pool, the creation for the second failed; return its next try."""
    put(world, BEGUN)
    failed = a_pool("ERROR", claim=SECOND, error="[GCE_STOCKOUT]", age_seconds=50)
    world.pools.add(CLUSTER, a_pool(age_seconds=300), failed)
    return format_time(NOW - 50 + find_pause(SECOND.hash, 0))


def waiting() -> dict[str, Any]:
    """The only waiting row of `status`."""
    (row,) = read_json("status")["waiting"]
    found: dict[str, Any] = row
    return found


def why() -> tuple[int, str]:
    """The exit code of `why`, and its line about the present."""
    result = run("why", "train")
    (line,) = [each for each in result.stdout.splitlines() if each.startswith("now: suspended")]
    return result.exit_code, line


def test_status_shows_one_row_for_all_slices_and_changes_nothing(world: World) -> None:
    result = run("status")

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "WAITING SLICE   WORKLOAD        FOR   DECISION   REASON        ATTEMPT   FAILURE   NEXT TRY",
        "(all)           default/train   15m   create     pool_absent   -         -         -",
        "",
        "0 pools with 0 chips, 1 slice waiting",
    ]
    row = waiting()
    assert (row["slice"], row["pod"], row["round"], row["stuck"]) == ("", "", 1, False)
    assert row["message"].startswith("0 of 2 slices have their node pools; train-workers-")
    assert world.pools.names(CLUSTER) == []
    assert world.cluster.workloads["JobSet", "default", "train"].marks == ASKS
    assert world.cluster.notices == {}


def test_status_tells_the_slice_that_holds_up_the_others(world: World) -> None:
    next_try = a_half(world)

    row = waiting()

    told = {"round": 3, "attempt": 0, "failure": "stockout", "error": "[GCE_STOCKOUT]", "next_try": next_try}
    assert {key: row[key] for key in told} == told
    assert "1 of 2 slices have their node pools; train-workers-1: attempt 0 failed" in row["message"]
    pools = read_json("status")["pools"]
    assert [each["decision"] for each in pools] == ["keep", "keep"]


def test_status_tells_the_pause_with_the_next_round_and_what_becomes_of_the_pools(world: World) -> None:
    put(world, PAUSED)
    world.pools.add(CLUSTER, a_pool(age_seconds=300))

    row = waiting()

    assert (row["decision"], row["reason"], row["round"]) == ("wait", "gang_incomplete", 2)
    assert row["next_try"] == format_time(NOW + 300)
    assert row["message"].endswith(f"round 2 begins at {format_minute(NOW + 300)}")
    line = next(each for each in run("status").stdout.splitlines() if each.startswith("(all)"))
    assert line.endswith(f"gang_incomplete   -         -         {format_minute(NOW + 300)}")
    (pool,) = read_json("status")["pools"]
    assert pool["decision"] == "delete"
    assert world.pools.count("delete") == 0


REFUSED = [
    ({labels.CAPACITY_FIRST_SECONDS: "5"}, {}, "valid: 60 to 86400"),
    ({labels.QUEUE_NAME: "q"}, {}, "leaves it to a queue"),
    ({}, {"limit_chips": 16}, "the setting limit_chips is 16"),
]


@pytest.mark.parametrize(("marks", "overrides", "words"), REFUSED)
def test_what_is_refused_needs_a_person(
    world: World,
    kubernetes: KubernetesApi,
    monkeypatch: pytest.MonkeyPatch,
    marks: dict[str, str],
    overrides: dict[str, Any],
    words: str,
) -> None:
    put(world, marks)
    use(monkeypatch, world, kubernetes, **overrides)

    result = run("status")

    assert result.exit_code == 1
    assert words in result.stdout.splitlines()[-1]
    assert (waiting()["decision"], waiting()["stuck"]) == ("refuse", True)
    code, line = why()
    assert (code, words in line) == (1, True)


def test_without_the_setting_status_lists_no_workload(
    world: World, kubernetes: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, world, kubernetes, capacity_first=False)

    assert read_json("status")["waiting"] == []


@pytest.mark.usefixtures("world")
def test_why_says_what_a_workload_without_pods_waits_for() -> None:
    code, line = why()

    assert code == 0
    text = "now: suspended until all slices have their capacity (round 1): 0 of 2 slices have their node pools; "
    assert line.startswith(text)
    assert line.endswith(" [pool_absent]")
    (history,) = read_json("why", "train")
    assert (history["kind"], history["exists"], history["now"]["waiting"]) == ("JobSet", True, [waiting()])


def test_why_says_the_round_and_the_next_try(world: World) -> None:
    next_try = parse_time(a_half(world))

    code, line = why()

    assert code == 1  # a failed pool is for a person, as elsewhere
    assert line.startswith("now: suspended until all slices have their capacity (round 3): 1 of 2 slices have")
    assert next_try is not None
    assert line.endswith(f"next try at {format_minute(next_try)} [stockout]")


def test_why_says_in_the_pause_when_the_next_round_begins(world: World) -> None:
    put(world, PAUSED)

    code, line = why()

    assert code == 0
    assert line.startswith("now: suspended until all slices have their capacity (round 2): ")
    begins = format_minute(NOW + 300)
    assert line.endswith(f"all of them were deleted; round 2 begins at {begins} [gang_incomplete]")


def suspended(marks: dict[str, str], text: str = JOBSET) -> str:
    notes = json.dumps(marks)
    return text.replace("suspend: false", "suspend: true").replace("annotations: {}", f"annotations: {notes}")


def test_plan_notes_that_the_capacity_comes_first_and_within_which_time(tmp_path: Path) -> None:
    asks = suspended(ASKS | {labels.CAPACITY_FIRST_SECONDS: "3600"})

    result = run("plan", write(tmp_path / "j.yaml", asks), environ=ON)

    assert result.exit_code == 0
    assert "3 pools with" in result.stdout
    note = "it waits for its capacity: it is resumed when all of its node pools run"
    assert f"team-a/train: {note}, and all of them are deleted if that takes longer than 3600 s" in result.stdout
    assert "a queue admits it" not in result.stdout


FLEX = "nodeSelector:\n                cloud.google.com/gke-flex-start: 'true'"


@pytest.mark.parametrize(
    ("text", "environ", "words"),
    [
        (suspended({labels.CAPACITY_FIRST: "yes"}), ON, "valid: true, false"),
        (suspended(ASKS | {labels.CAPACITY_FIRST_SECONDS: "soon"}), ON, "valid: 60 to 86400"),
        (suspended(ASKS), {}, "the setting capacity_first is off"),
        (suspended(ASKS, JOBSET.replace("nodeSelector:", FLEX)), ON, "flex-start capacity, whose nodes only come"),
    ],
)
def test_plan_refuses_a_workload_that_cannot_wait_so(
    text: str, environ: dict[str, str], words: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "j.yaml", text)
    result = run("plan", path, environ=environ)

    assert result.exit_code == 1
    assert words in result.stdout
    (refused,) = read_json("plan", path, environ=environ)["slices"]
    assert (refused["workload"], refused["decision"], refused["notes"]) == ("train", "refuse", [])


RAYJOB = """
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: big, annotations: {"tpu-provisioner.cloud.google.com/capacity-first": "true"}}
spec:
  suspend: true
  shutdownAfterJobFinishes: true
  rayClusterSpec:
    workerGroupSpecs:
      - groupName: g
        replicas: 2
        maxReplicas: 2
        numOfHosts: 1
        template:
          spec:
            nodeSelector:
              cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice
              cloud.google.com/gke-tpu-topology: 2x2
            containers: [{name: c, resources: {limits: {google.com/tpu: 4}}}]
"""
FIRST = "it waits for its capacity: it is resumed when all of its node pools run"


def test_plan_notes_it_of_a_rayjob_and_that_its_deadline_counts(tmp_path: Path) -> None:
    own = run("plan", write(tmp_path / "own.yaml", RAYJOB), environ=ON).stdout
    late = RAYJOB.replace("suspend: true", "activeDeadlineSeconds: 60\n  suspend: true")
    with_deadline = run("plan", write(tmp_path / "late.yaml", late), environ=ON).stdout
    made = RAYJOB.replace("  suspend: true\n  shutdownAfterJobFinishes: true\n", "").replace(
        "rayClusterSpec:\n", "rayClusterSpec:\n    suspend: true\n"
    )
    of_cluster = run("plan", write(tmp_path / "made.yaml", made), environ=ON).stdout

    for text in (own, with_deadline, of_cluster):
        assert "2 pools with" in text
        assert FIRST in text
    counts = "the wait for its capacity counts towards its activeDeadlineSeconds"
    assert (counts in own, counts in with_deadline) == (False, True)


def test_plan_notes_why_a_rayjob_cannot_wait_so(tmp_path: Path) -> None:
    text = RAYJOB.replace("shutdownAfterJobFinishes: true", "shutdownAfterJobFinishes: false")
    result = run("plan", write(tmp_path / "r.yaml", text), environ=ON)

    shown = result.stdout + result.stderr
    assert (
        "RayJob big (it makes no RayCluster and cannot wait for its capacity: KubeRay refuses a suspended" in shown
    )
    assert (
        "valid: a new RayJob with shutdownAfterJobFinishes: true, or with spec.rayClusterSpec.suspend: true"
        in shown
    )


def test_status_and_why_tell_of_a_suspended_rayjob(world: World) -> None:
    world.cluster.workloads.clear()
    asks: dict[str, Any] = {"kind": "RayJob", "suspended": True, "marks": ASKS, "version": "1"}
    world.cluster.add(a_jobset(**asks | {"unfit": ("spec.clusterSelector names another", "none")}))
    result = run("status")
    assert result.exit_code == 1
    assert "spec.clusterSelector names another" in result.stdout.splitlines()[-1]

    world.cluster.add(a_jobset(**asks))
    code, line = why()
    assert code == 0
    assert "the RayJob is resumed, and its own workload is suspended until all slices have node pools" in line
    assert world.cluster.workloads["RayJob", "default", "train"].suspended


class CannedKubernetes(KubernetesApi):
    """Answers with some objects by their path, and with empty lists."""

    def __init__(self, objects: dict[str, dict[str, Any]]) -> None:
        super().__init__(Connection(url=NOWHERE))
        self._objects = objects

    def get(self, path: str, kind: type[Any], params: Any = None) -> Any:
        """Return one object."""
        if path not in self._objects:
            raise NotFound(path)
        return msgspec.convert(self._objects[path], kind)

    def list_pages(self, path: str, kind: type[Any], params: Any = None, **_: Any) -> Iterator[Any]:
        """Yield one page of the objects in a folder."""
        found = [each for name, each in self._objects.items() if name.rpartition("/")[0] == path]
        yield Page(items=[msgspec.convert(each, kind) for each in found])


def test_why_of_a_rayjob_tells_of_its_raycluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The person knows the name of the RayJob; pools and slices have that of the RayCluster."""
    made_at = {"creationTimestamp": format_time(NOW - 900)}
    parent = {"kind": "RayJob", "name": "nightly", "uid": "u", "controller": True}
    path, world = "/apis/ray.io/v1/namespaces/default", World(Records())
    objects: dict[str, dict[str, Any]] = {
        f"{path}/rayjobs/nightly": {"metadata": {"name": "nightly", "uid": "u", **made_at}},
        f"{path}/rayclusters/llm": {
            "metadata": {"name": "llm", "uid": UID, "ownerReferences": [parent], **made_at}
        },
        f"{path}/rayclusters/other": {"metadata": {"name": "other", "uid": "another", **made_at}},
    }
    world.cluster.pods.clear()
    use(monkeypatch, world, CannedKubernetes(objects))
    waits = dataclasses.replace(a_raycluster(suspend=True), marks=ASKS, version="1", suspended_since=NOW - 60)
    of_rayjob = Parent(kind="RayJob", namespace="default", name="nightly", uid="u")
    waits = dataclasses.replace(waits, parent=of_rayjob)
    world.cluster.parents["u"] = of_rayjob
    world.cluster.add(waits, dataclasses.replace(waits, name="other", uid="another", parent=None))
    claim = a_claim(kind="RayCluster", name="llm", owner_uid=UID, slice_key="default/llm-tpu-0")
    world.pools.add(CLUSTER, a_pool(claim=claim, age_seconds=50))

    result = run("why", "nightly")

    assert result.exit_code == 0
    assert "RayJob nightly" in result.stdout
    assert "RayCluster llm" in result.stdout
    assert f"now: pool {build_pool_name(claim)} is RUNNING" in result.stdout
    assert "now: suspended until all slices have their capacity (round 1)" in result.stdout
    assert "RayCluster other" not in result.stdout
    (history,) = read_json("why", "nightly")
    assert (history["name"], history["kind"], history["exists"]) == ("nightly", "RayJob", True)
    assert {row["workload"] for row in history["now"]["waiting"] + history["now"]["pools"]} == {"llm"}
    about = [(each["source"], each["about"], each["text"]) for each in history["entries"]]
    assert len(about) == len(set(about)), "each thing is told once"
    assert any(
        line.startswith("(all)           default/llm (RayJob nightly)")
        for line in run("status").stdout.splitlines()
    )
    (alone,) = read_json("why", "other")
    assert (alone["kind"], {row["workload"] for row in alone["now"]["waiting"]}) == ("RayCluster", {"other"})


def test_why_of_a_rayjob_says_that_its_raycluster_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidding(CannedKubernetes):
        def list_pages(self, path: str, kind: type[Any], params: Any = None, **_: Any) -> Iterator[Any]:
            if path.endswith("rayclusters"):
                raise Denied("rayclusters is forbidden")
            yield Page(items=[])

    path, made_at = "/apis/ray.io/v1/namespaces/default", {"creationTimestamp": format_time(NOW - 900)}
    world = World(Records())
    use(monkeypatch, world, Forbidding({f"{path}/rayjobs/nightly": {"metadata": {"name": "nightly", **made_at}}}))

    result = run("why", "nightly")

    assert "not read: each RayCluster of the RayJob: rayclusters is forbidden" in result.stdout
