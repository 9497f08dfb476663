"""Suspended workloads that wait for capacity: all slices or none, one resume, all given back."""

import dataclasses
from typing import Any

import pytest

from shared.core import labels
from shared.core.errors import Denied, StaleView, Throttled, Unavailable
from shared.core.messages import Event, EventType, Observed
from shared.core.workloads import NodeView, WorkloadView
from tests.audit_entries import an_entry, as_message
from tests.builders import CLUSTER, NOW, a_jobset, a_pod, an_over_event
from tests.component.looks import Look, choose_look
from tests.component.world import World, slice_name

ASKS = {labels.CAPACITY_FIRST: "true"}
NAMES = [slice_name(index) for index in range(2)]


def an_event() -> Event:
    return an_over_event(Observed.CAPACITY_FIRST, type=EventType.DEMAND)


def by_message(world: World) -> None:
    world.deliver(an_event())


def by_sweep(world: World) -> None:
    world.sweep()


look = choose_look(by_message, by_sweep)


def start_waiting(world: World) -> None:
    """Let one suspended JobSet without pods wait for its capacity."""
    world.use(capacity_first=True)
    world.cluster.pods.clear()
    put(world)


@pytest.fixture(autouse=True)
def _waiting(world: World) -> None:
    start_waiting(world)


def put(world: World, marks: dict[str, str] | None = None, **overrides: Any) -> None:
    world.cluster.add(a_jobset(**{"suspended": True, "marks": ASKS | (marks or {}), "version": "1", **overrides}))


def jobset(world: World) -> WorkloadView:
    return world.cluster.workloads["JobSet", "default", "train"]


def run(world: World, *names: str) -> None:
    for name in names:
        world.pools.move(CLUSTER, name, "RUNNING")
        world.cluster.nodes[name] = [f"{name}-node"]


def told(world: World) -> list[str]:
    return [each.reason for each in world.cluster.notices]


def test_all_pools_are_made_and_the_workload_is_resumed_once(world: World, look: Look) -> None:
    look(world)
    assert world.pools.names(CLUSTER) == NAMES
    assert jobset(world).suspended
    run(world, NAMES[0])
    look(world)
    assert jobset(world).suspended
    run(world, NAMES[1])
    look(world)

    assert not jobset(world).suspended
    assert labels.CAPACITY_FIRST_RESUMED in jobset(world).marks
    assert labels.CAPACITY_FIRST_ROUND not in jobset(world).marks
    assert told(world).count("WorkloadResumed") == 1
    version = jobset(world).version
    for _ in range(3):
        look(world)
    assert jobset(world).version == version
    assert world.pools.count("create") == 2


def test_the_pools_are_those_of_the_pods_that_come_later(world: World) -> None:
    world.sweep()
    run(world, *NAMES)
    world.sweep()
    for index in range(2):
        world.cluster.add(a_pod(index=index, uid=f"uid-{index}", unschedulable_since=NOW - 20))
    world.sweep()

    assert world.pools.names(CLUSTER) == NAMES
    assert world.pools.count("create") == 2


def test_a_later_suspend_of_a_person_stays_and_ends_after_the_grace(world: World) -> None:
    world.sweep()
    run(world, *NAMES)
    world.sweep()
    world.clock.advance(100)
    suspended = dataclasses.replace(jobset(world), suspended=True, suspended_since=NOW + 100)
    world.cluster.add(suspended)
    world.sweep()
    assert jobset(world).suspended
    assert world.pools.count("delete") == 0
    world.clock.advance(301)
    world.sweep()

    assert jobset(world).suspended
    assert world.pools.count("delete") == 2


def test_a_workload_that_a_person_resumed_is_never_resumed_again(world: World) -> None:
    world.sweep()
    world.cluster.add(dataclasses.replace(jobset(world), suspended=False))
    world.sweep()
    run(world, *NAMES)
    world.cluster.add(dataclasses.replace(jobset(world), suspended=True))
    world.sweep()

    assert jobset(world).suspended


def test_waiting_is_no_suspension_and_its_pools_stay_without_pods(world: World) -> None:
    put(world, {labels.CAPACITY_FIRST_SECONDS: "3600"}, suspended_since=NOW - 5000)
    world.sweep()
    run(world, NAMES[0])
    for _ in range(3):
        world.clock.advance(600)
        world.sweep()
        world.collect(an_over_event("suspended"))

    assert world.pools.count("delete") == 0


