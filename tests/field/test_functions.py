"""What the functions do with inputs of the field, where no local cloud shows it.

The other inputs are played on one: tests/loop/lives/field.yaml.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from msgspec import structs

from cli.board.site import Board
from cli.explanation.why import History, add_present
from cli.fleet.rows import read_cluster
from shared.model.needs import Way
from shared.model.workloads import Disk
from tests.builders import CLUSTER
from tests.cli.cli_world import a_deployment, put_in_place, read_json, run
from tests.engine.fake_ports import FakeGke
from tests.field.field_world import FieldWorld, read_input
from tests.rows import rows

Json = dict[str, Any]
OF_JOB = {"apiVersion": "batch/v1", "kind": "Job"}
LINE = "alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool"
SIDECAR = {
    "name": "gke-gcsfuse-sidecar",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "250m", "memory": "256Mi", "ephemeral-storage": "5Gi"}},
}
SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: shards}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  template:
    spec:
      nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}
      containers: [{name: c, image: "registry.example/c:1", resources: {limits: {nvidia.com/gpu: 1}}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: standard, accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
"""


# --- claims and disks


def test_a_pool_waits_for_the_claims_that_a_controller_makes_for_its_pods() -> None:
    world = FieldWorld(yaml.safe_load(SET))
    spec, disks = world.body["spec"]["template"]["spec"], {"data-shards-0", "data-shards-1"}
    for name in ("shards-0", "shards-1"):
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shards", "uid": "uid-of-shards"}
        world.add_pod(name, {**spec, "volumes": volumes}, owner, {"statefulset.kubernetes.io/pod-name": name})
    world.cluster.find_disk = lambda namespace, claim: (  # type: ignore[method-assign]
        Disk(claim=claim, unbound="is not bound to a volume yet") if claim in disks else None
    )

    answers = world.provision().plan.answers
    disks.clear()
    world.provision()

    assert [str(each.reason) for each in answers] == ["claim_unbound"]
    assert len(world.gke.pools) == 1


def test_a_permission_that_is_missing_to_read_a_claim_is_said_by_an_event() -> None:
    unbound = "cannot be judged: GET persistentvolumeclaims/datasets: 403 Forbidden"
    world = FieldWorld(read_input("claims.yaml", "missing"))
    world.cluster.find_disk = lambda namespace, claim: Disk(claim=claim, unbound=unbound)  # type: ignore[method-assign]
    world.add_pods_of_jobset()

    world.provisioner.work("missing")

    assert [unbound in each.message for each in world.cluster.notices] == [True]


def test_the_sidecar_that_the_webhook_has_added_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = list[Json]()
    monkeypatch.setattr(FakeGke, "create", lambda _gke, _cluster, node_pool: bodies.append(node_pool))
    world = FieldWorld(read_input("storage-fuse.yaml", "injected"))
    template = world.body["spec"]["template"]
    spec = {**template["spec"], "initContainers": [SIDECAR]}
    owner = OF_JOB | {"name": "injected", "uid": "uid-of-injected"}
    annotations = template.get("metadata", {}).get("annotations")
    world.add_pod("injected-0", spec, owner, {"batch.kubernetes.io/job-name": "injected"}, annotations)

    world.provision()

    assert [each["config"]["diskSizeGb"] for each in bodies] == [110]


# --- placement policies


def test_a_pool_of_another_policy_serves_nobody_who_selects_one() -> None:
    world = FieldWorld(read_input("policies-and-partitions.yaml", "of-tpu7x"))
    world.add_pods_of_jobset()
    world.provision()
    again = world.provision()
    (pool,) = world.gke.pools.values()
    world.gke.pools[pool.name] = structs.replace(pool, policy="another")

    assert (again.plan.adds, pool.policy) == ((), "team-4x4x4")
    assert [act.verb for act in world.provision().plan.adds] == ["create"]


@pytest.mark.parametrize(
    "selector",
    [{"cloud.google.com/placement-policy-name": "no-such"}, {"cloud.google.com/gke-location-hint": "x"}],
)
def test_a_word_that_gke_refuses_refuses_nobody_who_did_not_write_it(selector: dict[str, str]) -> None:
    ways = list[set[Way]]()
    for own in ({}, selector):
        body = read_input("policies-and-partitions.yaml", "of-v6e")
        spec = body["spec"]["template"]["spec"]
        del spec["affinity"]
        spec["nodeSelector"] |= own
        ways.append(set(FieldWorld(body).provision().look.scene.needs[0].ways))

    assert len(ways[0]) == len(ways[1]) == 1
    assert ways[0].isdisjoint(ways[1])


