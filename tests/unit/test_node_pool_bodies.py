"""Our node pools are as the page says that has them beside those of GKE's own provisioner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared.core import labels
from shared.core.priorities import NodeSource
from shared.core.shapes.tpu_catalogue import FAMILIES
from tests.builders import settings
from tests.node_pool_bodies import Row, read_names, read_tables, read_values
from tests.unit.test_nodepool import EVERYTHING, TOLERATED, build

if TYPE_CHECKING:
    from collections.abc import Iterator

FAMILY_ROWS, TIERS, FIELDS = read_tables()
TOLD = {name for tier in TIERS for side in ("both send", "only ours") for name in read_values(tier[side])}
OURS = {name for row in FIELDS if row["we send"] for name in read_names(row["field"])}
RESERVED, BLOCK = {labels.RESERVATION_NAME: "r"}, {labels.RESERVATION_BLOCKS: "b"}
ASKS: dict[str, dict[str, str]] = {
    "on-demand": {},
    "on-demand, nodes by the autoscaler": {},
    "spot": {labels.SPOT: "true"},
    "reservation": RESERVED,
    "block of a reservation": RESERVED | BLOCK,
    "flex-start": {labels.FLEX_START: "true", labels.MAX_RUN_DURATION: "3600"},
}
"""What the pods of each tier select."""


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each field with its value; those that are a row of the page as a whole."""
    if isinstance(value, dict) and path not in OURS:
        for key, inside in value.items():
            yield from flatten(inside, f"{path}.{key}".lstrip("."))
    else:
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        yield path, text.lower() if isinstance(value, bool) else text


def test_each_family_has_the_machines_the_disk_and_the_placement_of_the_page() -> None:
    ours = {family.machines[0].name.partition("-")[0]: family for family in FAMILIES}
    rows = {each["family"]: each for each in FAMILY_ROWS if each["our placement"] != "not in our catalogue"}

    assert ours.keys() == rows.keys()
    for name, family in ours.items():
        row, slices = rows[name], [each for each in family.machines if each.multi_host]
        assert row["machines"] == ", ".join(each.name for each in family.machines)
        assert row["alone"] == ", ".join(each.single_host or "none" for each in family.machines)
        assert (row["boot disk"], row["flex-start"] == "yes") == (family.boot_disks[0], family.flex_start)
        assert bool(slices) == (row["our placement"] != "no placement")
        if slices:
            topology = "4x4" if family.dimensions == 2 else "2x2x2"
            body = build(accelerator=family.accelerator, topology=topology, chips=slices[0].chips)
            compact = {"type": "COMPACT", "tpuTopology": topology}
            policy = {"policyName": f"tpu-provisioner-{topology}"}
            assert body["placementPolicy"] == (compact if row["our placement"] == "COMPACT" else policy)


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier["tier"])
def test_each_tier_has_the_fields_of_the_page(tier: Row) -> None:
    source = NodeSource.CREATION if tier["tier"] == "on-demand" else NodeSource.AUTOSCALER
    use = settings(nodes_from=dict.fromkeys(("on-demand", "spot", "reservation"), source))

    sent = dict(flatten(build(use, selectors=ASKS[tier["tier"]])))

    told = read_values(tier["both send"]) | read_values(tier["only ours"])
    assert {name: value for name, value in sent.items() if name in TOLD} == told


def test_we_send_each_field_of_the_page_and_no_other() -> None:
    spot, pinned = {labels.SPOT: "true"}, {"node_additional_networks": ("n:s",)}
    bodies = [build(settings(**EVERYTHING)), build(settings(**pinned), accelerator="tpu7x", topology="2x2x2")]
    bodies += [build(selectors=each) for each in ASKS.values()]
    bodies.append(build(selectors=spot, tolerations=TOLERATED))
    sent = {name for body in bodies for name, _ in flatten(body)}

    assert sent == OURS | TOLD
