"""An elastic pool that cannot grow gets a second pool on the next candidate of its list."""

import dataclasses
from collections.abc import Callable

import pytest

from shared.capacity_lists import read_policies
from shared.core import labels
from shared.core.decide.attempts import find_pause
from shared.core.errors import NoCapacity, Unavailable
from shared.core.workloads import NodeView
from tests.builders import CLUSTER
from tests.component.test_component_elastic import a_demand, a_waiting_pod
from tests.component.test_component_elastic_candidates import POD, POLICY, STOCKOUT, claim_of, fail, name_of, zones
from tests.component.world import World
from tests.unit.test_elastic import a_gpu_job

PATIENCE = 600
QUOTA = "Insufficient regional quota to satisfy request: resource NVIDIA_L4_GPUS"
STATUSES = ["RUNNING", "RUNNING_WITH_ERROR", "ERROR"]


class Growth:
    """A Job whose pool has three nodes in use, and which wants five."""

    def __init__(self, world: World, *, status: str = "RUNNING", policy: str = POLICY) -> None:
        self.world, self.status = world, status
        if policy:
            world.use(capacity_policies=read_policies(policy))
        world.cluster.empty()
        self.want(3)
        world.cluster.add(POD)
        assert world.deliver(a_demand(POD)).status == 200
        (self.first,) = world.pools.names(CLUSTER)
        self.run(self.first, 3)
        self.want(5)
        world.cluster.pods.clear()
        self.pod = dataclasses.replace(a_waiting_pod("train-d"), unschedulable_since=world.clock.now())
        world.cluster.add(self.pod)
        assert world.deliver(a_demand(self.pod)).status == 200
        assert world.pools.sizes == {self.first: 5}
        world.clock.advance(2100)
        self.stay_short(status)

    def want(self, pods: int) -> None:
        self.world.cluster.add(a_gpu_job(parallelism=pods, completions=9))

    def run(self, pool: str, nodes: int, *, used: int | None = None) -> None:
        """Let a pool run with nodes that are used."""
        world, names = self.world, [f"{pool}-{at}" for at in range(nodes)]
        world.pools.move(CLUSTER, pool, "RUNNING")
        world.cluster.nodes[pool] = names
        now = world.clock.now()
        for name in names:
            world.cluster.node_views[name] = NodeView(name=name, ready=True, created_at=now)
        world.cluster.bound.pop(pool, None)
        for name in names[:used]:
            world.cluster.bind(pool, kind="Job", chips=1, node=name)

    def stay_short(self, status: str, *missing: str) -> None:
        self.world.pools.move(CLUSTER, self.first, status)
        self.world.pools.missing[self.first] = list(missing or ("m0", "m1"))

    def sweep(self, *, after: float = 60, errors: int = 0) -> None:
        self.world.clock.advance(after)
        status, counts = self.world.sweep()
        assert (status, counts["errors"]) == (503 if errors else 200, errors)

    @property
    def sizes(self) -> list[int]:
        pools = self.world.pools
        return [pools.sizes.get(each.name, each.node_count) for each in pools.pools.values()]


@pytest.fixture(params=STATUSES)
def growth(world: World, request: pytest.FixtureRequest) -> Growth:
    return Growth(world, status=request.param)


def test_the_next_candidate_has_what_the_first_pool_gives_up(world: World, growth: Growth) -> None:
    growth.sweep()

    assert zones(world) == ["a", "b"]
    assert growth.sizes == [3, 2]
    assert world.pools.removed == ["m0", "m1"]
    found = world.records.expect_in_order({"decision": "create", "attempt": 1})[0]
    assert f"node pool {growth.first} has 3 of 5 nodes: attempt 0 (candidate 1 of 3" in found["message"]
    for _ in range(3):
        growth.sweep()
        world.deliver(a_demand(growth.pod))
    assert (zones(world), growth.sizes) == (["a", "b"], [3, 2])
    assert world.pools.count("resize") == 1


def test_only_the_sweep_adds_a_pool(world: World, growth: Growth) -> None:
    world.clock.advance(60)
    for _ in range(3):
        assert world.deliver(a_demand(growth.pod)).status == 200
    assert (zones(world), growth.sizes, world.pools.removed) == (["a"], [5], [])


