"""The stand-in autoscaler plays the scenarios, against the fake GKE's model in virtual time."""

import pytest

from standins.autoscaler.model import Autoscaler, Times
from standins.autoscaler.picture import Group, Node, Pod, Resize, Seen
from standins.autoscaler.tests.autoscaler_scenarios import STAND_IN, Row, list_rows
from standins.autoscaler.tests.model_world import ModelWorld


@pytest.mark.parametrize("row", list_rows(STAND_IN), ids=lambda row: row.play.__name__)
def test_the_stand_in_does_what_an_autoscaler_does(row: Row) -> None:
    row.play(ModelWorld(Times(utilization=row.threshold)))


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
