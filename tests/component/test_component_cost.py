"""A sweep's cost grows with the work, not its square: calls and steps are counted, never timed."""

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any
from unittest.mock import Mock

import pytest

from shared.engine.looks import gather
from shared.engine.looks.side_by_side import CALLS_AT_ONCE
from shared.engine.steps import serving_pools
from tests.builders import CLUSTER, NOW, a_claim, a_jobset, a_pod, a_pool, an_over_event
from tests.component.fake_queues import reserve_quota
from tests.component.test_component_needed_pools import HOSTS, JobSetWorld
from tests.component.world import Records, World

WAITING_SINCE = NOW - 3600
COUNTED = (
    *("get_pod", "get_workload", "get_namespace"),
    *("list_workload_pods", "find_pools_of_nodes", "list_pool_pods", "write_notice"),
)


class Counting:
    """A world of many workloads, with every call of the cluster counted."""

    def __init__(self, world: World) -> None:
        self.world, self.calls = world, Counter[str]()
        world.cluster.empty()
        for method in COUNTED:
            setattr(world.cluster, method, partial(self._count, method, getattr(world.cluster, method)))

    def _count(self, method: str, plain: Callable[..., object], *given: Any) -> object:
        self.calls[method] += 1
        return plain(*given)

    def add_workload(self, number: int, *, leaders: int, pool: bool) -> None:
        """Add a JobSet of so many slices; each leader and a second pod of each slice wait."""
        name, uid = f"w{number}", f"uid-{number}"
        self.world.cluster.add(a_jobset(name=name, uid=uid, replicas=max(leaders, 1)))
        pod_labels = {"jobset.sigs.k8s.io/jobset-uid": uid}
        for index in range(leaders):
            place: dict[str, Any] = {"jobset": name, "index": index, "unschedulable_since": WAITING_SINCE}
            leader = a_pod(uid=f"{uid}-{index}", pod_labels=pod_labels, **place)
            follower = a_pod(
                uid=f"{uid}-{index}-1",
                name=f"{leader.name}-1",
                pod_labels=pod_labels | {"batch.kubernetes.io/job-completion-index": "1"},
                **place,
            )
            self.world.cluster.add(leader, follower)
        if pool:
            claim = a_claim(name=name, owner_uid=uid, slice_key=f"default/{name}-workers-0")
            found = a_pool(claim=claim, age_seconds=9000)
            self.world.pools.add(CLUSTER, found)

    def sweep(self) -> dict[str, int]:
        self.calls.clear()
        self.world.pools.calls.clear()
        return self.world.sweep()[1]


def count_steps(work: Callable[[], object]) -> int:
    """Return how many bytecodes of the product some work runs."""
    steps = 0

    def enter(frame: FrameType, event: str, _argument: object) -> Any:
        if event != "call" or "/shared/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    def step(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        steps += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def build(records: Records, workloads: int, **overrides: Any) -> Counting:
    found = Counting(World(records, **overrides))
    for number in range(workloads):
        found.add_workload(number, leaders=2, pool=True)
    return found


@pytest.mark.parametrize(
    "settings",
    [{}, {"allowed_namespaces": ("others",)}, {"limit_chips": 1}],
    ids=["creating", "refusing", "at a limit"],
)
def test_twice_the_pools_and_pods_are_twice_the_steps(records: Records, settings: dict[str, Any]) -> None:
    """The first sweep pays for what is built once; the constant part is far less than a tenth."""
    build(records, 2, **settings).sweep()
    once, twice = build(records, 40, **settings), build(records, 80, **settings)

    assert count_steps(twice.sweep) < 2.2 * count_steps(once.sweep)


def wait_beside_running_hosts(records: Records, slices: int) -> World:
    """Only the leader of each slice waits: its other hosts run on the slice's pool."""
    world = JobSetWorld(records, replicas=slices)
    for index in range(slices):
        world.run(index, world.add_pool(index), hosts=tuple(range(1, HOSTS)))
        world.pod(index, 0, unschedulable_since=NOW - 300)
    return world