# --- sub-groups of one pod of a LeaderWorkerSet


def serve(*subgroups: int, chipless: bool = False) -> FieldWorld:
    """The pods of one group with these sub-groups; its leader may have no chips."""
    body = read_input("subgroups-of-one.yaml", "prefill")
    inner = body["spec"]["leaderWorkerTemplate"]
    if chipless:
        inner["leaderTemplate"] = {"spec": {"containers": [{"name": "proxy", "image": "registry.example/p:1"}]}}
    world = FieldWorld(body)
    prefix = "leaderworkerset.sigs.k8s.io/"
    for worker, subgroup in enumerate(subgroups):
        own = {"name": "prefill", "group-index": "0", "worker-index": worker, "subgroup-index": subgroup}
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "prefill-0" if worker else "prefill"}
        notes = {f"{prefix}size": str(len(subgroups)), f"{prefix}subgroup-size": "1"}
        if worker or not chipless:
            labels = {f"{prefix}{key}": str(value) for key, value in own.items()}
            name = f"prefill-0-{worker}" if worker else "prefill-0"
            world.add_pod(name, inner["workerTemplate"]["spec"], owner, labels, notes)
    return world


@rows(
    "subgroups chipless pools",
    {
        "new": ((0, 1, 2), False, 3),
        "old, beside a leader without chips": ((0, 0, 1), True, 2),
        "new, beside a leader without chips": ((0, 1, 2), True, 2),
    },
)
def test_each_pod_with_chips_gets_its_pool(subgroups: tuple[int, ...], chipless: bool, pools: int) -> None:
    world = serve(*subgroups, chipless=chipless)

    world.provision()

    assert len(world.gke.pools) == pools


def test_an_old_leaderworkerset_buys_nothing_for_a_group_that_cannot_start() -> None:
    world = serve(0, 0, 1)

    world.provisioner.work("prefill")
    work = world.provision()

    assert world.gke.pools == {}
    (answer,) = work.plan.answers
    assert answer.reason == "slice_unknown"
    assert "older than v0.10.0" in work.look.scene.needs[0].never.message  # type: ignore[union-attr]


# --- slices that mix


@pytest.fixture
def mixed() -> FieldWorld:
    """The pods of each slice run on the pools of two."""
    world = FieldWorld(read_input("mixing-slices.yaml", "four-slices"))
    world.add_pods_of_jobset()
    world.provisioner.work("four-slices")
    pools = list(world.gke.pools)
    for number, pool in enumerate(pools):
        world.come(pool, ready=2)
        for host in range(2):
            # Hosts 0 of slices are in turn with hosts 1 of others, as the scheduler spreads them.
            name = f"four-slices-slice-{(number + host) % 4}-{host}"
            pod = world.cluster.pods[name]
            world.cluster.pods[name] = structs.replace(pod, node_name=f"{pool}-{host}", unschedulable=False)
    return world


def test_one_event_warns_before_and_one_while(mixed: FieldWorld) -> None:
    before = [each for each in mixed.cluster.notices if "[slices_may_mix]" in each.message]
    mixed.clock.pause(60)
    mixed.provisioner.tick()
    mixed.collector.tick()
    mixed.clock.pause(60)
    mixed.collector.tick()
    now = [each for each in mixed.cluster.notices if "[slice_mixed]" in each.message]

    assert [(LINE in each.message, each.warning) for each in before] == [(True, True)]
    assert [(LINE in each.message, each.warning, each.subject.kind) for each in now] == [(True, True, "JobSet")]
    assert "four-slices-slice-0, four-slices-slice-1" in now[0].message
    assert not mixed.list_deleted()


def test_status_why_and_board_name_slices_that_are_mixed(
    mixed: FieldWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, history = a_deployment(mixed), History(cluster=CLUSTER, namespace="default", name="four-slices")
    put_in_place(monkeypatch, deployment)
    reading = read_cluster(CLUSTER, deployment.ports, chooses=lambda _key: True)

    status, rows = run("status"), read_json("status")["pools"]
    add_present(history, reading)
    shown = Board(deployment).read()["status"]["pools"]

    assert status.exit_code == 1
    assert {(row["decision"], row["reason"], row["stuck"]) for row in rows} == {("keep", "slice_mixed", True)}
    assert "slice_mixed" in history.reasons
    assert [(row["reason"], row["stuck"]) for row in shown] == [("slice_mixed", True)] * 4
