"""Disks of pods' claims: read only for pods that have claims, and no pool is bought elsewhere."""

import dataclasses
from typing import Any

import pytest

from cli.rehearsal import open_rehearsal, rehearse, rehearse_leaders
from shared.core.errors import Denied, Unavailable
from shared.core.workloads import Disk
from shared.engine.tell import Outcome
from tests.builders import CLUSTER, NOW, a_demand_event, a_jobset, a_pod, a_template
from tests.component.fake_queues import reserve_quota
from tests.component.looks import Look, by_message
from tests.component.world import World
from tests.unit.test_candidates import listing
from tests.unit.test_kind_statefulset import a_pod as a_set_pod
from tests.unit.test_kind_statefulset import a_set

A, B = "us-east5-a", "us-east5-b"
FORBIDDEN = 'persistentvolumeclaims "data" is forbidden'
LIST = f"[{{location: {{zones: [{A}]}}}}, {{location: {{zones: [{B}]}}}}]"


class Counting:
    """Counts the reads of disks, and denies them while it is told to."""

    def __init__(self, world: World) -> None:
        self.world, self.asked, self.denied = world, list[str](), False
        self.find = world.cluster.find_disk
        world.cluster.find_disk = self.count  # type: ignore[method-assign]

    def count(self, namespace: str, claim: str) -> Disk | None:
        """Read one disk."""
        self.asked.append(claim)
        if self.denied:
            raise Denied(FORBIDDEN)
        return self.find(namespace, claim)


def claim(world: World, *zones: str, slices: int = 1, text: str = "", **fields: Any) -> Counting:
    """Let the pods of the workload name the claim ``data``, whose disk is in these zones."""
    answer = listing(text) if text else {}
    template = a_template(volume_claims=("data",), **answer)
    world.cluster.pods.clear()
    for index in range(slices):
        world.cluster.add(a_pod(template=template, index=index, uid=f"uid-{index}"))
    world.cluster.add(a_pod(template=template))
    world.cluster.add(a_jobset(replicas=slices, template=template, **fields))
    if zones:
        world.cluster.disks["default", "data"] = Disk(claim="data", zones=zones)
    return Counting(world)


def zones(world: World) -> list[str]:
    return [body["locations"][0] for body in world.pools.bodies]


@pytest.mark.parametrize(
    ("disk", "asked", "made"),
    [(None, [], B), ((), ["data"], B), ((A,), ["data"], A)],
    ids=["no claim costs no read", "a claim without a known zone", "a disk in a zone"],
)
def test_the_pool_is_made_in_the_zone_of_the_disk_if_there_is_one(
    world: World, look: Look, disk: tuple[str, ...] | None, asked: list[str], made: str
) -> None:
    reads = Counting(world) if disk is None else claim(world, *disk)

    look(world)

    assert (reads.asked, zones(world)) == (asked, [made])
    assert world.records.expect_in_order({"decision": "create"})[0]["zone"] == made


def test_a_candidate_without_the_disk_is_refused_by_name_and_nothing_is_bought(world: World, look: Look) -> None:
    claim(world, A, text=LIST)

    look(world)

    assert zones(world) == []
    assert {(each.kind, each.reason) for each in world.cluster.notices} == {
        ("JobSet", "NodePoolRefused"),
        ("Pod", "NodePoolRefused"),
    }
    (message,) = {each.message for each in world.cluster.notices}
    assert f"candidate 2, on-demand in {B}: the disk of claim data is in {A}" in message
    assert message.endswith("[capacity_conflict]")


def test_without_the_right_the_pool_is_made_and_the_owner_is_told_once(world: World, look: Look) -> None:
    reads = claim(world, A)
    reads.denied = True

    for _ in range(3):
        look(world)

    assert zones(world) == [B], "as before there was the right"
    told = [each for each in world.cluster.notices if "disks" in each.message]
    assert [(each.kind, each.warning) for each in told] == [("JobSet", True)]
    assert told[0].message == (
        "the disks of its claims cannot be read, so its node pool may be made in a zone without them: "
        f"{FORBIDDEN}; an operator must grant this right to the functions [permission_denied]"
    )


@pytest.mark.parametrize("seconds", [0, 3600])
def test_a_disk_that_cannot_be_read_now_buys_nothing_until_a_later_look_and_is_told_after_long(
    world: World, seconds: float
) -> None:
    claim(world, A)
    pod = world.cluster.pods["default", a_pod().name]
    world.cluster.add(dataclasses.replace(pod, unschedulable_since=NOW - seconds))
    world.cluster.fail_next("find_disk", Unavailable("503"))

    assert world.deliver(a_demand_event()).status == 503
    assert zones(world) == []
    words = "the zone of this pod's disks cannot be read yet, and is tried again: 503"
    assert [each.message.startswith(words) for each in world.cluster.notices] == ([True] if seconds else [])

    by_message(world)
    assert zones(world) == [A]


def test_pools_before_pods_are_made_where_the_disk_is(world: World) -> None:
    world.use(kueue_admission_check=True)
    reads = claim(world, A, slices=2, suspended=True)
    world.cluster.pods.clear()
    reserve_quota(world, world.cluster.workloads["JobSet", "default", "train"])

    world.sweep()

    assert zones(world) == [A, A]
    assert reads.asked == ["data"]


def test_status_and_why_rehearse_it_without_an_event(world: World) -> None:
    claim(world, A, text=LIST)

    ((_, outcome),) = rehearse_leaders(open_rehearsal(CLUSTER, [], rehearse(world.ports)))

    assert isinstance(outcome, Outcome)
    assert "the disk of claim data is in" in outcome.decision.message
    assert world.cluster.notices == {}


def test_a_pod_of_a_set_whose_disk_is_in_another_zone_than_the_pool_is_told_so(world: World) -> None:
    says = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."
    world.cluster.empty()
    world.cluster.add(a_set(replicas=2))
    for ordinal, zone in enumerate((A, B)):
        pod, of_pod = a_set_pod(ordinal), f"data-{ordinal}"
        world.cluster.disks["default", of_pod] = Disk(claim=of_pod, zones=(zone,))
        template = dataclasses.replace(pod.template, volume_claims=(of_pod,))
        seen: dict[str, Any] = {
            "unschedulable": True,
            "unschedulable_since": NOW - 60.0,
            "scheduler_message": says,
        }
        world.cluster.add(dataclasses.replace(pod, template=template, **seen))
    world.sweep()
    (name,) = world.pools.names(CLUSTER)
    world.pools.move(CLUSTER, name, "RUNNING")
    world.cluster.nodes[name] = ["n0", "n1"]

    for _ in range(2):
        world.clock.advance(600.0)
        world.sweep()

    assert len(zones(world)) == 1
    assert "pods of one pool need disks of one zone" in [each.message for each in world.cluster.notices][-1]


def test_a_pod_that_asks_for_nothing_costs_no_read(world: World) -> None:
    reads = claim(world, A)
    pod = world.cluster.pods["default", a_pod().name]
    world.cluster.add(dataclasses.replace(pod, unschedulable=False))

    by_message(world)

    assert (reads.asked, world.says()[0]) == ([], "nothing")
