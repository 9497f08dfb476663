"""GKE runs a limited number of operations: creates wait for a free place, and ends give it away."""

import contextlib
import dataclasses
import threading
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from shared.core.decide.filling import CREATION_TRIES_SECONDS
from shared.core.errors import Denied, NoCapacity, NoPlace, Throttled, Unavailable
from shared.core.identity.names import build_pool_name
from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.core.times import SHARED_SECONDS, TURN_SECONDS
from shared.edges.threads import Threads
from shared.engine.looks.side_by_side import CALLS_AT_ONCE
from shared.engine.places import REMEMBERED_SECONDS, SLOW_SECONDS, Places
from tests.audit_entries import an_entry, as_message
from tests.builders import CLUSTER, NOW, a_claim, a_foreign_pool, a_jobset, a_pod, a_pool, a_workload_demand
from tests.component.world import World, claim_of, slice_name

SLICES, CREATES, LIMIT = 12, 4, 5
"""GKE runs five operations at one time, and one of the five is the deletion of a pool of others."""
LEAVING = "leaving"
FULL = f'Too many operations: cluster "demo" hits the concurrent operations quota {LIMIT}, please try again later.'


@pytest.fixture
def busy(world: World) -> World:
    """GKE runs four operations beside a deletion, and a JobSet waits for 12 slices."""
    create = world.pools.create

    def limited(cluster: str, node_pool: Mapping[str, Any]) -> None:
        under_way = [each for each in world.pools.pools.values() if each.status in ("PROVISIONING", "STOPPING")]
        if len(under_way) >= LIMIT:
            world.pools.calls.append(("refused", str(node_pool["name"])))
            raise Throttled(FULL)
        create(cluster, node_pool)

    world.pools.create = limited  # type: ignore[method-assign]
    world.pools.add(CLUSTER, a_foreign_pool(name=LEAVING, status=PoolStatus.STOPPING))
    world.share_reads()
    world.ports = dataclasses.replace(world.ports, places=Places())
    for index, pod in enumerate(world.add_slices(SLICES)):
        world.cluster.add(dataclasses.replace(pod, unschedulable_since=NOW - 100 + index))
    return world


def list_under_way(count: int, age_seconds: float = 60.0) -> list[PoolSnapshot]:
    """Return pools with so many operations, one of them a deletion, and the others so old."""
    names = [f"of-another-{at}" for at in range(count - 1)]
    creates = [a_pool("PROVISIONING", name=each, age_seconds=age_seconds) for each in names]
    return [a_pool("STOPPING", name=LEAVING), *creates]


def end(world: World, name: str) -> int:
    world.pools.move(CLUSTER, name, "RUNNING")
    return world.deliver(as_message(an_entry(pool=name)), "settle").status


def test_after_one_refusal_no_create_is_sent_before_a_place_is_free(busy: World) -> None:
    """Nor is the message delivered again: the end of an operation, or the sweep, goes on."""
    assert busy.deliver(a_workload_demand()).status == 503
    assert (busy.pools.count("create"), busy.pools.count("refused")) == (CREATES, 1)

    for _ in range(3):
        busy.clock.advance(20)
        assert busy.deliver(a_workload_demand()).status == 200
    assert (busy.pools.count("create"), busy.pools.count("refused")) == (CREATES, 1)
    assert "waits until one ends" in busy.last["message"]

    busy.sweep()  # it counts no error, since nothing is wrong
    status, counts = busy.sweep()
    assert (status, counts["errors"], counts["left"]) == (200, 0, SLICES - CREATES)


@pytest.mark.parametrize(
    ("ends", "apart"), [(SLICES - CREATES, 3), (CREATES, 0)], ids=["one after the other", "at one time"]
)
def test_each_end_gives_its_place_to_the_longest_wait(busy: World, ends: int, apart: float) -> None:
    busy.deliver(a_workload_demand())
    for index in range(ends):
        busy.clock.advance(apart)
        assert end(busy, slice_name(index)) == 200
        assert busy.pools.names(CLUSTER)[-1] == slice_name(index + CREATES)

    assert busy.pools.names(CLUSTER) == [LEAVING, *(slice_name(index) for index in range(ends + CREATES))]
    assert busy.pools.count("refused") == 1


