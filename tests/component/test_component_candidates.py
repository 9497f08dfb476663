"""A list of capacity: each candidate is tried in order, and the pools say which one they are."""

from collections.abc import Mapping
from typing import Any

import pytest

from shared.capacity_lists import UnreadableList, read_policies, read_priorities
from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.errors import InvalidRequest, NoCapacity, ReservationUnfit
from tests.builders import CLUSTER, NOW, a_claim, a_jobset, a_pod
from tests.component.looks import Look, by_message
from tests.component.world import World, name_of

STOCKOUT = "Not all instances running in IGM after 35m4s. Current errors: [GCE_STOCKOUT]"
POLICY = """
- priorities:
  - reservations: {specific: [{name: train}]}
    location: {zones: [us-east5-a]}
  - location: {zones: [us-east5-b, us-east5-c]}
"""
PLACES = ["reservation train in us-east5-a", "on-demand in us-east5-b", "on-demand in us-east5-c"]


@pytest.fixture(autouse=True)
def _listed(world: World) -> None:
    world.use(capacity_policies=read_policies(POLICY))
    world.cluster.add(a_pod(unschedulable_since=NOW - 20))


def zones(world: World) -> list[str]:
    return [body["locations"][0][-1] for body in world.pools.bodies]


def fail(world: World, attempt: int, error: str = STOCKOUT) -> None:
    world.clock.advance(50)
    world.pools.fail(CLUSTER, name_of(attempt), error)


def refuse_at_once(world: World, *zones: str) -> None:
    """Let GKE refuse pools in some zones, because they do not offer the machine."""
    create = world.pools.create

    def refuse(cluster: str, node_pool: Mapping[str, Any]) -> None:
        if node_pool["locations"][0][-1] in zones:
            raise InvalidRequest("no such machine in this zone")
        create(cluster, node_pool)

    world.pools.create = refuse  # type: ignore[method-assign]


def fail_in_turn(world: World, look: Look, attempts: int) -> None:
    """Let so many attempts fail, each of which is followed and deleted at the next look."""
    for attempt in range(attempts):
        fail(world, attempt)
        look(world)
        assert world.pools.pools[CLUSTER, name_of(attempt)].status == "STOPPING"
        world.pools.move(CLUSTER, name_of(attempt), "gone")


def test_each_candidate_is_tried_at_once_and_the_pause_comes_after_the_last(world: World, look: Look) -> None:
    by_message(world)
    fail_in_turn(world, look, 2)
    assert zones(world) == ["a", "b", "c"]
    made_at = int(world.clock.now())

    fail(world, 2)
    look(world)
    world.records.expect_in_order({"decision": "wait", "reason": "stockout", "attempt": 2})
    assert world.pools.names(CLUSTER) == [name_of(2)], "it is the record of the failure"

    world.clock.advance(made_at + find_pause(a_claim().hash, 2, 3) + 1 - world.clock.now())
    look(world)
    assert zones(world) == ["a", "b", "c", "a"]
    assert world.pools.bodies[-1]["name"] == name_of(3)
    assert world.pools.bodies[-1]["config"]["labels"][labels.CANDIDATE].startswith("1-of-3-")


def test_the_owner_is_told_which_candidate_failed_and_which_one_follows(world: World, look: Look) -> None:
    by_message(world)
    assert {f"candidate 1 of 3, {PLACES[0]}" in each.message for each in world.cluster.notices} == {True}
    fail(world, 0, "Specified reservation train does not have available resources for the request.")
    world.cluster.notices.clear()
    look(world)

    (message,) = {each.message for each in world.cluster.notices}
    assert message.startswith(
        f"attempt 0 (candidate 1 of 3, {PLACES[0]}) failed: "
        "the reservation is missing, used up or does not fit (GKE: "
    )
    assert f"; attempt 1: creating 4 x ct6e-standard-4t, 4x4, candidate 2 of 3, {PLACES[1]}: node pool" in message
    (made,) = world.records.expect_in_order({"decision": "create", "reason": "pool_failed"})
    assert (made["attempt"], made["zone"], made["candidate"][:6]) == (1, "us-east5-b", "2-of-3")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NoCapacity("quota"), "quota"),
        (InvalidRequest("no such"), "no such"),
        (ReservationUnfit("not found for node pool"), "not found"),
    ],
)
def test_a_candidate_that_gke_refuses_at_once_is_followed_in_the_same_turn(
    world: World, look: Look, error: NoCapacity | InvalidRequest, reason: str
) -> None:
    world.pools.fail_next("create", error)
    look(world)

    assert zones(world) == ["b"]
    assert [body["name"] for body in world.pools.bodies] == [name_of(1)]
    assert any(reason in each.message and PLACES[1] in each.message for each in world.cluster.notices)


