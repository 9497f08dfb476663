"""A workload's delivered end gives its pools back: always, never too early, never another's."""

from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import ClusterNotFound, Denied, Throttled, Unavailable
from shared.core.kinds import jobset as jobset_keys
from tests.builders import CLUSTER, NOW, a_foreign_pool, a_jobset, a_pool, an_over_event
from tests.component.looks import Look
from tests.component.world import NAME, World

THROTTLED = Throttled("429", retry_after_seconds=60)
"""For longer than one delivery can wait."""
DONE: dict[str, Any] = {"terminal": "Completed", "terminal_since": NOW}
SUSPENDED = {"suspended": True, "suspended_since": NOW - 10_000}


@pytest.fixture
def world(world: World) -> World:
    """The plain case with its pool running and the workload completed."""
    world.pools.add(CLUSTER, a_pool(), a_foreign_pool())
    world.cluster.add(a_jobset(**DONE))
    return world


def set_scene(world: World, jobset: dict[str, Any] | None, pod: dict[str, Any] | None) -> None:
    """Let the JobSet be like this, or gone, and this pod run on its pool."""
    world.cluster.workloads.clear()
    if jobset is not None:
        world.cluster.add(a_jobset(**jobset))
    if pod is not None:
        world.cluster.bind(NAME, **pod)


def test_a_completed_workload_s_pool_is_deleted_after_one_more_look(world: World) -> None:
    world.cluster.nodes[NAME] = ["a-node"]
    assert world.collect(an_over_event()).status == 200
    assert world.says() == ("delete", "workload_over")
    assert world.pools.calls == [("list", ""), ("get", NAME), ("get", NAME), ("delete", NAME)]
    assert world.notices() == [("JobSet", "NodePoolDeletionStarted", False)]
    assert world.last["claim"]["slice"] == "train-workers-0"
    assert world.last["severity"] == "NOTICE"


@pytest.mark.parametrize("observed", ["completed", "failed", "suspended", "deleted", "drained"])
def test_a_message_is_only_a_hint_to_look(world: World, observed: str) -> None:
    """Whatever it claims to have seen, a live workload keeps its pool."""
    world.cluster.add(a_jobset())

    assert world.collect(an_over_event(observed)).status == 200
    assert world.says() == ("keep", "owner_live")
    assert world.pools.count("delete") == 0


@pytest.mark.parametrize(
    ("observed", "jobset", "pod", "reason"),
    [
        pytest.param("failed", DONE | {"terminal": "Failed"}, None, "workload_over", id="failed"),
        pytest.param("deleted", {"deleting": True}, None, "owner_gone", id="being deleted"),
        pytest.param("deleted", {"uid": "new-uid"}, None, "owner_gone", id="made again under the name"),
        pytest.param("deleted", None, None, "owner_gone", id="deleted"),
        pytest.param("deleted", None, {"deleting_since": NOW - 901}, "owner_gone", id="a pod ends for too long"),
        pytest.param("completed", DONE, {"workload": "", "chips": 0}, "workload_over", id="no chips: it moves"),
        pytest.param(
            "suspended",
            SUSPENDED,
            {"deleting_since": NOW - 1},
            "workload_suspended",
            id="pods end after suspension",
        ),
    ],
)
def test_a_workload_that_is_over_or_gone_gives_its_pool_back(
    world: World, observed: str, jobset: dict[str, Any] | None, pod: dict[str, Any] | None, reason: str
) -> None:
    set_scene(world, jobset, pod)
    world.collect(an_over_event(observed))

    assert world.says() == ("delete", reason)
    assert bool(world.notices()) == (reason != "owner_gone"), "nobody is left to be told"


@pytest.mark.parametrize(
    ("observed", "jobset", "pod", "says"),
    [
        pytest.param("completed", DONE, {"workload": "other"}, ("keep", "pool_in_use"), id="another's pods"),
        pytest.param("deleted", {"uid": "new-uid"}, {}, ("wait", "pods_still_bound"), id="of a JobSet made again"),
        # Resumed between two reads: the condition is old, the pods are there.
        pytest.param("suspended", SUSPENDED, {}, ("wait", "pods_still_bound"), id="of a suspended JobSet"),
    ],
)
def test_pods_that_run_keep_the_pool_however_long(
    world: World, observed: str, jobset: dict[str, Any], pod: dict[str, Any], says: tuple[str, str]
) -> None:
    set_scene(world, jobset, pod)
    world.clock.advance(10_000)
    world.collect(an_over_event(observed))

    assert world.says() == says
    assert world.pools.count("delete") == 0


@pytest.mark.parametrize(
    ("pool_labels", "subject"),
    [
        ({}, {"uid": "another"}),
        ({}, {"name": "other"}),
        ({jobset_keys.JOBSET_NAME: "other", labels.OWNER_UID: "other-uid"}, {}),
    ],
    ids=["another UID", "another name", "labels of the pool, which are believed and not its name"],
)
def test_what_names_another_workload_is_no_news(
    world: World, pool_labels: dict[str, str | None], subject: dict[str, str]
) -> None:
    world.pools.add(CLUSTER, a_pool(extra_labels=pool_labels))
    world.collect(an_over_event(**subject))

    assert world.says() == ("nothing", "pool_gone")


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (lambda world: world.pools.add(CLUSTER, a_foreign_pool(NAME)), ("keep", "foreign_labels")),
        (lambda world: world.cluster.bind(NAME, workload="other"), ("keep", "pool_in_use")),
        (lambda world: world.cluster.add(a_jobset()), ("keep", "owner_live")),
        (lambda world: world.pools.move(CLUSTER, NAME, "gone"), ("nothing", "pool_gone")),
        (lambda world: world.pools.move(CLUSTER, NAME, "STOPPING"), ("wait", "pool_stopping")),
    ],
    ids=["its labels change", "a pod is bound", "its owner comes back", "it goes", "somebody else deletes it"],
)
def test_what_happens_to_a_pool_between_the_two_looks_keeps_it_from_deletion(
    world: World, happens: Look, says: tuple[str, str]
) -> None:
    world.pools.before_next("get", lambda: happens(world))
    world.collect(an_over_event())

    assert world.says() == says
    assert world.pools.count("delete") == 0


@pytest.mark.parametrize(("method", "skip"), [("get_workload", 0), ("list_pool_pods", 0), ("get_workload", 1)])
@pytest.mark.parametrize(("error", "status"), [(Unavailable("x"), 503), (THROTTLED, 503), (Denied("x"), 500)])
def test_a_cluster_that_cannot_be_read_at_the_first_or_second_look_deletes_nothing(
    world: World, method: str, skip: int, error: Any, status: int
) -> None:
    world.cluster.fail_next(method, error, skip=skip)

    assert world.collect(an_over_event()).status == status
    assert world.pools.count("delete") == 0


def test_an_unknown_cluster_at_gke_is_an_alarm_and_not_the_end_of_its_pools(world: World) -> None:
    world.pools.down_clusters[CLUSTER] = ClusterNotFound("Not found: clusters/c.")

    assert world.collect(an_over_event()).status == 500
    assert world.last["severity"] == "CRITICAL"