def test_ends_of_one_moment_give_no_place_to_the_same_slice(busy: World) -> None:
    """Each delivery has a list of its own, and GKE has answered no create yet."""
    busy.deliver(a_workload_demand())
    create = busy.pools.create
    ends = iter(range(1, CREATES))

    def create_slowly(cluster: str, node_pool: Mapping[str, Any]) -> None:
        if (index := next(ends, 0)) > 0:
            busy.clock.advance(SHARED_SECONDS + 1)
            assert end(busy, slice_name(index)) == 200
        create(cluster, node_pool)

    busy.pools.create = create_slowly  # type: ignore[method-assign]
    assert end(busy, slice_name(0)) == 200

    assert {*busy.pools.names(CLUSTER)} == {LEAVING, *(slice_name(index) for index in range(2 * CREATES))}


@pytest.mark.parametrize("method", ["Create", "Delete"])
def test_the_operation_of_a_pool_that_is_not_ours_gives_its_place_away_too(busy: World, method: str) -> None:
    """Terraform and people make pools in the same cluster."""
    busy.pools.add(CLUSTER, a_foreign_pool(status=PoolStatus.PROVISIONING))
    busy.deliver(a_workload_demand())
    busy.pools.move(CLUSTER, "default-pool", "RUNNING" if method == "Create" else "gone")

    assert busy.deliver(as_message(an_entry(method, pool="default-pool")), "settle").status == 200
    assert busy.pools.names(CLUSTER)[-1] == slice_name(CREATES - 1)
    assert "entry_not_ours" in {each.get("reason") for each in busy.records.found}


def test_one_process_sends_so_many_creates_at_one_time(world: World) -> None:
    """GKE says that it has no place while others are on their way: they are refused too."""
    world.ports = dataclasses.replace(world.ports, places=Places(), threads=Threads(world.clock))
    world.add_slices(3 * CALLS_AT_ONCE)
    world.pools.add(CLUSTER, *(a_pool("PROVISIONING", name=f"of-another-{at}") for at in range(LIMIT)))
    together, lock, sent = threading.Barrier(CALLS_AT_ONCE, timeout=30), threading.Lock(), list[str]()

    def refuse_together(cluster: str, node_pool: Mapping[str, Any]) -> None:
        with lock:
            sent.append(f"{cluster} {node_pool['name']}")
        together.wait()
        raise Throttled(FULL)

    world.pools.create = refuse_together  # type: ignore[method-assign]
    deliveries = [threading.Thread(target=world.deliver, args=(a_workload_demand(),)) for _ in range(4)]
    for each in deliveries:
        each.start()
    for each in deliveries:
        each.join(60)

    assert len(sent) == CALLS_AT_ONCE


def test_namespaces_take_turns(busy: World) -> None:
    busy.cluster.add(
        a_jobset(namespace="other"), a_pod(namespace="other", uid="of-other", unschedulable_since=NOW - 10)
    )
    busy.deliver(a_workload_demand())
    end(busy, slice_name(0))
    end(busy, slice_name(1))

    claims = [pool.owner.namespace for pool in busy.pools.list(CLUSTER)[1 + CREATES :] if pool.owner]
    assert sorted(claims) == ["default", "other"]


def test_a_slice_whose_creation_has_failed_before_is_left_to_the_sweep(busy: World) -> None:
    """The sweep keeps the pause after a failure."""
    busy.deliver(a_workload_demand())
    busy.pools.add(CLUSTER, a_pool("ERROR", name=slice_name(4), claim=claim_of(4)))
    busy.pools.fail(CLUSTER, slice_name(4), "[GCE_STOCKOUT]")
    busy.pools.move(CLUSTER, slice_name(4), "gone")
    end(busy, slice_name(0))

    assert busy.pools.names(CLUSTER)[-1] == slice_name(5)


@pytest.mark.parametrize("error", [Denied("container.operations.list"), Unavailable("away")])
def test_if_the_operations_cannot_be_listed_nothing_is_created_and_the_entry_is_answered(
    busy: World, error: Exception
) -> None:
    busy.deliver(a_workload_demand())
    busy.pools.fail_next("list_creations", error)

    assert end(busy, slice_name(0)) == 200
    assert busy.pools.count("create") == CREATES


def test_what_was_remembered_is_forgotten_after_a_time(busy: World) -> None:
    busy.deliver(a_workload_demand())
    busy.clock.advance(REMEMBERED_SECONDS + 1)
    busy.deliver(a_workload_demand())

    assert busy.pools.count("refused") == 2


