"""Whatever is raised about one object is reported with its name, and the others go on."""

import threading

import pytest

from shared.core.errors import Denied
from shared.core.kinds.table import find_kind_of_pod
from shared.core.labels import COMPLETION_INDEX
from shared.core.workloads import PodView
from shared.edges.threads import Threads
from tests.builders import CLUSTER, NOW, a_jobset, a_pod, a_pool, an_over_event
from tests.component.fake_queues import reserve_quota
from tests.component.world import OTHER, Records, World, orphan, two_clusters


def fail_for(world: World, method: str, name: str, error: Exception) -> None:
    """Let every call of a method of the cluster fail that names one object."""
    plain = getattr(world.cluster, method)

    def call(*given: object) -> object:
        if name in given:
            raise error
        return plain(*given)

    setattr(world.cluster, method, call)


def test_a_lasting_403_on_nodes_stops_no_pool_and_no_leader(world: World) -> None:
    """It strikes at the second look, before a deletion."""
    world.pools.add(CLUSTER, orphan("a"))
    fail_for(world, "list_pool_pods", orphan("a").name, Denied("nodes is forbidden"))
    world.pools.add(CLUSTER, orphan("b"))

    assert world.sweep() == (500, {"delete": 1, "create": 1, "errors": 1})
    world.records.expect_in_order(
        {"reason": "permission_denied", "message": f"node pool {orphan('a').name}: nodes is forbidden"}
    )


@pytest.mark.parametrize("where", ["entries.sweep_leaders", "steps.serving_pools"])
def test_a_pod_whose_kind_cannot_be_told_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = f"shared.engine.{where}.find_kind_of_pod"
    follower = a_pod(name="bad", uid="bad", pod_labels={COMPLETION_INDEX: "1"})
    world.cluster.add(a_pod(name="bad", uid="bad", index=1) if where == "entries.sweep_leaders" else follower)

    def find(pod: PodView) -> object:
        if pod.name == "bad":
            raise OverflowError("inf")
        return find_kind_of_pod(pod)

    monkeypatch.setattr(path, find)

    assert world.sweep()[1] == {"create": 1, "errors": 1}
    (found,) = world.records.expect_in_order({"reason": "internal_error"})
    assert found["message"] == "Pod default/bad: OverflowError: inf"


@pytest.mark.parametrize("error", [Denied("events is forbidden"), OverflowError("inf")])
def test_an_event_that_cannot_be_written_undoes_and_repeats_nothing(world: World, error: Exception) -> None:
    world.pools.add(CLUSTER, a_pool())
    world.cluster.add(a_jobset(terminal="Completed", terminal_since=NOW))

    world.cluster.fail_next("write_notice", error)

    assert world.collect(an_over_event()).status == 200
    assert world.pools.count("delete") == 1
    world.records.expect_in_order({"severity": "WARNING", "error": str(error)})


def test_a_cluster_that_hangs_delays_no_other_and_is_reported(records: Records) -> None:
    world = two_clusters(records, timeout_seconds=40)  # which leaves five seconds for a sweep
    world.clusters[OTHER].add(a_pod(), a_jobset())
    hung, freed = threading.Event(), threading.Event()

    def hang() -> None:
        hung.set()
        freed.wait(60)

    world.cluster.before_next("list_waiting_leaders", hang)
    try:
        answered = world.sweep(threads=Threads(world.clock))
    finally:
        freed.set()

    assert hung.is_set()
    assert answered == (503, {"create": 1, "errors": 1, "left": 1})
    (found,) = world.records.expect_in_order({"reason": "out_of_time", "severity": "WARNING"})
    assert found["message"].startswith(CLUSTER)
    assert len(world.pools.names(OTHER)) == 1


def test_followers_that_cannot_be_listed_in_any_way_stop_no_queued_workload(world: World) -> None:
    world.use(kueue_admission_check=True)
    reserve_quota(world, a_jobset(name="queued", uid="queued", suspended=True))

    world.cluster.fail_next("list_waiting_followers", TypeError("no list"))

    assert world.sweep()[1] == {"create": 3, "errors": 1}
    (found,) = world.records.expect_in_order({"reason": "internal_error"})
    assert found["message"] == f"waiting followers of {CLUSTER}: TypeError: no list"
