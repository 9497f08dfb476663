"""A list of capacity: each candidate is tried in order, and the pools say which one they are."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from shared.capacity_lists import UnreadableList, read_policies, read_priorities
from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.errors import Denied, InvalidRequest, NoCapacity, ReservationUnfit
from shared.core.identity.creations import Creation
from tests.builders import CLUSTER, NOW, a_claim, a_demand_event, a_foreign_pool, a_jobset, a_pod, a_pool
from tests.component.looks import Look, by_message, by_sweep
from tests.component.world import World, name_of

STOCKOUT = "Not all instances running in IGM after 35m4s. Current errors: [GCE_STOCKOUT]"
INTERNAL = "Current errors: [INTERNAL_ERROR]"
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


def test_a_reservation_s_pool_that_failed_for_another_reason_keeps_its_number(world: World, look: Look) -> None:
    """The next candidate needs other machines, so the failed pool goes after it and not before."""
    by_message(world)
    fail(world, 0, INTERNAL)
    look(world)

    assert zones(world) == ["a", "b"]
    assert world.pools.pools[CLUSTER, name_of(0)].status == "STOPPING"


def test_a_limit_of_one_slice_does_not_begin_the_list_again(world: World, look: Look) -> None:
    world.use(capacity_policies=read_policies(POLICY), limit_chips=16)
    by_message(world)
    fail_in_turn(world, look, 2)

    assert zones(world) == ["a", "b", "c"]


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


def test_a_right_that_the_functions_lack_stops_all_candidates(world: World) -> None:
    world.pools.fail_next("create", Denied("403"))
    assert world.deliver(a_demand_event()).status == 500

    assert (zones(world), world.last["severity"]) == ([], "CRITICAL")


def test_after_a_refusal_at_once_a_name_that_a_pool_of_others_has_is_left_out(world: World, look: Look) -> None:
    world.pools.add(CLUSTER, a_foreign_pool(name_of(1)))
    for _ in PLACES[:2]:
        world.pools.fail_next("create", NoCapacity("quota"))
    look(world)

    assert zones(world) == ["c"]
    assert [body["name"] for body in world.pools.bodies] == [name_of(5)]
    assert [name for method, name in world.pools.calls if method == "create"] == list(map(name_of, (0, 4, 5)))


@pytest.mark.parametrize("limits", [{}, {"limit_chips": 1000}], ids=["no limit", "a limit"])
def test_a_second_look_some_seconds_after_a_refusal_makes_no_second_pool(
    world: World, look: Look, limits: dict[str, Any]
) -> None:
    """A refusal at once takes no time, so the pod is young and the quota may be free again."""
    world.use(capacity_policies=read_policies(POLICY), **limits)
    world.cluster.add(a_pod(created_at=NOW - 20, unschedulable_since=NOW - 20))
    world.pools.fail_next("create", NoCapacity("quota"))
    look(world)
    world.clock.advance(3)
    look(world)

    assert world.pools.names(CLUSTER) == [name_of(1)]
    assert world.pools.count("create") == 2


@pytest.mark.parametrize("limits", [{}, {"limit_chips": 16}], ids=["no limit", "a limit"])
def test_a_pool_of_the_slice_that_came_after_the_look_stops_the_create(
    world: World, limits: dict[str, Any]
) -> None:
    """Two deliveries at once: the other one is refused and creates the next candidate meanwhile."""
    world.use(capacity_policies=read_policies(POLICY), **limits)
    came = a_pool("PROVISIONING", name=name_of(1), extra_labels={labels.ATTEMPT: "1"})
    world.cluster.before_next("get_namespace", lambda: world.pools.add(CLUSTER, came), skip=2)

    assert world.deliver(a_demand_event()).status == 503
    assert world.says() == ("none", "view_stale")
    assert world.pools.count("create") == 0
    assert [ledger.entries for ledger in world.cluster.ledgers.values()] in ([], [{}]), "no chips stay reserved"
    by_message(world)
    assert world.says() == ("wait", "pool_in_progress")
    assert world.pools.names(CLUSTER) == [name_of(1)]


def test_the_list_of_a_sweep_does_not_hide_an_attempt_of_a_message(world: World) -> None:
    """The sweep's list is up to 30 s old when a leader is answered."""

    def by_other() -> None:
        world.pools.fail_next("create", NoCapacity("quota"))
        by_message(world)

    world.cluster.before_next("list_waiting_leaders", by_other)
    world.sweep()

    assert world.pools.names(CLUSTER) == [name_of(1)]


