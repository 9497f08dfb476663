"""A pool held by others' pods while its own pod waits: its owner is told, and nothing is done."""

from typing import Any

import pytest

from cli.fleet.status import read_status
from shared.core import labels
from shared.core.errors import Denied, ProvisionerError, Unavailable
from shared.core.workloads import PodView
from tests.builders import CLUSTER, NOW, a_claim, a_jobset, a_pod, a_pool
from tests.component.test_component_elastic import GRACE, Elastic
from tests.component.world import World

LONG = GRACE + 60.0
TAKEN = ("refuse", "pool_taken")
UNPLACED = ("wait", "pod_unplaced")
"""What is said of a slice that no other workload keeps waiting."""


class Waiting:
    """JobSet ``default/train``: its first slice waits, though its pool runs."""

    def __init__(self, world: World, *, age_seconds: float = LONG, waits_seconds: float | None = LONG) -> None:
        self.world = world
        since = None if waits_seconds is None else NOW - waits_seconds
        world.cluster.add(a_pod(unschedulable_since=since))
        self.pool = a_pool(age_seconds=age_seconds)
        world.pools.add(CLUSTER, self.pool)

    def take(self, workload: str, kind: str = "Deployment", **fields: Any) -> None:
        self.world.cluster.bind(self.pool.name, kind=kind, workload=workload, **fields)

    def sweep(self) -> dict[str, int]:
        _, counts = self.world.sweep()
        return counts

    def told(self) -> list[tuple[str, str]]:
        """Return what sweeps logged about slices that wait; that all is well is not logged."""
        found = [each for each in self.world.records.found if each.get("subject", "").startswith("Pod ")]
        return [(each["decision"], each["reason"]) for each in found]


def test_job_and_pod_are_told_who_uses_the_pool_and_how_to_prevent_it(world: World) -> None:
    waiting = Waiting(world)
    for name in ("serving", "serving", "chat", "lab", "batch"):
        waiting.take(name)
    calls = len(world.pools.calls)

    waiting.sweep()

    assert [(each.kind, each.reason, each.warning) for each in world.cluster.notices] == [
        ("JobSet", "NodePoolRefused", True),
        ("Pod", "NodePoolRefused", True),
    ]
    assert waiting.told() == [TAKEN]
    (message,) = {each.message for each in world.cluster.notices}
    assert "(Deployment default/batch, Deployment default/chat, Deployment default/lab and 1 more)" in message
    assert "or set on the JobSet the annotations alpha.jobset.sigs.k8s.io/exclusive-topology" in message
    assert world.pools.calls[calls:] == [("list", "")]


def test_status_counts_it_among_what_needs_a_person(world: World) -> None:
    waiting = Waiting(world)
    waiting.take("")

    status = read_status(world.ports)

    assert [(row.slice, row.decision, row.reason, row.stuck) for row in status.waiting] == [
        ("train-workers-0", *TAKEN, True)
    ]
    assert "(Pod default/bare-0)" in status.troubles[0].text
    assert world.cluster.notices == {}


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        pytest.param([], UNPLACED, id="nobody"),
        pytest.param([{"kind": "JobSet", "workload": "train"}], UNPLACED, id="pods of the same workload"),
        pytest.param([{"workload": "monitor", "chips": 0}], UNPLACED, id="pods without chips"),
        pytest.param([{"workload": "serving", "deleting_since": NOW - 1}], UNPLACED, id="pods that end"),
        pytest.param([{"workload": "serving", "deleting_since": NOW - 10_000}], TAKEN, id="that do not end"),
    ],
)
def test_those_who_take_nothing_are_not_named(
    world: World, pods: list[dict[str, Any]], told: tuple[str, str]
) -> None:
    waiting = Waiting(world)
    for fields in pods:
        waiting.take(**fields)

    waiting.sweep()

    assert waiting.told() == [told]


@pytest.mark.parametrize("status", ["PROVISIONING", "RUNNING"])
def test_a_taker_whose_own_pool_still_comes_will_leave_room(world: World, status: str) -> None:
    waiting = Waiting(world)
    waiting.take("other", kind="JobSet")
    world.cluster.add(a_jobset(name="other", uid="o"))
    theirs = a_claim(name="other", owner_uid="o", slice_key="default/other-workers-0")
    world.pools.add(CLUSTER, a_pool(status, claim=theirs))

    waiting.sweep()

    assert waiting.told() == ([UNPLACED] if status == "PROVISIONING" else [TAKEN])


@pytest.mark.parametrize("error", [Unavailable("gone"), Denied("not allowed")])
def test_a_cluster_that_does_not_tell_changes_nothing(world: World, error: ProvisionerError) -> None:
    waiting = Waiting(world)
    waiting.take("serving")
    world.cluster.fail_next("list_pool_pods", error)

    assert waiting.sweep()["errors"] == 0

    assert waiting.told() == [UNPLACED]
    world.records.expect_in_order({"message": "the pods on a node pool could not be read"})


def test_of_an_elastic_pool_it_is_said_too(world: World) -> None:
    elastic = Elastic(world, pods=2)
    world.cluster.bind(elastic.pool, kind="Deployment", workload="serving", chips=1, node="n1")

    elastic.sweep(after=60)
    assert ("Job", "NodePoolRefused", True) not in world.notices()
    elastic.sweep(after=LONG)

    assert ("Job", "NodePoolRefused", True) in world.notices()
    assert "set on the Job" not in str(world.cluster.notices)


class Begun(Waiting):
    """The slice's first pod got in and a later one waits."""

    def __init__(self, world: World, *, waits_seconds: float = LONG) -> None:
        super().__init__(world)
        world.cluster.pods.clear()
        world.cluster.add(
            a_pod(node_name="n0", phase="Running"),
            *(self.follower(index, unschedulable_since=NOW - waits_seconds) for index in (1, 2)),
        )
        self.take("train", kind="JobSet")

    @staticmethod
    def follower(index: int, **overrides: Any) -> PodView:
        pod_labels = {labels.COMPLETION_INDEX: str(index)}
        name = f"train-workers-0-{index}"
        return a_pod(**{"pod_labels": pod_labels, "name": name, "uid": name, **overrides})


def test_of_a_slice_that_has_begun_it_is_said_on_one_pod_that_waits(world: World) -> None:
    begun = Begun(world)
    begun.take("serving")

    begun.sweep()

    assert begun.told() == [TAKEN]
    assert [(each.kind, each.name) for each in world.cluster.notices] == [
        ("JobSet", "train"),
        ("Pod", "train-workers-0-1"),
    ]
    assert [row.reason for row in read_status(world.ports).waiting] == ["pool_taken"]
