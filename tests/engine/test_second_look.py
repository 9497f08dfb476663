"""What takes away rests on two plans that agree, a young look, and words that prove absence."""

from msgspec import structs

from tests.engine.world import World


def over() -> tuple[World, str]:
    """A JobSet that has completed, with one pool."""
    world = World()
    (name,) = world.run_all()
    world.finish(replicas=1)
    world.take_calls()
    return world, name


def test_a_delete_makes_few_reads_and_reads_the_pods_last() -> None:
    world, name = over()
    world.collector.tick()

    calls = world.take_calls()
    of_the_tick = [f"get namespace {name}" for name in ("tpu-provisioner", "default", "kube-system")]
    ours = calls[calls.index("list nodes") + 1 :]  # the last list that the tick shares
    for call in of_the_tick:
        ours.remove(call)
    assert ours[-3].startswith("list pods on "), ours
    assert ours[-2:] == [f"delete {name}", "write Event"]
    hosts = sum(call.startswith("list pods on ") for call in ours)
    assert hosts == 4
    assert len(ours) - 2 - (hosts - 1) <= 8, ours


def test_where_all_pools_of_a_workload_go_one_list_serves_the_second_look() -> None:
    world = World(slices=3)
    world.run_all(slices=3)
    world.finish(replicas=3)
    world.take_calls()
    assert len(world.collect().done) == 3

    calls = world.take_calls()
    assert [each for each in calls if each.startswith("get train-")] == []
    assert calls.count("list pools") == 2


def test_a_pod_that_comes_after_the_first_look_keeps_all_pools() -> None:
    world = World(slices=2)
    first, _ = world.run_all(slices=2)
    pod = structs.replace(world.cluster.pods["train-0-0"], uid="late", node_name=f"{first}-0")
    world.finish(replicas=2)

    # The second look has read the pods of the workload, and not yet those on the nodes.
    world.on(f"list pods on {first}-0", lambda: world.cluster.pods.update(late=pod), nth=2)
    assert first not in {each.pool for each in world.collect().done}


def test_where_a_pool_stays_the_second_look_gets_each_by_its_name() -> None:
    world = World(slices=3)
    names = world.run_all(slices=3)
    world.set_jobset(replicas=1)
    world.cluster.pods = {name: pod for name, pod in world.cluster.pods.items() if "-0-" in name}
    world.take_calls()
    for _ in range(2):  # of a live owner, two ticks have to agree
        world.collector.tick()
        world.clock.time += 120

    assert {f"get {name}" for name in names} <= set(world.take_calls())