@pytest.mark.parametrize("host", [0, HOSTS - 1], ids=["leaders", "followers"])
def test_twice_the_slices_that_lack_a_host_are_twice_the_steps(records: Records, host: int) -> None:
    """Only one pod of each slice waits: its other hosts run on the slice's pool."""
    steps = []
    for slices in (2, 50, 100):
        world = JobSetWorld(records, replicas=slices)
        for index in range(slices):
            world.run(index, world.add_pool(index), hosts=tuple(each for each in range(HOSTS) if each != host))
            world.pod(index, host, unschedulable_since=NOW - 900)
        steps.append(count_steps(world.sweep))

    assert steps[2] < 2.2 * steps[1], steps


def test_what_follows_from_a_whole_workload_is_made_once_for_all_of_its_slices(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"measure_occupancy": 1, "plan_pools": 1}
    counted = {name: Mock(wraps=getattr(gather, name)) for name in made}
    for name, mock in counted.items():
        monkeypatch.setattr(gather, name, mock)
    monkeypatch.setattr(serving_pools, "plan_pools", counted["plan_pools"])
    wait_beside_running_hosts(Records(), 2).sweep()
    steps = []
    for slices in (20, 40):
        world = wait_beside_running_hosts(records, slices)
        for mock in counted.values():
            mock.reset_mock()
        steps.append(count_steps(world.sweep))
        assert {name: mock.call_count for name, mock in counted.items()} == made

    assert steps[1] < 2.2 * steps[0]


def test_a_workload_is_read_once_for_its_pool_its_leaders_and_its_followers(records: Records) -> None:
    found = build(records, 10, allowed_namespaces=("others",))
    found.sweep()

    assert found.calls["get_workload"] == 10
    assert Counter(verb for verb, _ in found.world.pools.calls) == {"list": 1}


def test_one_list_of_pools_serves_all_workloads_that_wait_for_their_capacity(records: Records) -> None:
    """Before, each of 500 listed all pools in each sweep: 501 calls a minute."""
    world = World(records, kueue_admission_check=True, limit_chips=1)
    world.cluster.pods.clear()
    queues = reserve_quota(world, a_jobset(suspended=True))
    for number in range(50):
        queued = a_jobset(name=f"w{number}", uid=f"w{number}", suspended=True)
        world.cluster.add(queued)
        queues.reserve(queued, at=NOW)
    world.sweep()

    assert Counter(verb for verb, _ in world.pools.calls)["list"] == 1


@pytest.mark.parametrize("leaders", [1, 10, 50])
def test_calls_do_not_grow_with_refused_leaders_but_for_their_events(records: Records, leaders: int) -> None:
    found = Counting(World(records, allowed_namespaces=("others",)))
    for number in range(3):
        found.add_workload(number, leaders=leaders, pool=False)

    assert found.sweep()["refuse"] == 3 * leaders
    events = found.calls.pop("write_notice")
    assert found.calls == {"get_workload": 3, "list_workload_pods": 3, "find_pools_of_nodes": 1}
    assert events == 2 * (3 + 3 * leaders), "one for each pod, and two for each workload"


def test_a_limit_measures_each_elastic_pool_once_for_all_leaders(records: Records) -> None:
    """Before, each of 50 leaders measured each of 50 pools: 2,550 calls of Compute Engine."""
    found = Counting(World(records, limit_chips=1))
    found.add_workload(0, leaders=50, pool=False)
    for number in range(50):
        claim = a_claim(name=f"e{number}", owner_uid=f"e{number}", slice_key=f"default/e{number}-any-abcdef")
        found.world.pools.add(CLUSTER, a_pool(claim=claim))

    assert found.sweep()["refuse"] == 50
    assert Counter(verb for verb, _ in found.world.pools.calls)["measure"] == 50


def test_many_pools_of_one_workload_are_given_back_by_one_message(records: Records) -> None:
    world = World(records)
    world.cluster.pods.clear()
    world.cluster.add(a_jobset(replicas=256, terminal="Completed", terminal_since=NOW))
    for pool in world.add_pools(256):
        world.cluster.nodes[pool.name] = [f"node-of-{pool.name}"]

    assert world.collect(an_over_event()).status == 200
    calls = Counter(verb for verb, _ in world.pools.calls)
    assert calls == {"list": 2 + 256, "delete": 256}, "one after the other, none shares its last list"
    assert CALLS_AT_ONCE > 1