def test_a_create_without_an_answer_keeps_its_place(world: World) -> None:
    places, busy = Places(), list_under_way(LIMIT - 1)

    def answer(error: Exception) -> None:
        raise error

    with pytest.raises(Unavailable):
        places.send(lambda: answer(Unavailable("no answer")), CLUSTER, "one", busy, now=NOW)
    with pytest.raises(Throttled, match="quota 5"):
        places.send(lambda: answer(Throttled(FULL)), CLUSTER, "two", busy, now=NOW)
    with pytest.raises(NoPlace, match="at most 5 operations"):
        places.is_sent(CLUSTER, "three", busy, now=NOW)
    assert not places.is_sent(CLUSTER, "three", [*busy, a_pool("RUNNING", name="one")], now=NOW)
    with pytest.raises(NoPlace):  # the list of another thread is older
        places.is_sent(CLUSTER, "three", busy, now=NOW)
    assert not places.is_sent(CLUSTER, "three", [*busy], now=NOW + TURN_SECONDS + 1)
    assert not places.is_sent("another", "three", busy, now=NOW)
    assert world.pools.calls == []


@pytest.mark.parametrize(
    ("words", "places_taken", "full"),
    [(FULL, LIMIT, True), (FULL, LIMIT - 1, False), ("Quota exceeded for quota metric 'API requests'", 99, False)],
    ids=["all are taken", "one is free", "too many requests"],
)
def test_the_number_of_places_is_the_one_that_gke_names(words: str, places_taken: int, full: bool) -> None:
    """What is counted at the refusal is not: a list may be old, and creates may have no answer."""
    places, listed = Places(), list_under_way(places_taken)

    def refuse() -> None:
        raise Throttled(words)

    def refuse_after_another() -> None:
        with pytest.raises(Throttled):
            places.send(refuse, CLUSTER, "two", [], now=NOW + 0.1)
        refuse()

    with pytest.raises(Throttled):
        places.send(refuse_after_another, CLUSTER, "one", [], now=NOW)
    # Threads come a little out of turn.
    with pytest.raises(NoPlace, match="at most 5 operations") if full else contextlib.nullcontext():
        places.is_sent(CLUSTER, "three", listed, now=NOW + 0.05)


@pytest.mark.parametrize(
    ("limit", "deletions", "age_seconds", "full"),
    [(5, 0, SLOW_SECONDS, True), (5, 1, SLOW_SECONDS, False), (1, 0, SLOW_SECONDS, False), (5, 0, 60.0, False)],
    ids=["the last place", "a deletion has it", "the only place", "creates are not slow"],
)
def test_the_last_place_is_for_a_deletion_if_creates_are_slow(
    limit: int, deletions: int, age_seconds: float, full: bool
) -> None:
    """Creations that fail after 35 minutes held all places, and none was free for a deletion."""
    places, listed = Places(), list_under_way(limit, age_seconds)[1 - deletions :][: limit - 1]

    with pytest.raises(Throttled):
        places.send(Mock(side_effect=Throttled(FULL.replace("5", str(limit)))), CLUSTER, "one", [], now=NOW)
    with pytest.raises(NoPlace, match="waits until one ends") if full else contextlib.nullcontext():
        places.is_sent(CLUSTER, "two", listed, now=NOW)


def test_that_creates_are_slow_is_remembered_when_all_of_them_have_ended() -> None:
    places, young = Places(), list_under_way(LIMIT)[1:]
    with pytest.raises(Throttled):
        places.send(Mock(side_effect=Throttled(FULL)), CLUSTER, "one", [], now=NOW)
    assert not places.is_sent(CLUSTER, "two", young, now=NOW)
    assert not places.is_sent(CLUSTER, "two", list_under_way(LIMIT - 1, SLOW_SECONDS)[1:], now=NOW)

    with pytest.raises(NoPlace):
        places.is_sent(CLUSTER, "two", young, now=NOW + 60)