@pytest.mark.parametrize("status", ["RUNNING", "ERROR"])
@pytest.mark.parametrize("policy", ["", "[{priorities: [{location: {zones: [us-east5-a]}}]}]"])
def test_without_a_choice_the_pool_waits_as_before(world: World, policy: str, status: str) -> None:
    growth = Growth(world, policy=policy, status=status)
    growth.sweep()
    assert (len(zones(world)), growth.sizes, world.pools.count("list_missing")) == (1, [5], 0)


@pytest.mark.parametrize("young", ["node", "pod"])
def test_a_node_that_came_lately_and_a_pod_that_waits_for_less_than_twice_the_grace_put_it_off(
    world: World, young: str
) -> None:
    """Such a node is a sign that GKE adds them."""
    growth, since = Growth(world), world.clock.now() - PATIENCE + 90
    if young == "node":
        name = f"{growth.first}-2"
        world.cluster.node_views[name] = NodeView(name=name, ready=True, created_at=since)
    else:
        world.cluster.add(dataclasses.replace(growth.pod, unschedulable_since=since))
    growth.sweep()
    assert zones(world) == ["a"]
    growth.sweep()
    assert zones(world) == ["a", "b"]


def grow_meanwhile(growth: Growth) -> None:
    pools = growth.world.pools
    pools.before_next("remove_nodes", lambda: pools.sizes.update({growth.first: 6}))


def refuse_growth(growth: Growth) -> None:
    pools = growth.world.pools
    pools.sizes.update({growth.first: 3})
    pools.missing.clear()
    pools.fail_next("resize", NoCapacity(QUOTA))


@pytest.mark.parametrize(
    ("happens", "made", "sizes"),
    [
        (lambda growth: growth.world.pools.sizes.update({growth.first: 3}), "a", [5]),
        (lambda growth: growth.world.pools.missing.clear(), "a", [5]),  # GKE repairs those that are no nodes
        (refuse_growth, "ab", [3, 2]),
        (grow_meanwhile, "ab", [4, 1]),
        (lambda growth: growth.world.pools.fail_next("create", NoCapacity("quota")), "ac", [3, 2]),
    ],
    ids=[
        "a pool that was never asked for more grows first",
        "a pool that has all its machines gets none beside it",
        "a pool that GKE refuses to grow gets one beside it",
        "nodes that came meanwhile are not asked for twice",
        "what GKE refuses at once is followed in the same turn",
    ],
)
def test_in_one_sweep(world: World, happens: Callable[[Growth], None], made: str, sizes: list[int]) -> None:
    growth = Growth(world)
    happens(growth)
    growth.sweep()
    assert (zones(world), growth.sizes) == (list(made), sizes)


@pytest.mark.parametrize(
    ("method", "made", "sizes"),
    [("create", ["a"], [5]), ("remove_nodes", ["a", "b"], [3, 2])],
    ids=["the first pool is smaller, and grows again", "nothing was done"],
)
def test_a_lost_answer_costs_a_try_and_never_two_pools(
    world: World, method: str, made: list[str], sizes: list[int]
) -> None:
    growth = Growth(world)
    world.pools.fail_next(method, Unavailable("503"))
    growth.sweep(errors=1)
    growth.sweep()

    assert (zones(world), growth.sizes) == (made, sizes)


@pytest.mark.parametrize("value", ["no-create", "report-only"])
def test_what_stops_creations_stops_both_steps(world: World, value: str) -> None:
    growth = Growth(world)
    world.cluster.namespace_labels["tpu-provisioner"] = {labels.MODE: value}
    growth.sweep()
    assert (zones(world), world.pools.removed) == (["a"], [])

    del world.cluster.namespace_labels["tpu-provisioner"][labels.MODE]
    world.use(capacity_policies=read_policies(POLICY), mode=value)
    growth.sweep()
    assert (zones(world), world.pools.removed) == (["a"], [])