def test_what_is_not_whole_in_time_is_given_back_and_begins_again_after_a_pause(world: World, look: Look) -> None:
    look(world)
    run(world, NAMES[0])
    world.clock.advance(1799)
    look(world)
    assert world.pools.count("delete") == 0
    world.clock.advance(1)
    look(world)
    assert [name for method, name in world.pools.calls if method == "delete"] == [NAMES[0]]
    assert jobset(world).marks[labels.CAPACITY_FIRST_ROUND].startswith("1 from ")
    assert any("1 of 2 slices got their node pools" in each.message for each in world.cluster.notices)

    world.pools.move(CLUSTER, NAMES[0], "gone")
    run(world, NAMES[1])
    listed = world.pools.count("list")
    by_message(world)
    assert world.pools.count("list") == listed, "in the pause a message has nothing to look at"
    by_sweep(world)  # what GKE had not made yet goes too
    assert [name for method, name in world.pools.calls if method == "delete"] == NAMES
    world.pools.move(CLUSTER, NAMES[1], "gone")
    world.pools.creations.clear()
    look(world)
    assert world.pools.names(CLUSTER) == []
    world.clock.advance(80)
    look(world)

    assert world.pools.names(CLUSTER) == NAMES
    assert jobset(world).suspended


def test_a_slice_follows_its_attempts_meanwhile(world: World, look: Look) -> None:
    look(world)
    run(world, NAMES[0])
    world.pools.fail(CLUSTER, NAMES[1], "Current errors: [GCE_STOCKOUT]")
    look(world)
    assert any("next try at" in each.message for each in world.cluster.notices)
    world.clock.advance(80)
    look(world)

    second = slice_name(1, 1)
    assert second in world.pools.names(CLUSTER)
    run(world, second)
    look(world)
    assert not jobset(world).suspended


@pytest.mark.parametrize(
    ("marks", "overrides", "use", "words"),
    [
        ({labels.CAPACITY_FIRST: "yes"}, {}, {}, "valid: true, false"),
        ({labels.CAPACITY_FIRST_SECONDS: "5"}, {}, {}, "60 to 86400"),
        ({labels.DISABLE_AUTOPROVISIONING: "true"}, {}, {}, "contradicts"),
        ({labels.QUEUE_NAME: "q"}, {}, {}, "queue"),
        ({}, {"replicas": 3}, {"limit_chips": 40}, "limit_chips is 40"),
        ({}, {}, {"mode": "no-create"}, "no-create"),
        ({}, {}, {"allowed_namespaces": ("a",)}, "allowed_namespaces"),
    ],
)
def test_what_is_refused_is_told_and_creates_nothing(
    world: World, look: Look, marks: dict[str, str], overrides: dict[str, Any], use: dict[str, Any], words: str
) -> None:
    world.use(capacity_first=True, **use)
    put(world, marks, **overrides)
    look(world)

    assert world.pools.count("create") == 0
    assert jobset(world).suspended
    assert [each.reason for each in world.cluster.notices if words in each.message] == ["NodePoolRefused"]


def test_the_setting_is_off_by_default_and_the_workload_is_told(world: World) -> None:
    world.use()
    world.deliver(an_event())
    world.sweep()

    assert world.pools.count("create") == 0
    assert [each.message for each in world.cluster.notices if "the setting capacity_first is off" in each.message]


@pytest.mark.parametrize(
    ("namespace", "key", "value"),
    [
        ("default", labels.DISABLE_AUTOPROVISIONING, "true"),
        *(("tpu-provisioner", labels.MODE, mode) for mode in ("report-only", "no-create", "nonsense")),
    ],
)
def test_a_namespace_that_opts_out_and_the_emergency_stop_stop_it(
    world: World, look: Look, namespace: str, key: str, value: str
) -> None:
    world.cluster.namespace_labels[namespace] = {key: value}
    look(world)

    assert world.pools.count("create") == 0
    assert jobset(world).suspended


def test_without_the_right_nothing_is_bought_and_the_sweep_tries_again(world: World, look: Look) -> None:
    world.cluster.fail_next("change_workload", Denied("patch of jobsets is forbidden"))
    look(world)
    assert world.pools.count("create") == 0
    assert [each.reason for each in world.cluster.notices if "patch of jobsets is forbidden" in each.message]
    assert any(record.get("reason") == "permission_denied" for record in world.records.found)
    world.sweep()

    assert world.pools.names(CLUSTER) == NAMES


def test_without_the_right_at_the_end_the_sweep_resumes_it_later(world: World) -> None:
    world.sweep()
    run(world, *NAMES)
    world.cluster.fail_next("change_workload", Denied("patch of jobsets is forbidden"))
    assert world.sweep()[0] == 500
    assert jobset(world).suspended
    world.sweep()

    assert not jobset(world).suspended


