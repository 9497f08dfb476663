"""The capacity script as data: what it says, and how a wrong one is refused."""

from typing import Any

import pytest

from standins.fakegke.faults.capacity_script import Stock, parse_capacity
from standins.fakegke.faults.fault_rules import Target
from standins.fakegke.tests.fakegke_worlds import InProcessWorld


def test_a_stock_has_the_amount_of_its_last_change() -> None:
    change = {"at": 60, "chips": None}
    (stock,) = parse_capacity([{"zone": "us-east5-*", "tier": "spot", "chips": 16, "changes": [change]}])
    assert stock == Stock(zone="us-east5-*", tier="spot", unit="chips", steps=((0.0, 16), (60.0, None)))
    assert [stock.amount_at(at) for at in (0.0, 59.9, 60.0)] == [16, 16, None]
    begins = [number / 7 for number in range(1000)]  # of which many are no exact binary fractions
    assert {stock.amount_at(begin + 60, begin) for begin in begins} == {None}
    assert stock.covers(Target(zone="us-east5-b", tier="spot"), "")
    assert not stock.covers(Target(zone="us-west1-b", tier="spot"), "")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"nodes": 1}, r"capacity: must be a list \(got \{'nodes': 1\}\); valid: a list of rules"),
        (["all"], r"capacity\[0\]: must be a mapping \(got 'all'\); valid: machine_type, zone"),
        ([{}], r"capacity\[0\]: must have one unit \(got \[\]\); valid: nodes or chips"),
        ([{"nodes": 1, "chips": 4}], r"\(got \['nodes', 'chips'\]\); valid: nodes or chips, not both"),
        ([{"nodes": 1}, {"nodes": -1}], r"capacity\[1\]\.nodes: is no amount \(got -1\); valid: a whole number"),
        ([{"chips": True}], r"capacity\[0\]\.chips: is no amount \(got True\)"),
        ([{"nodes": 1, "zon": "x"}], r"capacity\[0\]\.zon: is no field here \(got 'x'\); valid: .*zone"),
        ([{"nodes": 1, "zone": 5}], r"capacity\[0\]\.zone: must be a text \(got 5\); valid: a name or a glob"),
        (
            [{"nodes": 1, "zone": "us-east5"}],
            r"zone: is no zone \(got 'us-east5'\); valid: a zone such as us-east5-b",
        ),
        ([{"nodes": 1, "tier": "Spot"}], r"tier: matches no tier \(got 'Spot'\); valid: on-demand, spot"),
        (
            [{"nodes": 1, "tier": "spot", "reservation": "r"}],
            r"tier: does not go .*\(got 'spot'\); valid: reservation",
        ),
        (
            [{"nodes": 1, "machine_type": "ct9-1t"}],
            r"machine_type: is no machine type \(got 'ct9-1t'\); valid: a mach",
        ),
        ([{"nodes": 1, "changes": 3}], r"capacity\[0\]\.changes: must be a list \(got 3\); valid: .*at and nodes"),
        (
            [{"nodes": 1, "changes": [{"at": 5}]}],
            r"changes\[0\]\.nodes: is missing \(got None\); valid: at, nodes",
        ),
        (
            [{"nodes": 1, "changes": [{"at": 5, "chips": 2}]}],
            r"changes\[0\]\.chips: is no field .*valid: at, nodes",
        ),
        (
            [{"nodes": 1, "changes": [{"at": 5, "nodes": 2}, {"at": 5, "nodes": 3}]}],
            r"changes\[1\]\.at: must be later \(got 5\); valid: virtual seconds from the start, more than 5",
        ),
        ([{"nodes": 1, "from_use": "yes"}], r"from_use: must be a truth value \(got 'yes'\); valid: true"),
    ],
)
def test_a_script_that_cannot_be_played_names_field_value_and_what_is_valid(raw: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        InProcessWorld({"capacity": raw})
