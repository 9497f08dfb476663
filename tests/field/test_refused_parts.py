"""A workload of which a part can never run gets nothing for the parts that would wait for it."""

import pytest

from tests.cli.cli_world import read_json
from tests.field.field_world import FieldWorld, read_input
from tests.field.planned import INPUTS, plan

REFUSED = "refused-parts.yaml"
TPU = "google.com/tpu"


def decide(name: str) -> list[tuple[str, str, int]]:
    needs = read_json("plan", str(INPUTS / REFUSED))["needs"]
    return [(need["decision"], need["reason"], need["pools"]) for need in needs if need["workload"] == name]


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        ("hosts-of-one-part", "hosts_differ"),
        ("device-of-one-part", "resource_unknown"),
        ("leader-too-many", "hosts_differ"),
    ],
)
def test_nothing_is_planned_for_the_parts_that_wait_for_a_refused_one(workload: str, reason: str) -> None:
    assert decide(workload) == [("refuse", reason, 0)] * 2


def test_groups_that_do_not_wait_for_each_other_are_served() -> None:
    assert sorted(decide("groups-apart")) == [("create", "pool_absent", 1), ("refuse", "resource_unknown", 0)]


@pytest.mark.parametrize(
    ("workload", "words"),
    [("hosts-of-one-part", "slice of wrong"), ("device-of-one-part", "smarter-devices/fuse")],
)
def test_a_run_buys_nothing_and_the_event_names_the_part(workload: str, words: str) -> None:
    world = FieldWorld(read_input(REFUSED, workload))
    world.add_pods_of_jobset()

    work = world.provisioner.work(workload)
    world.clock.pause(60)
    world.tick("provision")

    assert (world.gke.pools, world.collect().done) == ({}, [])
    assert [words in each.message for each in world.cluster.notices if each.kind == "JobSet"] == [True]
    assert work.outcomes


# --- sub-groups of one pod of a LeaderWorkerSet


def serve(*subgroups: int, leader: dict[str, object] | None = None) -> FieldWorld:
    """The pods of one group with these sub-groups."""
    body = read_input("subgroups-of-one.yaml", "prefill")
    inner = body["spec"]["leaderWorkerTemplate"]
    spec = inner["workerTemplate"]["spec"]
    if leader is not None:
        inner["leaderTemplate"] = {"spec": leader}
    world = FieldWorld(body)
    prefix = "leaderworkerset.sigs.k8s.io/"
    for worker, subgroup in enumerate(subgroups):
        named = {
            "name": "prefill",
            "group-index": "0",
            "worker-index": str(worker),
            "subgroup-index": str(subgroup),
        }
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "prefill-0" if worker else "prefill"}
        notes = {f"{prefix}size": str(len(subgroups)), f"{prefix}subgroup-size": "1"}
        if leader is None or worker:
            labels = {f"{prefix}{key}": value for key, value in named.items()}
            name = f"prefill-0-{worker}" if worker else "prefill-0"
            world.add_pod(name, spec, owner, labels, notes)
    return world


def test_subgroups_of_one_pod_are_a_slice_each() -> None:
    (need,) = plan("subgroups-of-one.yaml")["needs"]

    assert (need["decision"], need["pools"], need["chips"]) == ("create", 3, 12)


def test_each_pod_of_a_new_leaderworkerset_gets_its_pool() -> None:
    world = serve(0, 1, 2)

    world.provision()

    assert len(world.gke.pools) == 3


def test_an_old_leaderworkerset_buys_nothing_for_a_group_that_cannot_start() -> None:
    world = serve(0, 0, 1)

    world.provisioner.work("prefill")
    work = world.provision()

    assert world.gke.pools == {}
    (answer,) = work.plan.answers
    assert answer.reason == "slice_unknown"
    assert "older than v0.10.0" in work.look.scene.needs[0].never.message  # type: ignore[union-attr]


@pytest.mark.parametrize("subgroups", [(0, 0, 1), (0, 1, 2)], ids=["old", "new"])
def test_a_leader_without_chips_is_no_slice_in_either(subgroups: tuple[int, ...]) -> None:
    world = serve(*subgroups, leader={"containers": [{"name": "proxy", "image": "registry.example/p:1"}]})

    world.provision()

    assert len(world.gke.pools) == 2
