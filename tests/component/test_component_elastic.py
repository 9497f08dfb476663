"""One elastic pool per workload and shape grows with the spec and returns empty nodes in steps."""

import dataclasses

import pytest

from shared.core import labels
from shared.core.messages import Event, EventType, ObjectName, Observed
from shared.core.ports import SurplusMark
from shared.core.workloads import PodView
from tests.builders import CLUSTER, NOW
from tests.component.world import World
from tests.unit.test_elastic import L4, a_gpu_body, a_gpu_job
from tests.unit.test_kind_deployment import a_deployment
from tests.unit.test_kind_deployment import a_pod as a_deployment_pod
from tests.unit.test_kind_job import a_pod as a_job_pod

GRACE = 300


def a_waiting_pod(name: str = "train-a") -> PodView:
    found = a_job_pod(None, template=a_gpu_body())
    return dataclasses.replace(found, name=name, uid=name, unschedulable=True, unschedulable_since=NOW - 60)


def a_demand(pod: PodView) -> Event:
    subject = ObjectName(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
    return Event(type=EventType.DEMAND, cluster=CLUSTER, subject=subject, observed=Observed.UNSCHEDULABLE)


class Elastic:
    """A Job of GPU pods in a world, and its one pool."""

    def __init__(self, world: World, *, pods: int) -> None:
        self.world, self.pod = world, a_waiting_pod()
        world.cluster.empty()
        self.want(pods)
        world.cluster.add(self.pod)
        world.deliver(a_demand(self.pod))
        (self.pool,) = world.pools.names(CLUSTER)
        world.pools.move(CLUSTER, self.pool, "RUNNING")
        world.cluster.nodes[self.pool] = [f"n{at}" for at in range(pods)]

    def want(self, pods: int) -> None:
        self.world.cluster.add(a_gpu_job(parallelism=pods, completions=9))

    def use(self, *nodes: str) -> None:
        self.world.cluster.pods.clear()
        self.world.cluster.bound.pop(self.pool, None)
        for node in nodes:
            self.world.cluster.bind(self.pool, kind="Job", chips=1, node=node)

    def mark(self, *used: str, want: int) -> None:
        """Let pods use some nodes, and the workload want so many; the others get their marks."""
        self.use(*used)
        self.want(want)
        self.sweep()

    def close(self, *used: str, want: int) -> None:
        """Let marked nodes stay empty for the grace, so that they are closed."""
        self.mark(*used, want=want)
        self.sweep(after=GRACE)
        assert all(mark.closed for mark in self.world.cluster.marks.values())

    def sweep(self, *, after: float = 60) -> None:
        self.world.clock.advance(after)
        self.world.sweep()

    @property
    def size(self) -> int:
        return self.world.pools.sizes.get(self.pool, len(self.world.cluster.nodes[self.pool]))


def test_one_pool_is_made_for_all_pods_of_the_spec(world: World) -> None:
    elastic = Elastic(world, pods=3)
    assert world.pools.bodies[0]["initialNodeCount"] == 3
    others = [a_waiting_pod(f"train-{each}") for each in "bcd"]
    world.cluster.add(*others)
    for pod in others:
        assert world.deliver(a_demand(pod)).status == 200
        assert world.says() == ("keep", "pool_serves")
    world.sweep()
    assert world.pools.names(CLUSTER) == [elastic.pool]
    assert world.pools.count("resize") == 0


@pytest.mark.parametrize("replaces", [False, True])
def test_a_rollout_to_another_machine_is_told_how_to_get_a_pool_beside_the_old_one(
    world: World, *, replaces: bool
) -> None:
    def add_pod(name: str, **requests: str) -> None:
        selector = {key: requests.pop(key) for key in [labels.INSTANCE_TYPE] if key in requests}
        template = a_gpu_body(selector=L4 | selector, **requests)
        pod = dataclasses.replace(a_deployment_pod(template=template), name=name, uid=name, unschedulable=True)
        world.cluster.add(
            a_deployment(template=template), dataclasses.replace(pod, unschedulable_since=NOW - GRACE)
        )

    world.use(replace_differing_pools=replaces)
    world.cluster.empty()
    add_pod("old", memory="8Gi")
    world.sweep()
    (old,) = world.pools.names(CLUSTER)
    world.pools.move(CLUSTER, old, "RUNNING")
    world.cluster.pods.clear()
    world.cluster.bind(old, kind="Deployment", workload="serve", chips=1)

    add_pod("new", memory="40Gi")
    world.sweep()
    machine = "g2-standard-12"
    assert f"select {labels.INSTANCE_TYPE}={machine} in" in [each.message for each in world.cluster.notices][-1]

    world.cluster.pods.clear()
    add_pod("chosen", memory="40Gi", **{labels.INSTANCE_TYPE: machine})
    world.sweep()
    assert [body["config"]["machineType"] for body in world.pools.bodies] == ["g2-standard-4", machine]


def test_it_grows_when_the_spec_wants_more(world: World) -> None:
    elastic = Elastic(world, pods=1)
    elastic.want(4)
    world.pools.calls.clear()
    world.deliver(a_demand(elastic.pod))
    assert world.says() == ("resize", "pool_grows")
    assert [method for method, _ in world.pools.calls] == ["list", "measure", "get", "resize"]
    assert elastic.size == 4
    world.deliver(a_demand(elastic.pod))
    assert world.says() == ("wait", "pool_in_progress")
    world.pools.move(CLUSTER, elastic.pool, "RUNNING")
    world.deliver(a_demand(elastic.pod))
    assert world.says() == ("keep", "pool_serves")
    assert ("Job", "NodePoolResizeStarted", False) in world.notices()


def test_a_limit_holds_growth_too(world: World) -> None:
    elastic = Elastic(world, pods=1)
    world.use(limit_chips=3)
    elastic.want(4)
    world.deliver(a_demand(elastic.pod))
    assert world.says() == ("refuse", "limit_reached")
    elastic.want(3)
    world.deliver(a_demand(elastic.pod))
    assert world.says() == ("resize", "pool_grows")


def test_only_nodes_that_stay_empty_for_the_grace_leave_and_by_name(world: World) -> None:
    elastic = Elastic(world, pods=4)
    elastic.use("n0", "n2")
    elastic.want(2)
    elastic.sweep()
    assert world.cluster.marks == {
        "n1": SurplusMark(NOW + 60, closed=False),
        "n3": SurplusMark(NOW + 60, closed=False),
    }
    elastic.sweep()
    assert not any(mark.closed for mark in world.cluster.marks.values())
    elastic.sweep(after=GRACE)
    assert all(mark.closed for mark in world.cluster.marks.values())
    assert world.pools.removed == []
    elastic.sweep()
    assert world.pools.removed == ["n1", "n3"]
    assert ("Job", "NodePoolResizeStarted", False) in world.notices()
    assert world.pools.count("resize") == world.pools.count("delete") == 0


@pytest.mark.parametrize("status", ["RUNNING_WITH_ERROR", "ERROR"])
def test_a_pool_with_errors_gives_up_nodes_that_it_never_got_before_those_that_it_has(
    world: World, status: str
) -> None:
    elastic = Elastic(world, pods=4)
    elastic.use("n0")
    world.cluster.nodes[elastic.pool] = ["n0", "n1"]
    world.pools.missing[elastic.pool] = ["n2", "n3"]
    world.pools.sizes[elastic.pool] = 4
    world.pools.move(CLUSTER, elastic.pool, status)
    elastic.want(2)
    elastic.sweep()

    assert (world.pools.removed, world.cluster.marks) == (["n2", "n3"], {})


@pytest.mark.parametrize("pods", [0, None])
def test_the_pool_goes_when_nothing_of_its_shape_is_wanted(world: World, pods: int | None) -> None:
    elastic = Elastic(world, pods=2)
    elastic.use()
    if pods is None:
        world.cluster.workloads.clear()
    else:
        elastic.want(pods)
    elastic.sweep()
    assert world.pools.count("delete") == 1
    assert world.pools.removed == []
    assert elastic.pool in world.pools.names(CLUSTER)
