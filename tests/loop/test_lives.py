"""Every life ends as the catalogue says, with its pools, calls and reasons, on both clusters."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from demo.settings import ClusterKind, StackSettings
from demo.stack import Stack
from standins.controlplane.chart import read_local_chart
from standins.controlplane.plane import ControlPlane
from tests.infra.chart import CHART
from tests.loop.bodies import find_kind
from tests.loop.cloud import Cloud
from tests.loop.life import CREATED, Life, Row, read_lives
from tests.loop.surroundings import make_check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTROLLERS = ("kueue-0.15", "kuberay-1.6", "lws-0.7")
AT_ONCE = 16  # so many lives share the two cores of a stack
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
"""The first test of a cluster waits for its stack and for all lives, which run in parallel."""


SPEED = 30.0
"""Virtual seconds per real second. What the functions wait for is sped up too, and what the
schedulers and controllers take is not: with more, a busy machine seems to have lost its nodes."""
SCENARIO = "timings: {create_slice: [30, 90], create_single: [30, 60], delete_nodes: [30, 60]}"
GRACE_SECONDS = {ClusterKind.EMBEDDED: 15, ClusterKind.REAL: 30}
"""Real ones: more than an eviction by Kueue and a new admission take on a busy machine."""


class Run:
    """All lives on one cluster, side by side; an error is kept for the test of its life."""

    def __init__(self, cloud: Cloud, rows: list[Row]) -> None:
        self.lives: dict[str, Life] = {}
        self.errors: dict[str, BaseException] = {}

        def play(row: Row) -> None:
            try:
                life = Life(row, cloud)
                life.play()
                self.lives[row.life] = life
            except BaseException as error:  # noqa: BLE001 -- the test of this very life raises it
                self.errors[row.life] = error

        with ThreadPoolExecutor(AT_ONCE) as threads:  # first those that wait for Kueue's pauses
            list(threads.map(play, sorted(rows, key=lambda row: row.queue is None)))
        self.shared = cloud.list_shared({f"life-{row.life}" for row in rows if row.mixes})


MARKS = {ClusterKind.EMBEDDED: [], ClusterKind.REAL: [pytest.mark.cluster, pytest.mark.controller(*CONTROLLERS)]}
CLUSTERS = [pytest.param(kind, marks=MARKS[kind]) for kind in ClusterKind]
CASES = [
    pytest.param(kind, row.life, marks=MARKS[kind])
    for kind in ClusterKind
    for row in read_lives(real=kind is ClusterKind.REAL)
]


def describe(cluster: ClusterKind, life: Life) -> str:
    """Return one line of the table that the run prints."""
    pools = ", ".join(f"{count} of {shape}" for shape, count in sorted(life.count_pools().items())) or "none"
    kind = find_kind(life.row.workload)
    return f"{cluster:8}  {life.row.life:24}  {kind:15}  {pools:56}  {' '.join(sorted(life.list_told()))}"


@pytest.fixture(scope="module")
def run(
    cluster_kind: ClusterKind, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    # Only lives that a person has chosen with `-k`, if any.
    names = {each.callspec.params.get("name") for each in request.session.items if hasattr(each, "callspec")}
    home = tmp_path_factory.mktemp("lives")
    (home / "scenario.yaml").write_text(SCENARIO)
    with ExitStack() as things:
        if real := cluster_kind is ClusterKind.REAL:
            plane = things.enter_context(ControlPlane(*CONTROLLERS))
        settings = StackSettings(
            speed=SPEED,
            cluster=cluster_kind,
            faults=str(home / "scenario.yaml"),
            grace_virtual_seconds=GRACE_SECONDS[cluster_kind] * SPEED,
            kueue_admission_check=real,
        )
        stack = things.enter_context(Stack(home, settings, plane=plane if real else None))
        cloud = things.enter_context(Cloud(stack))
        if real:  # only now: the stack has applied the chart without it
            plane.apply(read_local_chart(CHART, {"kueue": True}))
            make_check(cloud)
        yield Run(cloud, [row for row in read_lives(real=real) if row.life in names])


@pytest.mark.parametrize(("cluster_kind", "name"), CASES, indirect=["cluster_kind"], scope="session")
def test_a_life_ends_as_it_should_and_leaves_nothing(
    run: Run, name: str, cluster_kind: ClusterKind, record_property: Callable[[str, object], None]
) -> None:
    if name in run.errors:
        raise run.errors[name]
    record_property("life", describe(cluster_kind, run.lives[name]))
    run.lives[name].check()


@pytest.mark.parametrize("cluster_kind", CLUSTERS, indirect=True, scope="session")
def test_no_pool_ever_holds_two_slices_and_no_slice_two_pools(run: Run) -> None:
    assert run.shared == []


@pytest.mark.parametrize("cluster_kind", CLUSTERS, indirect=True, scope="session")
def test_owners_are_told_when_their_pool_is_there(run: Run) -> None:
    assert sum(CREATED in life.list_told() for life in run.lives.values()) > len(run.lives) // 4
