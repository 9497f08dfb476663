"""A plan asks for a fact only where it decides, and has no acts until it has it."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from shared.model.needs import Asks, Need, Pod
from shared.model.pools import PoolShape
from shared.plan.plan import make_plan
from shared.plan.scene import Pool, Scene
from tests.rules.plan_scenes import EMPTY, FOREIGN, GPU, LIST, build_scene, fleet, on, scene
from tests.rules.plan_scenes import Need as NeedRow
from tests.rules.plan_scenes import Pod as PodRow
from tests.rules.plan_scenes import Pool as PoolRow
from tests.rules.plan_scenes import Scene as Row

WAITS = PodRow(0)
UNREAD = replace(EMPTY, unread="word")
ROWS: list[tuple[str, Row, str]] = [
    ("a demand without a pool", scene(1, [WAITS]), ""),
    ("a young demand rests on no earlier create", scene(1, [replace(WAITS, age=10)], operations=None), ""),
    (
        "a young pod of an old workload may have lost a pool",
        scene(1, [replace(WAITS, age=10)], operations=None, owner_age=900),
        "operations",
    ),
    ("an old demand may have lost a pool", scene(1, [WAITS], operations=None), "operations"),
    (
        "a young demand follows a failed pool",
        scene(
            1, [replace(WAITS, age=10)], [PoolRow(0, state="ERROR", nodes=0)], NeedRow(list=LIST), operations=None
        ),
        "operations",
    ),
    ("nothing is created, so no operation matters", scene(1, on("0.0", 0), fleet(1), operations=None), ""),
    ("a pool that lacks nodes", scene(1, [WAITS], [UNREAD], NeedRow(list=LIST)), "machines 0.0"),
    ("a pool that is young", scene(1, [WAITS], [replace(UNREAD, age=30)], NeedRow(list=LIST)), ""),
    ("nobody waits for what a pool lacks", scene(1, (), [UNREAD], NeedRow(list=LIST)), ""),
    (
        "an elastic pool that lacks nodes",
        scene(1, [WAITS], [replace(GPU, nodes=1, unread="word")], NeedRow(wants=3, hosts=1, list=LIST)),
        "machines any.0",
    ),
    ("a pool that ends", scene(1, (), fleet(1, unread="users"), over=True), "users 0.0"),
    ("a pool that is kept", scene(1, on("0.0", 0), fleet(1, unread="users")), ""),
    ("a slice waits beside its whole pool", scene(1, [WAITS], fleet(1, unread="users")), "users 0.0"),
    (
        "a slice waits for its pool",
        scene(1, [WAITS], [PoolRow(0, state="PROVISIONING", nodes=0, unread="users")]),
        "",
    ),
    (
        "a pool that is made smaller rests on no pod",
        scene(1, (), [replace(GPU, nodes=0, unread="users")], NeedRow(wants=0, hosts=1)),
        "",
    ),
    (
        "a pool that is made smaller may still get nodes",
        scene(1, (), [replace(GPU, nodes=0, unread="word")], NeedRow(wants=0, hosts=1)),
        "machines any.0",
    ),
    ("a stopped plan asks for nothing", scene(1, (), fleet(1, unread="users"), over=True, stop="report-only"), ""),
    ("what others use was read", scene(1, FOREIGN, fleet(1), over=True), ""),
]


@pytest.mark.parametrize(("row", "asks"), [pytest.param(*each[1:], id=each[0]) for each in ROWS])
def test_a_plan_asks_for_what_decides(row: Row, asks: str) -> None:
    plan = make_plan(build_scene(row))

    assert ", ".join(f"{each.fact} {each.pool}".strip() for each in plan.asks) == asks
    assert not (asks and (plan.adds or plan.takes))


def build_fleet(*, pinned: bool, pools: bool) -> Scene:
    shape = PoolShape("ct6e-standard-4t", "4x4", 4, 4)
    asked = [Asks(shape, frozenset({("job", str(number))} if pinned else ())) for number in range(1000)]
    needs = (
        tuple(Need(key=f"k{number}", asks=asks, hosts=4, pin=f"s{number}") for number, asks in enumerate(asked))
        if pinned
        else (Need(key="k0", asks=asked[0], most=1000, hosts=4),)
    )
    pods = tuple(
        Pod(need=f"k{number * pinned}", slice=f"s{number}", waits=True, created_at=1.0, asks=asks)
        for number, asks in enumerate(asked)
        for _ in range(4)
    )
    made = tuple(
        Pool(
            name=f"p{number}",
            shape=shape,
            slot=f"s{number}" if pinned else number,
            need=f"k{number * pinned}",
            node_labels=dict(asks.labels),
            ready=4,
            ready_since=9.0,
            created_at=2.0,
            maximum=4,
        )
        for number, asks in enumerate(asked)
    )
    return Scene(now=5000.0, needs=needs, pods=pods, pools=made if pools else (), slots=10**4)


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("pools", [True, False])
def test_a_thousand_slices_are_planned_at_once(*, pinned: bool, pools: bool) -> None:
    fleet_of_all = build_fleet(pinned=pinned, pools=pools)
    began = time.process_time()

    plan = make_plan(fleet_of_all)

    assert len(plan.adds) == 1000
    assert time.process_time() - began < 0.6  # 0.06 to 0.17 s on two cores
