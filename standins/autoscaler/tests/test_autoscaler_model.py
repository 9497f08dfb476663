"""The stand-in autoscaler plays the scenarios, against the fake GKE's model in virtual time."""

import pytest

from standins.autoscaler.model import Autoscaler, Times
from standins.autoscaler.picture import GiveUp, Group, Instance, Node, Pod, RemoveNodes, Resize, Seen
from standins.autoscaler.tests.autoscaler_scenarios import STAND_IN, Row, list_rows
from standins.autoscaler.tests.model_world import ModelWorld

NODES = tuple(Node(name=f"host-{index}", allocatable={"google.com/tpu": 4}) for index in range(4))
SLICE = Group(
    id="g",
    pool="p",
    zone="z",
    largest=4,
    target=4,
    all_or_none=True,
    template=NODES[0],
    instances=tuple(Instance(each.name) for each in NODES),
)


@pytest.mark.parametrize("row", list_rows(STAND_IN), ids=lambda row: row.play.__name__)
def test_the_stand_in_does_what_an_autoscaler_does(row: Row) -> None:
    row.play(ModelWorld(Times(utilization=row.threshold)))


def test_a_slice_whose_hosts_are_not_all_there_is_not_removed_in_part() -> None:
    for there, removed in (NODES[:3], False), (NODES, True):
        autoscaler = Autoscaler()
        seen = Seen(nodes=there, groups=(SLICE,))
        actions = [each for now in range(0, 1300, 10) for each in autoscaler.look(float(now), seen)]
        assert any(isinstance(each, RemoveNodes) for each in actions) == removed


def test_a_slice_of_which_a_host_does_not_come_back_is_given_up_at_the_time_that_is_told() -> None:
    autoscaler, seen = Autoscaler(), Seen(nodes=NODES[:3], groups=(SLICE,))
    assert autoscaler.look(0.0, seen) == []
    assert autoscaler.find_next(0.0) == 900
    assert autoscaler.look(890.0, seen) == []
    assert autoscaler.look(900.0, seen) == [GiveUp(SLICE, tuple(each.name for each in NODES))]


def test_so_many_groups_grow_in_one_loop_as_the_settings_say() -> None:
    template = Node(name="template", labels={"pool": "p"}, allocatable={"google.com/tpu": 4})
    groups = tuple(Group(id=f"g{index}", pool="p", zone="z", largest=1, template=template) for index in range(5))
    pods = tuple(
        Pod(namespace="n", name=f"p{index}", uid=f"u{index}", unschedulable=True, requests={"google.com/tpu": 4})
        for index in range(5)
    )
    for most in (1, 3):
        actions = Autoscaler(Times(scale_ups_max=most)).look(0.0, Seen(pods=pods, groups=groups))
        assert sum(isinstance(each, Resize) for each in actions) == most