def test_if_gke_refuses_all_candidates_the_last_refusal_is_told(world: World) -> None:
    for _ in PLACES:
        world.pools.fail_next("create", InvalidRequest("no such machine"))
    by_message(world)

    assert world.pools.bodies == []
    assert world.says() == ("refuse", "request_invalid")


EDITED = "[{priorities: [{location: {zones: [us-east5-c, us-east5-b]}}]}]"


@pytest.mark.parametrize(
    ("before", "after", "made", "attempt", "candidate", "told"),
    [
        pytest.param(POLICY, EDITED, "ac", 2, "1-of-2-", "no capacity in its zone", id="it is edited"),
        pytest.param("[]", POLICY, "ba", 3, "1-of-3-", "no capacity in its zone", id="it comes"),
        pytest.param(POLICY, "[]", "ab", 1, "", "no capacity in", id="it goes"),
    ],
)
def test_after_a_change_of_the_list_the_new_one_begins_with_its_first(
    world: World, look: Look, before: str, after: str, made: str, attempt: int, candidate: str, told: str
) -> None:
    world.use(capacity_policies=read_policies(before))
    by_message(world)
    fail(world, 0)
    world.use(capacity_policies=read_policies(after))
    world.cluster.notices.clear()
    look(world)

    assert zones(world) == list(made)
    assert [body["name"] for body in world.pools.bodies] == [name_of(0), name_of(attempt)]
    label = world.pools.bodies[1]["config"]["labels"].get(labels.CANDIDATE, "")
    assert label.startswith(candidate)
    assert bool(label) == bool(candidate)
    assert {told in each.message for each in world.cluster.notices} == {True}


TWO_HUNDRED = "- location: {zones: [" + ", ".join(f"us-east5-z{number}" for number in range(200)) + "]}"
OF_THE_OPERATOR = ("none; an operator can add to the list", "valid: 0 to 0")
"""What would be valid where it is the operator who does not allow it."""
BAD_LISTS = [
    ("spot", {}, "a list like", "no list"),
    ("spot", {}, "Expected `array`, got `str`", "no list, and the error of its reader"),
    ("- preemptible: true", {}, "a list like", "an unknown tier"),
    ("- location: {zones: [us-west1-c]}", {}, "a zone of us-east5", "a zone outside the cluster"),
    (
        "- reservations: {specific: [{name: train, project: lender}]}",
        {},
        "none; an operator can add to the list",
        "a reservation outside the allow-list",
    ),
    (TWO_HUNDRED, {}, "at most 16", "200 candidates"),
    ("- flexStart: {enabled: true}\n  maxRunDurationSeconds: 9", {}, "600 to 604800", "a duration out of range"),
    ("- {}", {labels.FLEX_START_WAIT: "604801"}, "604800", "a wait out of range"),
    ("- {}", {labels.IDLE_SECONDS: "1"}, "valid: 0 to 0", "an idle time out of range"),
    ("- {}\n- {}", {}, "each candidate once", "the same twice"),
    (
        "- flexStart: {enabled: true}\n- {}",
        {labels.FLEX_START_WAIT: "0"},
        "flex-start as the last candidate",
        "two annotations that contradict",
    ),
]


@pytest.mark.parametrize(
    ("text", "annotations", "valid"), [pytest.param(*row[:3], id=row[3]) for row in BAD_LISTS]
)
def test_a_list_that_cannot_be_is_told_on_the_job_with_what_would_be_valid_and_buys_nothing(
    world: World, look: Look, text: str, annotations: dict[str, str], valid: str
) -> None:
    fields = {"annotations": {labels.CAPACITY: text} | annotations}
    try:
        read: dict[str, Any] = {"priorities": read_priorities(text)}
    except UnreadableList as error:
        read = {"unreadable_priorities": str(error)}
    pod = a_pod(shape=fields | read, unschedulable_since=NOW - 20)
    world.cluster.add(pod, a_jobset(template=pod.template))
    look(world)

    assert world.pools.bodies == []
    told = [each for each in world.cluster.notices if valid in each.message]
    assert {each.reason for each in told} == {"NodePoolRefused"}
    reason = "request_not_allowed" if valid in OF_THE_OPERATOR else "capacity_conflict"
    assert all(each.message.endswith(f"[{reason}]") for each in told)
    assert "JobSet" in {each.kind for each in told}
