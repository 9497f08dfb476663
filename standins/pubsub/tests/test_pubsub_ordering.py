"""The model's ordering keys: one batch of a key at a time, a failing head blocks its key,
redelivery rewinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standins.pubsub.model.terms import RetryPolicy
from standins.pubsub.tests.pubsub_model_world import SUBSCRIPTION, ModelWorld, texts

if TYPE_CHECKING:
    import random


def test_nothing_more_of_a_key_is_handed_out_while_a_batch_of_it_is_outstanding() -> None:
    world = ModelWorld(ordered=True)
    world.publish("a1", "a2", "a3", key="a")
    first = world.pull(2)
    assert world.pull() == []
    world.ack(first[0])
    assert world.pull() == []
    world.ack(first[1])
    assert world.pull_data() == ["a3"]


def test_pushes_have_one_message_of_a_key_outstanding() -> None:
    world = ModelWorld(ordered=True)
    world.publish("a1", "a2", key="a")
    world.publish("b1", key="b")
    (head, other) = world.pull(one_per_key=True)
    assert texts([head, other]) == ["a1", "b1"]
    world.ack(head)
    assert world.pull_data(one_per_key=True) == ["a2"]


def test_a_failing_head_blocks_its_key_and_no_other() -> None:
    world = ModelWorld(ordered=True, retry=RetryPolicy(10, 10))
    world.publish("a1", "a2", key="a")
    world.publish("b1", key="b")
    world.nack(world.pull(1)[0])
    assert world.pull_data() == ["b1"]
    world.pass_seconds(10)
    assert world.pull_data() == ["a1", "a2"]


def test_keys_mean_nothing_where_ordering_was_not_asked_for() -> None:
    world = ModelWorld()
    world.publish("a1", "a2", key="a")
    first, _ = world.pull(one_per_key=True)
    world.nack(first)
    assert world.pull_data() == ["a1"]


@pytest.mark.parametrize("drop_first", [True, False])
def test_retention_frees_a_key_whose_head_is_too_old(*, drop_first: bool) -> None:
    world = ModelWorld(ordered=True, retention_seconds=600)
    world.publish("old", key="a")
    world.pass_seconds(400)
    world.publish("young", key="a")
    if drop_first:
        world.pull(1)
    world.pass_seconds(300)
    assert world.pull_data() == ["young"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["pull", "ack", "nack", "wait", "publish"]), max_size=60),
    st.randoms(use_true_random=False),
)
def test_whatever_happens_a_key_is_only_ever_handed_out_in_order_and_nothing_is_lost(
    steps: list[str], chance: random.Random
) -> None:
    world = ModelWorld(ordered=True)
    sent = 0
    held = []
    acked: set[str] = set()
    for step in [*steps, "publish"]:
        if step == "publish":
            sent += 1
            world.publish(str(sent), key=str(sent % 3))
        elif step == "pull":
            batch = world.pull(chance.randint(1, 3))
            held += batch
            for key in "012":
                mine = [int(text) for text in texts(batch) if int(text) % 3 == int(key)]
                assert mine == sorted(mine)
        elif step == "wait":
            world.pass_seconds(11)
            held.clear()
        elif held:
            delivery = held.pop(chance.randrange(len(held)))
            if step == "ack":
                world.ack(delivery)
                acked.add(delivery.message.data.decode())
            else:
                world.nack(delivery)
    world.pass_seconds(11)
    rest: set[str] = set()
    while batch := world.pull():
        rest |= set(texts(batch))
        world.ack(*batch)
    assert rest | acked == {str(number) for number in range(1, sent + 1)}
    assert world.backlog.unacknowledged == world.backlog.outstanding == 0
    assert world.broker.subscription(SUBSCRIPTION).backlog.pending() == []
