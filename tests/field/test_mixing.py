"""Slices that may mix are said before and while: `plan`, one Event, `status`, `why`, board."""

import pytest
from msgspec import structs

from cli.board.site import Board
from cli.explanation.why import History, add_present
from cli.fleet.rows import read_cluster
from tests.builders import CLUSTER
from tests.cli.cli_world import a_deployment, put_in_place, read_json, run, show
from tests.field.field_world import FieldWorld, read_input
from tests.field.planned import plan

MIXING = "mixing-slices.yaml"
LINE = "alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool"


def test_plan_names_the_line_that_is_missing() -> None:
    warned: dict[str, list[str]] = {}
    for need in plan(MIXING)["needs"]:
        warned.setdefault(need["workload"], []).extend(each for each in need["notes"] if "slices_may_mix" in each)

    assert {name: len(texts) for name, texts in warned.items()} == {
        "four-slices": 1,
        "two-parts": 2,
        "two-replicas": 1,
        "exclusive": 0,
        "one-slice": 0,
        "single-hosts": 0,
        "exclusive-subgroups": 0,
    }
    assert LINE in warned["four-slices"][0]
    assert LINE in warned["two-parts"][0]
    assert "leaderworkerset.sigs.k8s.io/exclusive-topology" in warned["two-replicas"][0]


@pytest.fixture
def mixed() -> FieldWorld:
    """The pods of each slice run on the pools of two."""
    world = FieldWorld(read_input(MIXING, "four-slices"))
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
    mixed.tick("provision")
    mixed.tick("collect")
    mixed.clock.pause(60)
    mixed.tick("collect")
    now = [each for each in mixed.cluster.notices if "[slice_mixed]" in each.message]

    assert [(LINE in each.message, each.warning) for each in before] == [(True, True)]
    assert [(LINE in each.message, each.warning, each.kind) for each in now] == [(True, True, "JobSet")]
    assert "four-slices-slice-0, four-slices-slice-1" in now[0].message
    assert not mixed.list_deleted()


def test_status_why_and_board_name_slices_that_are_mixed(
    mixed: FieldWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment, history = a_deployment(mixed), History(cluster=CLUSTER, namespace="default", name="four-slices")
    put_in_place(monkeypatch, deployment)
    reading = read_cluster(CLUSTER, deployment.ports)

    status, rows = run("status"), read_json("status")["pools"]
    add_present(history, reading)
    shown = Board(deployment).read()["status"]["pools"]

    assert status.exit_code == 1
    assert {(row["decision"], row["reason"], row["stuck"]) for row in rows} == {("keep", "slice_mixed", True)}
    assert any("slice_mixed" in line for line in show(history))
    assert [(row["reason"], row["stuck"]) for row in shown] == [("slice_mixed", True)] * 4