@pytest.mark.parametrize("error", [StaleView("changed"), Unavailable("no answer")])
@pytest.mark.parametrize("performed", [False, True])
def test_a_resume_that_failed_or_lost_its_reply_is_done_once(
    world: World, error: Unavailable | StaleView, performed: bool
) -> None:
    by_message(world)
    run(world, *NAMES)
    world.cluster.fail_next("change_workload", error, performed=performed)
    assert world.deliver(an_event()).status == 503
    assert jobset(world).suspended != performed
    world.deliver(an_event())
    world.deliver(an_event())

    assert not jobset(world).suspended
    assert jobset(world).generation == 1


def test_a_suspend_between_the_look_and_the_resume_is_kept(world: World) -> None:
    by_message(world)
    run(world, *NAMES)

    def edit() -> None:
        world.cluster.add(dataclasses.replace(jobset(world), marks={}, version="99"))

    world.cluster.before_next("change_workload", edit)
    assert world.deliver(an_event()).status == 503
    world.deliver(an_event())

    assert jobset(world).suspended


def test_two_deliveries_at_the_same_time_make_each_pool_once(world: World) -> None:
    world.cluster.before_next("get_namespace", lambda: by_message(world), skip=1)
    by_message(world)
    by_message(world)

    assert world.pools.names(CLUSTER) == NAMES
    assert len(world.pools.bodies) == 2


def test_a_message_about_what_is_gone_or_another_does_nothing(world: World) -> None:
    put(world, uid="another")
    assert world.deliver(an_event()).status == 200
    world.cluster.workloads.clear()
    assert world.deliver(an_event()).status == 200

    assert world.pools.count("create") == 0
    assert world.says() == ("nothing", "demand_gone")


def test_the_end_of_the_last_creation_resumes_it_at_once(world: World) -> None:
    by_message(world)
    run(world, NAMES[0])
    world.deliver(as_message(an_entry(pool=NAMES[0])), "settle")
    assert jobset(world).suspended
    run(world, NAMES[1])
    world.deliver(as_message(an_entry(pool=NAMES[1])), "settle")

    assert not jobset(world).suspended


def test_one_that_cannot_be_answered_does_not_stop_the_others(world: World) -> None:
    world.cluster.add(
        a_jobset(name="train-2", uid="other-uid", suspended=True, marks=ASKS, version="1", replicas=1)
    )
    world.cluster.fail_next("change_workload", Unavailable("no answer"))
    assert world.sweep()[1]["errors"] == 1

    assert len(world.pools.names(CLUSTER)) == 1


def test_a_kind_that_cannot_be_suspended_is_refused_by_its_pods(world: World) -> None:
    pod = a_pod()
    bare = dataclasses.replace(
        pod,
        controller_kind="",
        controller_name="",
        template=dataclasses.replace(pod.template, labels={}, annotations={}),
    )
    world.cluster.workloads.clear()
    world.cluster.add(bare, a_jobset(kind="Pod", name=bare.name, uid=bare.uid, marks=ASKS, replicas=1))
    world.sweep()

    assert world.pools.count("create") == 0
    assert [each.message for each in world.cluster.notices if "a Pod cannot be suspended" in each.message]


@pytest.mark.parametrize("ready", [True, False])
def test_a_pool_with_errors_whose_nodes_are_all_ready_is_one(world: World, look: Look, *, ready: bool) -> None:
    """Else the workload would wait for ever: such a pool is neither replaced nor given back."""
    by_message(world)
    for name in NAMES:
        world.pools.move(CLUSTER, name, "RUNNING")
    world.pools.move(CLUSTER, NAMES[0], "RUNNING_WITH_ERROR")
    hosts = [f"n{at}" for at in range(4)]
    world.cluster.nodes[NAMES[0]] = hosts
    world.cluster.node_views = {each: NodeView(name=each, ready=ready, created_at=NOW) for each in hosts}
    world.clock.advance(400)
    look(world)

    assert jobset(world).suspended is not ready
    assert (str(world.pools.pools[CLUSTER, NAMES[0]].status) == "STOPPING") is not ready


def test_a_creation_is_recorded_although_its_workload_cannot_be_answered(world: World) -> None:
    world.pools.fail_next("create", Throttled("429"))
    by_message(world)
    (made,) = world.pools.names(CLUSTER)
    world.pools.move(CLUSTER, made, "RUNNING")
    world.pools.fail_next("create", Throttled("429"))

    assert world.deliver(as_message(an_entry(pool=made)), "settle").status == 503
    assert [each.get("reason") for each in world.records.found[-2:]] == ["pool_created", "throttled"]
