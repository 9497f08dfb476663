"""`status` when a read is refused: it shows the rest, and names the right."""

from unittest.mock import Mock

import pytest

from shared.model.errors import Denied, Unavailable
from tests.builders import CLUSTER, a_pool
from tests.cli.cli_world import read_json, run
from tests.component.world import World


def test_a_read_that_is_refused_for_one_pool_hides_no_other_and_names_the_right(half_served: World) -> None:
    right = 'jobsets.jobset.x-k8s.io "train" is forbidden: User "me" cannot get resource "jobsets"'
    half_served.cluster.fail_next("get_workload", Denied(right), skip=1)  # the first is for the busy hosts

    result = run("status")

    assert result.exit_code == 3
    assert f"error: {CLUSTER}: {right}" in result.stderr
    first, second = result.stdout.splitlines()[1:3]
    assert first.endswith("owner_unknown")
    assert second.endswith("pool_failed")
    assert "train-workers-1   default/train   1h8m" in result.stdout
    assert "2 pools with 32 chips, 1 slice waiting; 2 need a person" in result.stdout


@pytest.mark.parametrize(
    ("method", "pools", "waiting"),
    [("get_namespace", 2, 1), ("list_waiting_leaders", 2, 0), ("get_workload", 2, 1), ("list_pool_nodes", 2, 1)],
)
def test_a_kind_of_read_that_is_refused_hides_only_what_follows_from_it(
    half_served: World, monkeypatch: pytest.MonkeyPatch, method: str, pools: int, waiting: int
) -> None:
    monkeypatch.setattr(half_served.cluster, method, Mock(side_effect=Denied("the right is missing")))

    shown = read_json("status")

    assert (len(shown["pools"]), len(shown["waiting"])) == (pools, waiting)


def test_the_size_of_a_pool_that_may_not_be_read_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    right = 'Required "compute.instanceGroupManagers.get" permission'
    world.pools.add(CLUSTER, a_pool(autoscaled=True, group_urls=("u",)))
    monkeypatch.setattr(world.pools, "measure", Mock(side_effect=Denied(right)))

    result = run("status")

    assert result.exit_code == 3
    assert result.stderr.count(f"error: {CLUSTER}: {right}\n") == 1
    assert "1 pool with 16 chips" in result.stdout


def test_pods_that_wait_are_shown_without_the_right_to_list_pools(
    half_served: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = 'Required "container.clusters.get" permission(s)'
    monkeypatch.setattr(half_served.pools, "list", Mock(side_effect=Denied(right)))

    result = run("status", "-o", "wide")

    assert result.exit_code == 3
    assert result.stderr.count(f"error: {CLUSTER}: {right}\n") == 1
    assert "wait       permission_denied" in result.stdout
    assert f"not decided, because a read failed: {right}" in result.stdout
    assert "0 pools" not in result.stdout


def test_a_cluster_that_does_not_answer_is_asked_no_more(
    half_served: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Mock(side_effect=Unavailable("no answer"))
    monkeypatch.setattr(half_served.cluster, "get_workload", read)

    result = run("status")

    assert result.exit_code == 3
    assert read.call_count == 2, "once for the busy hosts, and once for the first pool"
    assert "slice waiting" not in result.stdout
