"""A workload's delivered end gives its pools back: always, never too early, never another's."""

import random
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import Busy, ClusterNotFound, Denied, Throttled, Unavailable
from shared.core.kinds import jobset as jobset_keys
from tests.builders import CLUSTER, NOW, a_claim, a_foreign_pool, a_go_pool, a_jobset, a_pool, an_over_event
from tests.component.looks import Look
from tests.component.world import NAME, World, claim_of, slice_name

THROTTLED = Throttled("429", retry_after_seconds=60)
"""For longer than one delivery can wait."""
DONE: dict[str, Any] = {"terminal": "Completed", "terminal_since": NOW}
SUSPENDED = {"suspended": True, "suspended_since": NOW - 10_000}
SECOND = claim_of(1)


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


def test_every_pool_of_the_workload_is_looked_at(world: World) -> None:
    world.pools.add(CLUSTER, a_pool(claim=SECOND))
    world.collect(an_over_event())

    assert world.pools.count("delete") == 2


def test_pods_that_still_end_are_waited_for_and_those_that_run_on_do_not_contradict_a_completion(
    world: World,
) -> None:
    """A Pathways JobSet is over while its workers run."""
    world.cluster.bind(NAME)
    world.cluster.bind(NAME, chips=0)
    assert world.collect(an_over_event()).status == 200
    assert world.says() == ("wait", "pods_still_bound")

    world.clock.advance(900)
    world.collect(an_over_event("drained"))
    assert world.says() == ("delete", "workload_over")


def test_the_end_of_the_old_jobset_does_not_touch_the_new_one_s_pool(world: World) -> None:
    world.pools.pools.clear()
    world.pools.add(CLUSTER, a_pool(claim=a_claim(owner_uid="new-uid")))
    world.cluster.add(a_jobset(uid="new-uid"))
    world.collect(an_over_event("deleted"))

    assert world.says() == ("nothing", "pool_gone")
    assert world.pools.calls == [("list", "")]


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


def test_a_pool_of_the_go_provisioner_is_collected_by_name_and_kept_for_a_live_workload(world: World) -> None:
    world.pools.pools.clear()
    world.pools.add(CLUSTER, a_go_pool())
    world.collect(an_over_event())
    assert world.says() == ("keep", "cluster_unproven")

    world.cluster.nodes["train-12345"] = ["n"]
    world.cluster.add(a_jobset(uid="whatever"))
    world.collect(an_over_event())
    assert world.pools.count("delete") == 0

    world.cluster.add(a_jobset(**DONE))
    world.collect(an_over_event())
    assert world.says() == ("delete", "workload_over")


def test_a_slice_that_was_scaled_away_gives_its_pool_back(world: World) -> None:
    away = a_pool(claim=claim_of(7))
    world.pools.add(CLUSTER, away)
    world.cluster.add(a_jobset())
    world.cluster.pods.clear()  # for a slice that waits, the pool would stay
    world.collect(an_over_event("deleted"))

    assert world.pools.calls[-1] == ("delete", away.name)
    assert world.pools.count("delete") == 1


@pytest.mark.parametrize(
    ("since", "seconds"),
    [
        pytest.param(NOW, 300, id="as it says"),
        # It began after the pool was made. Before, 30 days were not enough.
        pytest.param(None, 30 * 86_400, id="of unknown age: the grace of the pool"),
    ],
)
def test_a_suspended_workload_keeps_its_pool_for_a_grace(
    world: World, since: float | None, seconds: float
) -> None:
    """Queues preempt by suspending, and resume."""
    world.cluster.add(a_jobset(suspended=True, suspended_since=since))
    world.collect(an_over_event("suspended"))
    assert world.says() == ("keep", "grace_not_over")

    world.clock.advance(seconds)
    world.collect(an_over_event("suspended"))
    assert world.says() == ("delete", "workload_suspended")


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


def test_a_pool_that_gke_still_makes_is_deleted_when_it_can_be(world: World) -> None:
    world.pools.move(CLUSTER, NAME, "PROVISIONING")
    world.collect(an_over_event())
    assert world.says() == ("wait", "pool_in_progress")
    assert world.pools.count("delete") == 0

    world.pools.move(CLUSTER, NAME, "RUNNING")
    world.collect(an_over_event())
    assert world.says() == ("delete", "workload_over")


def test_a_pool_that_another_operation_holds_waits_for_the_next_look(world: World) -> None:
    world.pools.fail_next("delete", Busy("incompatible operation"))
    assert world.collect(an_over_event()).status == 200
    assert world.says() == ("wait", "gke_busy")


@pytest.mark.parametrize("method", ["get", "delete", "list"])
def test_gke_out_of_reach_hands_the_message_back(world: World, method: str) -> None:
    world.pools.fail_next(method, Unavailable("503"))

    assert world.collect(an_over_event()).status == 503
    assert world.collect(an_over_event()).status == 200
    assert world.says() == ("delete", "workload_over")


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


def test_one_bad_pool_does_not_stop_the_others(world: World) -> None:
    world.pools.add(CLUSTER, a_pool(claim=SECOND))
    world.pools.fail_next("delete", Unavailable("connection lost", retry_after_seconds=7))
    answer = world.collect(an_over_event())

    assert (answer.status, answer.retry_after_seconds) == (503, 7)
    assert world.pools.calls[-1] == ("delete", slice_name(1))


def test_of_several_errors_the_one_that_a_person_must_mend_is_told(world: World) -> None:
    world.pools.add(CLUSTER, a_pool(claim=SECOND))
    world.pools.fail_next("delete", Unavailable("connection lost"))
    world.pools.fail_next("delete", Denied("403"))

    assert world.collect(an_over_event()).status == 500


def test_a_reply_lost_on_delete_is_mended_by_the_next_delivery(world: World) -> None:
    world.pools.fail_next("delete", Unavailable("connection lost"), performed=True)

    assert world.collect(an_over_event()).status == 503
    assert world.collect(an_over_event()).status == 200
    assert world.says() == ("wait", "pool_stopping")
    assert world.pools.count("delete") == 1


@pytest.mark.parametrize(
    ("mode", "says"), [("report-only", ("keep", "mode_report_only")), ("no-create", ("delete", "workload_over"))]
)
def test_the_mode_says_whether_what_is_over_goes(world: World, mode: str, says: tuple[str, str]) -> None:
    world.use(mode=mode)
    world.collect(an_over_event())

    assert world.says() == says
    assert world.pools.count("delete") == (mode == "no-create")


@pytest.mark.parametrize("seed", range(20))
def test_every_message_thrice_in_any_order_ends_with_no_pool(world: World, seed: int) -> None:
    events = [an_over_event(observed) for observed in ("completed", "drained", "deleted")] * 3
    random.Random(seed).shuffle(events)
    for event in events:
        assert world.collect(event).status == 200

    assert world.pools.count("delete") == 1
    assert world.pools.pools[CLUSTER, NAME].status == "STOPPING"
    assert world.pools.pools[CLUSTER, "default-pool"].status == "RUNNING"
