"""What must not go wrong when reads, refusals, restarts and threads cross, and whose turn it is."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf

import pytest
from msgspec import structs

from shared.engine.budget import Key, open_books
from shared.engine.kueue import read_standing
from shared.engine.look import has_lost_nodes
from shared.engine.reads import add_facts, list_inventory, read_lists
from shared.engine.reconcile import plan_for
from shared.engine.threads import CALLS_AT_ONCE, Crew
from shared.engine.wakes import work_on
from shared.model.errors import OutOfTime
from shared.model.pools import FillError, Machines, NodePool, PoolNode, PoolStatus
from shared.model.workloads import Check, CheckState
from shared.plan.plan import make_plan
from shared.plan.scene import Ask, Fact, Plan, Scene, Word
from shared.settings import ClusterSettings
from tests.builders import CLUSTER, NOW, settings
from tests.engine.fake_ports import CHECK
from tests.engine.world import World, list_reasons


@pytest.mark.parametrize(("age", "word"), [(101.0, Word.NONE), (100.0, Word.CAUSE)], ids=["before", "after"])
def test_an_error_before_the_last_node_of_an_elastic_pool_is_overcome(age: float, word: Word) -> None:
    world = World()
    world.serve(3)
    world.provisioner.tick()
    (name,) = world.gke.pools
    world.clock.time += 600
    world.come(name, ready=1)
    world.clock.time += 100
    error = FillError("no capacity", world.clock.time - age)
    world.gke.machines[name] = Machines(present=1, errors=(error,))

    look, _ = plan_for(Key(CLUSTER, "Deployment", "default", "serve"), world.ports)

    (pool,) = look.scene.pools
    assert (pool.word, pool.machines) == (word, 1)
    assert pool.word_at == (error.at if word == Word.CAUSE else 0.0)


def test_a_create_that_a_newer_list_shows_counts_for_a_look_with_an_older_list() -> None:
    world = World(limit_chips=16)
    world.add("train", "second")
    older = read_lists(CLUSTER, world.ports)  # a tick reads its lists
    world.clock.time += 1.0
    world.provisioner.work()
    world.clock.time += 1.0
    list_inventory(CLUSTER, world.ports)  # another delivery lists the new pool

    second = structs.replace(world.key, name="second")
    work = work_on(second, world.ports, older)

    assert len(world.gke.pools) == 1
    assert list_reasons(work) == ["limit_reached"]


def test_the_users_of_a_pool_are_pods_of_others_and_no_pods_of_its_own_workload() -> None:
    world = World()
    (name,) = world.run_all(slices=1)
    look, _ = plan_for(world.key, world.ports)

    add_facts(look, [Ask(Fact.USERS, name)], world.ports)

    assert look.users == {name: []}


def test_a_tick_forgets_what_it_told_while_other_threads_tell() -> None:
    class Telling(float):
        """A time that is compared while another thread tells something."""

        def __rsub__(self, now: float) -> float:
            memory.notices["other", str(len(memory.notices))] = now, ""
            memory.acted[structs.replace(key, name=str(len(memory.acted)))] = now
            return now - float(self)

    world = World()
    memory, key = world.memory, world.key
    memory.notices["told",], memory.acted[key] = (Telling(0.0), ""), Telling(0.0)
    memory.begin_tick(NOW)

    assert ("told",) not in memory.notices
    assert key not in memory.acted


def test_a_pool_that_is_switched_off_has_lost_no_nodes() -> None:
    """Else it would count as one that was whole, and the pauses of its slot would not double."""
    off = NodePool(name="off", status=PoolStatus.RUNNING, machine_type="ct4p-hightpu-4t")

    assert not has_lost_nodes(off, [])
    on, node = structs.replace(off, maximum=2), PoolNode(name="n", pool="off", ready=True)
    assert [has_lost_nodes(on, [node] * ready) for ready in range(3)] == [True, True, False]
    assert has_lost_nodes(structs.replace(on, autoscaled=True), [node])


def test_what_a_plan_asks_for_after_a_refusal_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(listed=True)
    world.wait(0)
    world.refuse("quota")

    def ask(scene: Scene) -> Plan:
        asks = (Ask(Fact.OPERATIONS),) if scene.refused and scene.operations is None else ()
        return Plan(asks=asks) if asks else make_plan(scene)

    monkeypatch.setattr("shared.engine.reconcile.make_plan", ask)
    world.provisioner.work()

    assert len(world.gke.pools) == 1


def test_of_two_checks_of_ours_the_one_that_waits_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(gangs=["train"])
    jobset = world.cluster.workloads["JobSet", "default", "train"]
    monkeypatch.setattr(world.queues, "list_checks", lambda: [CHECK, Check(name="second", active=True)])
    first, second = (CheckState(name=name, state="Pending") for name in ("capacity", "second"))

    world.queues.queue(checks=(structs.replace(first, state="Ready"), second))
    assert read_standing(CLUSTER, jobset, world.ports).check == second
    world.queues.queue(checks=(structs.replace(first, state="Retry"), second), holds_quota=False)
    assert read_standing(CLUSTER, jobset, world.ports).retried


def test_threads_together_pass_no_limit() -> None:
    world = World(limit_chips=48)
    names = [f"w{number}" for number in range(12)]
    world.add(*names)
    function = world.provisioner
    function.ports = structs.replace(function.ports, crew=Crew())
    barrier = threading.Barrier(len(names), timeout=10)

    # Each has planned its create, and none has sent it.
    world.on("get namespace kube-system", barrier.wait, times=inf)
    with ThreadPoolExecutor(len(names)) as pool:
        works = list(pool.map(function.work, names))

    assert len(world.gke.pools) == 3
    told = [reason for work in works for reason in list_reasons(work)]
    assert (told.count("pool_absent"), told.count("limit_reached")) == (3, 9)
    assert not [error for work in works for error in work.errors]


def key(namespace: str, name: str) -> Key:
    return Key(CLUSTER, "JobSet", namespace, name)


def test_a_gang_that_began_goes_first_then_namespaces_in_turn_then_the_longest_wait() -> None:
    other = "projects/p/locations/l/clusters/other"
    books = open_books(settings(clusters={CLUSTER: ClusterSettings(), other: ClusterSettings()}))
    turns = books[CLUSTER]
    turns.wait(key("a", "old"), 1.0, begun=False)
    turns.wait(key("a", "older"), 0.0, begun=False)
    turns.wait(key("b", "young"), 9.0, begun=False)
    turns.wait(key("c", "gang"), 99.0, begun=True)
    turns.wait(key("c", "gone"), 0.0, begun=False)
    turns.wait(key("c", "gone"), None)

    order = [turns.take_next() for _ in range(5)]

    assert [each.name if each else None for each in order] == ["gang", "older", "young", "old", None]
    assert books[other].take_next() is None


def test_no_task_begins_after_its_time_and_none_that_has_begun_holds_up_its_caller() -> None:
    crew, over, begun, before = Crew(), threading.Event(), list[None](), threading.enumerate()

    tasks: list[Callable[[], object]] = [*[over.wait] * CALLS_AT_ONCE, lambda: begun.append(None)]

    crew.fork(over.wait)
    answers = crew.run(tasks, seconds=0.01)
    over.set()
    for thread in set(threading.enumerate()).difference(before):
        thread.join()

    assert ({type(each) for each in answers}, begun) == ({OutOfTime}, [])