def test_a_limit_counts_the_nodes_of_both(world: World, growth: Growth) -> None:
    world.use(capacity_policies=read_policies(POLICY), limit_chips=5)
    growth.sweep()
    assert (zones(world), growth.sizes) == (["a", "b"], [3, 2])
    (reserved,) = world.cluster.ledgers["tpu-provisioner"].entries.values()
    assert reserved.chips == 2


def test_when_the_second_candidate_fails_the_third_follows_and_then_a_pause(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.core.decide.attempts.PAUSE_SECONDS", 1800.0)
    growth = Growth(world)
    growth.sweep()
    fail(world, 1)
    growth.sweep(after=1)
    assert (zones(world), growth.sizes[0], growth.sizes[-1]) == (["a", "b", "c"], 3, 2)
    world.pools.fail(CLUSTER, name_of(world, 2), QUOTA)
    world.pools.missing[name_of(world, 2)] = ["m2", "m3"]
    growth.sweep(after=PATIENCE + 60)
    assert zones(world) == ["a", "b", "c"]


def test_of_a_failed_creation_only_the_nodes_that_are_made_count(world: World) -> None:
    """No node was made, and the pool stays for a while beside the next one."""
    growth = Growth(world, status="ERROR")
    growth.sweep()
    fail(world, 1)
    growth.sweep(after=1)
    growth.run(name_of(world, 2), 2)
    fail(world, 1)
    world.pools.missing[name_of(world, 1)] = ["m8", "m9"]
    growth.want(6)
    assert world.deliver(a_demand(growth.pod)).status == 200
    assert (zones(world), growth.sizes) == (["a", "b", "c"], [3, 2, 3])


def test_when_the_last_candidate_failed_and_nothing_is_missing_the_pools_stay(world: World) -> None:
    growth = Growth(world, status="ERROR")
    growth.sweep()
    fail(world, 1)
    growth.want(3)
    growth.sweep(after=1)
    assert zones(world) == ["a", "b"]


def test_the_newest_pool_grows_and_a_third_follows_where_it_cannot(world: World) -> None:
    growth = Growth(world)
    growth.sweep()
    second = name_of(world, 1)
    growth.run(second, 2)
    growth.want(6)
    growth.sweep()
    assert growth.sizes == [3, 3]
    world.clock.advance(2100)
    world.pools.move(CLUSTER, second, "RUNNING")
    world.pools.missing[second] = ["m9"]
    growth.sweep()
    assert (zones(world), growth.sizes) == (["a", "b", "c"], [3, 2, 1])


def test_what_an_earlier_pool_loses_the_newest_one_gets(world: World) -> None:
    """GKE took a spot node away."""
    growth = Growth(world)
    growth.sweep()
    growth.run(name_of(world, 1), 2)
    world.clock.advance(2100)
    world.cluster.nodes[growth.first] = world.cluster.nodes[growth.first][:2]
    world.pools.missing[growth.first] = ["gone"]
    growth.sweep()
    assert growth.sizes == [2, 2]
    growth.sweep()
    assert growth.sizes == [2, 3]


def _settle(growth: Growth) -> str:
    growth.sweep()
    second = name_of(growth.world, 1)
    growth.run(second, 2)
    growth.world.cluster.pods.clear()
    return second


def test_nodes_of_the_later_pool_go_first(world: World, growth: Growth) -> None:
    second = _settle(growth)
    growth.run(second, 2, used=0)
    growth.want(3)
    for _ in range(8):
        growth.sweep(after=200)
    assert world.pools.sizes[growth.first] == 3
    assert second not in world.pools.names(CLUSTER) or world.pools.sizes[second] == 0


def test_of_the_earlier_pool_go_those_that_the_later_one_has_in_use(world: World, growth: Growth) -> None:
    second = _settle(growth)
    growth.run(growth.first, 3, used=1)
    world.pools.move(CLUSTER, growth.first, growth.status)
    growth.run(second, 2, used=1)
    growth.want(2)
    for _ in range(8):
        growth.sweep(after=200)
    assert growth.sizes == [1, 1]


def test_what_is_asked_for_twice_is_given_up_by_the_sweep(world: World, growth: Growth) -> None:
    """Another function measured the first pool between the two steps, and let it grow again."""
    _settle(growth)
    world.pools.sizes[growth.first] = 5
    growth.stay_short("RUNNING", "m2", "m3")
    growth.sweep()
    assert growth.sizes == [3, 2]


def test_what_is_asked_for_twice_is_given_up_of_a_pool_that_only_others_use(world: World) -> None:
    """Seed 8112014: all pods run on the second pool, so the first one is surplus, but in use."""
    growth = Growth(world)
    second = _settle(growth)
    growth.want(2)
    for node in world.cluster.nodes[second]:
        pod = dataclasses.replace(a_waiting_pod(node), unschedulable=False, unschedulable_since=None)
        world.cluster.add(dataclasses.replace(pod, node_name=node, phase="Running"))
    growth.run(growth.first, 1, used=0)
    world.cluster.bind(growth.first, workload="another", chips=1, node=f"{growth.first}-0")
    world.pools.sizes[growth.first] = 3
    growth.stay_short("RUNNING", "m2", "m3")
    growth.sweep()
    assert growth.sizes == [1, 2]
    assert world.pools.names(CLUSTER) == [growth.first, second]


def test_a_list_of_pools_from_before_the_second_one_lets_the_first_not_grow(world: World) -> None:
    growth = Growth(world)
    before = world.pools.list(CLUSTER)
    growth.sweep()
    lists = [before]
    real = world.pools.list
    world.pools.list = lambda cluster: lists.pop() if lists else real(cluster)  # type: ignore[method-assign]
    assert world.deliver(a_demand(growth.pod)).status == 503
    assert growth.sizes == [3, 2]


def test_when_the_later_pool_is_gone_the_first_may_grow_again(world: World) -> None:
    growth = Growth(world)
    second = _settle(growth)
    world.pools.move(CLUSTER, second, "gone")
    growth.world.cluster.add(growth.pod)
    growth.sweep()
    assert growth.sizes == [5]


def lose(growth: Growth, attempt: int, *, ended_before: float = 0.0) -> None:
    """Let a creation fail, its pool be gone, and the first pool be as before."""
    pools, name = growth.world.pools, name_of(growth.world, attempt)
    pools.fail(CLUSTER, name, STOCKOUT, ended_at=growth.world.clock.now() - ended_before)
    pools.move(CLUSTER, name, "gone")
    pools.sizes[growth.first] = 3
    growth.stay_short("RUNNING_WITH_ERROR")


def test_a_failed_creation_whose_pool_is_gone_is_followed_by_the_next_candidate(world: World) -> None:
    """Simulator's seed 7914370: only the last candidate was tried, and the first had machines.

    A failed pool of the last candidate that may hold a part of a reservation is deleted first.
    """
    growth = Growth(world, status="RUNNING_WITH_ERROR")
    growth.sweep()
    pause = find_pause(claim_of(world).hash, 2, 3)
    for attempt, tried in [(1, "abc"), (2, "abca")]:
        lose(growth, attempt)
        growth.sweep(after=1)
        assert zones(world) == list(tried[:-1])
        world.records.expect_in_order({"decision": "wait", "reason": "stockout", "attempt": attempt})
        growth.sweep(after=pause)
        assert zones(world) == list(tried)
    assert growth.sizes == [3, 2]


def test_a_creation_that_failed_before_the_pod_waited_does_not_count(world: World) -> None:
    growth = Growth(world)
    growth.sweep()
    lose(growth, 1, ended_before=9000)
    growth.sweep(after=1)
    assert zones(world) == ["a", "b", "b"]


def test_stockout_text_of_gke_is_told(world: World) -> None:
    growth = Growth(world, status="RUNNING_WITH_ERROR")
    key = CLUSTER, growth.first
    world.pools.pools[key] = dataclasses.replace(world.pools.pools[key], error=STOCKOUT)
    growth.sweep()
    message = world.records.expect_in_order({"decision": "create", "attempt": 1})[0]["message"]
    assert "no capacity in us-east5-a" in message
    assert "GCE_STOCKOUT" in message
