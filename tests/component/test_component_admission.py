"""Kueue's admission check in sweeps: pools for all slices before pods, or the quota goes back."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from shared.core.errors import Denied, KindAbsent, ProvisionerError, StaleView
from shared.core.kueue import CheckState
from shared.core.labels import ACCELERATOR, CAPACITY_CHECK_SECONDS, NODE_POOL, SPOT, TOPOLOGY
from shared.core.messages import EventType, Observed
from tests.audit_entries import STOCKOUT, an_entry, as_message
from tests.builders import CLUSTER, JOBSET_UID, NOW, a_jobset, a_template, an_over_event
from tests.component.fake_queues import reserve_quota
from tests.component.world import Records, World


class Queued(World):
    """JobSet ``default/train`` with two slices is suspended; Kueue has reserved quota for it."""

    def __init__(self, records: Records, jobset: Any = None, **overrides: Any) -> None:
        super().__init__(records, kueue_admission_check=True, **overrides)
        self.cluster.pods.clear()
        self.queues = reserve_quota(self, jobset or a_jobset(replicas=2, suspended=True))

    @property
    def state(self) -> CheckState:
        """Our check of the workload."""
        return self.queues.state("train")

    def change_queued(self, **changes: Any) -> None:
        """Change what Kueue says of the workload."""
        self.queues.workloads["train"] = dataclasses.replace(self.queues.workloads["train"], **changes)

    def change_check(self, **changes: Any) -> None:
        """Change the check that an operator has made."""
        self.queues.checks = [dataclasses.replace(self.queues.checks[0], **changes)]

    def run_all(self) -> None:
        for name in self.pools.names(CLUSTER):
            self.pools.move(CLUSTER, name, "RUNNING")

    def statuses(self) -> list[str]:
        return sorted(str(pool.status) for pool in self.pools.pools.values())


@pytest.fixture
def world(records: Records) -> Queued:
    return Queued(records)


def test_the_check_is_ready_when_all_pools_run_and_the_pods_need_no_other(world: Queued) -> None:
    world.sweep()
    assert world.statuses() == ["PROVISIONING", "PROVISIONING"]
    assert world.state.state == "Pending"
    assert "0 of 2 slices have their node pools" in world.state.message
    assert world.queues.checks[0].active

    world.pools.move(CLUSTER, world.pools.names(CLUSTER)[0], "RUNNING")
    world.sweep()
    assert (world.state.state, len(world.pools.bodies)) == ("Pending", 2)

    world.run_all()
    world.sweep()
    assert world.queues.follow("train") == "Ready"
    assert world.sweep()[0] == 200
    assert world.statuses() == ["RUNNING", "RUNNING"]
    assert world.pools.count("delete") == 0


def test_pools_of_a_suspended_workload_stay_while_kueue_holds_quota_and_go_when_it_does_not(world: Queued) -> None:
    world.sweep()
    world.run_all()
    world.clock.advance(1200)
    world.cluster.nodes = {name: [f"node-of-{name}"] for name in world.pools.names(CLUSTER)}
    world.sweep()
    assert world.statuses() == ["RUNNING", "RUNNING"]

    world.change_queued(holds_quota=False)
    world.sweep()
    assert world.statuses() == ["STOPPING", "STOPPING"]


def test_after_the_last_candidate_the_quota_goes_back_with_a_pause(world: Queued) -> None:
    world.sweep()
    first, second = world.pools.names(CLUSTER)
    world.pools.fail(CLUSTER, first, "GCE_STOCKOUT: no capacity", ended_at=NOW)
    world.pools.move(CLUSTER, second, "RUNNING")
    world.cluster.nodes = {second: ["node-of-second"]}
    world.sweep()

    assert world.state.state == "Retry"
    assert world.queues.retry_seconds is not None
    assert 60 <= world.queues.retry_seconds <= 75
    assert "GCE_STOCKOUT" in world.state.message
    world.queues.follow("train")
    world.sweep()
    assert world.statuses() == ["STOPPING", "STOPPING"]
    assert world.pools.count("create") == 2


@pytest.mark.parametrize(
    ("of_check", "of_owner", "seconds"),
    [(None, None, 1800), (3600, None, 3600), (1800, "3600", 3600), (86_400, "60", 60)],
)
def test_the_workload_says_for_how_long_a_part_is_held_else_its_check(
    records: Records, of_check: int | None, of_owner: str | None, seconds: int
) -> None:
    marks = {CAPACITY_CHECK_SECONDS: of_owner} if of_owner else {}
    world = Queued(records, a_jobset(replicas=2, suspended=True, marks=marks))
    if of_check is not None:
        world.change_check(seconds=of_check)
    world.sweep()
    world.clock.advance(seconds - 10)
    world.sweep()
    assert world.state.state == "Pending"
    world.clock.advance(11)
    world.sweep()
    assert world.state.state == "Retry"
    assert f"within {seconds} s" in world.state.message


def test_a_check_with_a_time_that_is_no_time_answers_nothing_until_it_is_mended(world: Queued) -> None:
    world.change_check(problem="not a number of seconds")
    world.sweep()
    assert reserved(world) == 200
    assert (world.queues.checks[0].active, world.queues.checks[0].told) == (False, "not a number of seconds")
    assert (world.pools.count("create"), world.queues.writes) == (0, 0)

    world.change_check(problem="")
    world.sweep()
    assert world.queues.checks[0].active
    assert world.pools.count("create") == 2


@pytest.mark.parametrize(
    ("owner", "overrides", "state", "words"),
    [
        ({"marks": {CAPACITY_CHECK_SECONDS: "30m"}}, {}, "Rejected", "valid: 60 to 86400"),
        ({"template": a_template(topology="3x7")}, {}, "Rejected", "3x7"),
        ({"template": a_template(accelerator=None, topology=None, chips=0)}, {}, "Ready", ""),
        ({}, {"limit_slices": 1}, "Retry", ""),
        ({}, {"mode": "no-create"}, "Retry", ""),
        ({}, {"allowed_accelerators": ("nvidia-l4",)}, "Retry", ""),
        ({}, {"allowed_namespaces": ("team-*",)}, "Retry", ""),
        ({}, {"kinds": ("Job",)}, "Retry", ""),
    ],
    ids=["wrong time", "wrong shape", "no accelerators", "limit", "mode", "accelerators", "namespaces", "kinds"],
)
def test_without_any_pool_the_check_is_answered_by_what_may_change(
    records: Records, owner: dict[str, Any], overrides: dict[str, Any], state: str, words: str
) -> None:
    """What can never be is rejected, what may change is tried again, and nothing waits for none."""
    world = Queued(records, a_jobset(**{"replicas": 2, "suspended": True, **owner}), **overrides)
    world.sweep()
    assert world.state.state == state
    assert words in world.state.message
    assert world.pools.count("create") == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"owner_kind": "MPIJob", "owner_api": "kubeflow.org/v2beta1"}, "MPIJob (kubeflow.org/v2beta1)"),
        ({"owner_api": "example.com/v1"}, "JobSet (example.com/v1)"),
        ({"owner_kind": "", "owner_api": ""}, "a Workload without an owner"),
    ],
)
def test_an_owner_that_is_not_served_is_rejected_by_name(
    world: Queued, changes: dict[str, Any], words: str
) -> None:
    world.change_queued(**changes)
    world.sweep()
    assert world.state.state == "Rejected"
    assert words in world.state.message
    assert "JobSet, RayCluster, Job" in world.state.message


def test_pools_have_what_the_flavor_adds(world: Queued) -> None:
    world.queues.added = {SPOT: "true"}
    world.sweep()
    assert {body["config"].get("spot") for body in world.pools.bodies} == {True}


@pytest.mark.parametrize(
    ("template", "added", "state"),
    [
        ({"accelerator": None, "topology": None}, {ACCELERATOR: "tpu-v6e-slice", TOPOLOGY: "3x7"}, "Retry"),
        ({}, {NODE_POOL: "mine"}, "Retry"),
        ({"topology": "3x7"}, {SPOT: "true"}, "Rejected"),
    ],
)
def test_what_a_flavor_alone_makes_impossible_is_tried_again(
    records: Records, template: dict[str, Any], added: dict[str, str], state: str
) -> None:
    world = Queued(records, a_jobset(replicas=2, suspended=True, template=a_template(**template)))
    world.queues.added = added
    world.sweep()
    assert world.state.state == state


def test_another_controllers_check_and_a_workload_without_quota_are_left_alone(world: Queued) -> None:
    world.change_queued(holds_quota=False)
    world.sweep()
    world.queues.reserve(a_jobset(replicas=2, suspended=True), at=NOW)
    world.queues.checks = []
    world.sweep()
    assert (world.pools.count("create"), world.queues.writes) == (0, 0)


def test_the_same_state_is_written_once(world: Queued) -> None:
    world.sweep()
    world.sweep()
    written = world.queues.writes
    world.sweep()
    assert world.queues.writes == written


@pytest.mark.parametrize(
    ("method", "error", "status"),
    [
        ("list_checks", KindAbsent("no Kueue"), 200),
        ("list_workloads", Denied("no right"), 500),
        ("write_state", StaleView("changed"), 503),
    ],
)
def test_an_error_of_kueue_stops_nothing_else(world: Queued, method: str, error: Any, status: int) -> None:
    world.queues.fail_next(method, error)
    found, counts = world.sweep()
    assert (found, counts["errors"]) == (status, 1)


def test_without_the_setting_nothing_is_asked_of_kueue(records: Records) -> None:
    world = Queued(records)
    world.use()
    world.sweep()
    assert world.queues.writes == 0
    assert world.pools.count("create") == 0


def test_after_the_end_of_a_delivery_kueue_is_asked_nothing(world: Queued) -> None:
    world.pools.before_next("list", lambda: world.clock.advance(3600))
    assert world.sweep()[1]["errors"] >= 1
    assert world.queues.writes == 0
    assert not world.queues.checks[0].active


# --- by messages, within seconds ------------------------------------------------------------------


def reserved(world: World, uid: str = JOBSET_UID) -> int:
    """Deliver that quota was reserved for the workload."""
    return world.deliver(an_over_event(Observed.QUOTA_RESERVED, type=EventType.DEMAND, uid=uid)).status


def test_a_message_creates_the_pools_and_the_end_of_the_last_creation_makes_the_check_ready(world: Queued) -> None:
    assert reserved(world) == 200
    assert world.statuses() == ["PROVISIONING", "PROVISIONING"]
    assert world.says() == ("create", "pool_absent")
    assert "0 of 2 slices have their node pools" in world.state.message

    first, second = world.pools.names(CLUSTER)
    world.pools.move(CLUSTER, first, "RUNNING")
    assert world.deliver(as_message(an_entry(pool=first)), "settle").status == 200
    assert world.state.state == "Pending"
    assert "1 of 2 slices have their node pools" in world.state.message

    world.pools.move(CLUSTER, second, "RUNNING")
    assert world.deliver(as_message(an_entry(pool=second)), "settle").status == 200
    assert world.state.state == "Ready"
    assert world.pools.count("create") == 2


def test_the_end_of_a_creation_that_failed_gives_the_quota_back_at_once(world: Queued) -> None:
    reserved(world)
    first, _ = world.pools.names(CLUSTER)
    world.pools.fail(CLUSTER, first, "GCE_STOCKOUT: no capacity", ended_at=NOW)

    assert world.deliver(as_message(an_entry(pool=first, status=STOCKOUT)), "settle").status == 200
    assert world.state.state == "Retry"
    assert world.pools.count("create") == 2


def test_the_same_message_again_changes_nothing(world: Queued) -> None:
    assert [reserved(world) for _ in range(3)] == [200] * 3
    assert (world.pools.count("create"), world.queues.writes) == (2, 2), (
        "the number that is ready, then that of those made"
    )
    assert world.says() == ("wait", "pool_in_progress")


def change_owner(world: Queued, **changes: Any) -> None:
    owner = world.cluster.workloads["JobSet", "default", "train"]
    world.cluster.add(dataclasses.replace(owner, **changes))


def serve_no_queues(world: Queued) -> None:
    world.ports = dataclasses.replace(world.ports, queues={})


NOT_TRUE: dict[str, Callable[[Queued], object]] = {
    "no quota": lambda world: world.change_queued(holds_quota=False),
    "another uid": lambda world: change_owner(world, uid="another"),
    "resumed": lambda world: change_owner(world, suspended=False),
    "gone": lambda world: world.cluster.workloads.clear(),
    "deleting": lambda world: change_owner(world, deleting=True),
    "another check": lambda world: world.queues.checks.clear(),
    "answered": lambda world: world.change_queued(checks=(dataclasses.replace(world.state, state="Ready"),)),
    "without the setting": serve_no_queues,
    "a forged uid": lambda _world: None,
}


@pytest.mark.parametrize("change", NOT_TRUE)
def test_a_message_that_is_not_true_any_more_does_nothing(world: Queued, change: str) -> None:
    NOT_TRUE[change](world)

    assert reserved(world, uid="forged" if change == "a forged uid" else JOBSET_UID) == 200
    assert world.says() == ("nothing", "demand_gone")
    assert (world.pools.count("create"), world.queues.writes) == (0, 0)


@pytest.mark.parametrize(
    ("method", "error", "status"),
    [
        ("write_state", StaleView("it has changed"), 503),
        ("list_owned", Denied("no right"), 500),
        ("list_checks", Denied("no right"), 500),
    ],
)
def test_a_message_comes_again_after_what_a_retry_or_a_person_repairs(
    world: Queued, method: str, error: ProvisionerError, status: int
) -> None:
    world.queues.fail_next(method, error)
    assert reserved(world) == status
    assert reserved(world) == 200
    assert world.statuses() == ["PROVISIONING", "PROVISIONING"]