def test_if_gke_refuses_all_candidates_the_last_refusal_is_told(world: World) -> None:
    for _ in PLACES:
        world.pools.fail_next("create", InvalidRequest("no such machine"))
    by_message(world)

    assert world.pools.bodies == []
    assert world.says() == ("refuse", "request_invalid")


def test_the_first_candidate_comes_again_if_gke_refuses_the_others_at_once(world: World, look: Look) -> None:
    by_message(world)
    refuse_at_once(world, "b", "c")
    fail(world, 0)
    made_at = int(world.clock.now())
    look(world)
    world.records.expect_in_order({"decision": "wait", "attempt": 2, "pool": name_of(2)})
    assert world.pools.names(CLUSTER) == [name_of(0)], "it is the record of the round"

    world.clock.advance(made_at + find_pause(a_claim().hash, 2, 3) + 1 - world.clock.now())
    look(world)
    assert [body["name"] for body in world.pools.bodies] == [name_of(0), name_of(3)]


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


NO_MACHINE = "Machine type with name 'ct6e-standard-4t' does not exist in zone 'us-east5-a'."
NO_RESERVATION = "Invalid value for field 'resource.reservationAffinity': '{…}'. Reservation train does not exist."
RIGHTS = "Atomic resize failed with [PERMISSIONS_ERROR]: Required 'compute.instances.create' permission."


@pytest.mark.parametrize(
    ("error", "code", "failure"),
    [
        (NO_MACHINE, 3, "zone"),
        (NO_RESERVATION, 3, "shape"),
        ("Something new.", 3, "unknown"),
        (RIGHTS, 7, "rights"),
        ("Constraint constraints/compute.requireShieldedVm violated for project p.", 9, "policy"),
    ],
    ids=["no such machine", "no such reservation", "unknown words", "rights", "policy"],
)
def test_with_a_list_no_failure_is_final(world: World, look: Look, error: str, code: int, failure: str) -> None:
    """Each candidate is tried, then there is a pause, and the list begins again."""
    by_message(world)
    for attempt in range(3):
        fail(world, attempt, error)
        made = world.pools.creations[CLUSTER, name_of(attempt)]
        world.pools.creations[CLUSTER, name_of(attempt)] = dataclasses.replace(made, code=code)
        if attempt < 2:
            look(world)
            world.pools.move(CLUSTER, name_of(attempt), "gone")
    assert zones(world) == ["a", "b", "c"]
    look(world)
    world.records.expect_in_order({"decision": "wait", "failure": failure, "attempt": 2})

    world.clock.advance(find_pause(a_claim().hash, 2, 3))
    look(world)
    assert zones(world) == ["a", "b", "c", "a"]


def test_a_pool_of_any_candidate_serves(world: World, look: Look) -> None:
    by_message(world)
    fail(world, 0)
    look(world)
    world.pools.move(CLUSTER, name_of(0), "gone")
    world.pools.move(CLUSTER, name_of(1), "RUNNING")
    world.use()  # the operator takes the policy away
    world.clock.advance(400)
    look(world)

    assert len(world.pools.bodies) == 2
    assert world.pools.names(CLUSTER) == [name_of(1)]


@pytest.mark.parametrize("failed_pool_is_there", [False, True])
def test_what_only_the_sweep_reads_does_not_change_the_number(world: World, *, failed_pool_is_there: bool) -> None:
    """A concurrent message must get the same name, so GKE's list of operations does not count."""
    by_message(world)
    if failed_pool_is_there:
        fail(world, 0)
    else:
        world.pools.move(CLUSTER, name_of(0), "gone")
    world.cluster.add(a_pod(created_at=NOW, unschedulable_since=NOW - 3600))
    ended = Creation(pool=name_of(1), ended=True, error=STOCKOUT, began_at=NOW + 10, ended_at=NOW + 20)
    world.pools.creations[CLUSTER, name_of(1)] = ended
    by_sweep(world)
    assert len(world.pools.bodies) == 1, "the pause holds, as after a round"

    world.clock.advance(NOW + 21 + find_pause(a_claim().hash, 0) - world.clock.now())
    by_sweep(world)
    following = name_of(1 if failed_pool_is_there else 0)
    assert [body["name"] for body in world.pools.bodies] == [name_of(0), following]


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