def test_a_create_that_ends_leaves_its_place_to_a_deletion_if_none_is_under_way(busy: World) -> None:
    """Seed 8762294: each end gave its place to a create, so a pool that was over stayed."""
    busy.deliver(a_workload_demand())
    busy.pools.move(CLUSTER, LEAVING, "gone")
    busy.pools.add(CLUSTER, a_pool("PROVISIONING", name="of-another"), a_foreign_pool(name="over"))
    busy.clock.advance(CREATION_TRIES_SECONDS)
    assert end(busy, slice_name(0)) == 200
    assert busy.pools.count("create") == CREATES

    busy.pools.move(CLUSTER, "over", "STOPPING")
    assert end(busy, slice_name(1)) == 200
    assert busy.pools.names(CLUSTER)[-1] == slice_name(CREATES)


def test_no_other_create_rests_on_a_list_with_which_gke_refused_one() -> None:
    """It lacks creates of other processes, or GKE has had too many requests."""
    places, listed = Places(), [a_pool()]

    def refuse() -> None:
        raise Throttled("Quota exceeded for quota metric 'API requests'")

    with pytest.raises(Throttled):
        places.send(refuse, CLUSTER, "one", listed, now=NOW)
    with pytest.raises(Throttled, match="API requests"):
        places.is_sent(CLUSTER, "two", listed, now=NOW)
    assert not places.is_sent(CLUSTER, "two", [*listed], now=NOW)


def test_a_slice_whose_creation_has_failed_asks_again_if_it_finds_no_place(busy: World) -> None:
    """The end of another slice's operation gives it no place."""
    busy.deliver(a_workload_demand())
    busy.pools.fail(CLUSTER, slice_name(0), "[GCE_STOCKOUT]")
    busy.pools.move(CLUSTER, slice_name(0), "ERROR")
    busy.pools.add(CLUSTER, a_pool("PROVISIONING", name="of-another"))
    busy.clock.advance(REMEMBERED_SECONDS - 1)

    assert busy.deliver(a_workload_demand()).status == 503
    assert busy.pools.count("refused") == 1


def test_what_one_delivery_creates_is_not_asked_for_by_another_one_at_the_same_time(world: World) -> None:
    """The exporter sends a second message while the first one is answered."""
    world.ports = dataclasses.replace(world.ports, places=Places())
    world.add_slices(3, unschedulable_since=NOW)
    create, listed = world.pools.create, list[str]()

    def create_slowly(cluster: str, node_pool: Mapping[str, Any]) -> None:
        listed.append(str(node_pool["name"]))
        if len(listed) == 1:
            assert world.deliver(a_workload_demand()).status == 200
        create(cluster, node_pool)

    world.pools.create = create_slowly  # type: ignore[method-assign]

    assert world.deliver(a_workload_demand()).status == 200
    assert sorted(listed) == [slice_name(index) for index in range(3)]
    assert not world.pools.count("get")


def test_what_becomes_of_a_create_is_told_by_the_delivery_that_sent_it_alone(world: World) -> None:
    """Seed 7934529: GKE refuses it, and the other delivery may tell later that a pool comes."""
    world.ports = dataclasses.replace(world.ports, places=Places())

    def refuse_slowly(cluster: str, node_pool: Mapping[str, Any]) -> None:
        assert world.deliver(a_workload_demand()).status == 200
        raise NoCapacity("quota exceeded")

    world.pools.create = refuse_slowly  # type: ignore[method-assign]

    assert world.deliver(a_workload_demand()).status == 200
    assert {each.message.rpartition(" ")[2] for each in world.cluster.notices} == {"[quota_exceeded]"}


@pytest.mark.parametrize(
    ("answer", "seconds", "known"),
    [(None, 0, True), (None, TURN_SECONDS + 1, False), (Unavailable("lost"), 0, False), (Denied("no"), 0, False)],
)
def test_a_create_is_known_as_sent_while_a_list_may_lack_its_pool(
    answer: Exception | None, seconds: float, known: bool
) -> None:
    places = Places()

    def create() -> None:
        if answer is not None:
            raise answer

    first, second, other = (
        build_pool_name(a_claim(slice_key=key), at) for key, at in (("a", 0), ("a", 1), ("b", 0))
    )
    with contextlib.suppress(Unavailable, Denied):
        places.send(create, CLUSTER, first, [], now=NOW)

    assert places.is_sent(CLUSTER, second, [], now=NOW + seconds) is known
    assert not places.is_sent(CLUSTER, second, [a_pool("ERROR", name=first)], now=NOW + seconds)
    assert not places.is_sent(CLUSTER, other, [], now=NOW + seconds)
    assert not places.is_sent("another", first, [], now=NOW + seconds)
