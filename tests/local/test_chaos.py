"""Whatever dies on the way, the run ends right: one pool per slice while it lasts, none afterwards.

On both clusters the exporter and the functions are killed and Pub/Sub breaks off its connections. The embedded
cluster breaks off its watches too; of the real one, the API server and etcd themselves are killed.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml
from local_commands import ROOT, TEST_SECONDS_MAX
from rich.console import Console

from local.controlplane.commands import API_SERVER, ETCD, Choices
from local.controlplane.plane import ControlPlane
from local.demo.manifests import load
from local.demo.running import Run, RunOptions
from local.demo.views import PlainView
from local.stack.clusters import ClusterKind
from local.stack.commands import StackSettings
from local.stack.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from local.demo.timeline import Timeline

    Strike = Callable[[], object]

MANIFEST = ROOT / "examples" / "v6e-two-slices.yaml"
SECONDS = 12.0
"""The blows fall within this time after the apply; an undisturbed run takes about as long."""
SETTINGS = {"speed": 60.0, "restarts": True}


class Arena:
    """A stack of this file's own, and everything in it that can be struck."""

    def __init__(self, stack: Stack, cluster_blows: list[Strike]) -> None:
        self.stack = stack
        self.targets: list[Strike] = [
            lambda: stack.kill("exporter"),
            lambda: stack.kill("provision"),
            lambda: stack.kill("collect"),
            lambda: stack.kill("sweep"),
            lambda: httpx.post(f"{stack.addresses.pubsub_rest}/admin/disconnect").raise_for_status(),
            *cluster_blows,
        ]


class Chaos:
    """Strikes each target twice, at moments drawn from a seed."""

    def __init__(self, arena: Arena, seed: int) -> None:
        chance = random.Random(seed)
        blows = [(chance.uniform(0.0, SECONDS), strike) for strike in arena.targets for _ in range(2)]
        self._due = sorted(blows, key=lambda blow: blow[0])

    def look(self, timeline: Timeline) -> None:
        """Strike what is due by now."""
        while self._due and time.time() - timeline.started_at >= self._due[0][0]:
            self._due.pop(0)[1]()


@pytest.fixture(scope="module")
def arena(
    cluster_kind: ClusterKind, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Arena]:
    settings = StackSettings(**SETTINGS, cluster=cluster_kind)
    home = tmp_path_factory.mktemp("chaos")
    if cluster_kind is ClusterKind.EMBEDDED:
        with Stack(home, settings) as stack:
            url = f"{stack.addresses.kubernetes}/admin/disconnect"
            yield Arena(stack, [lambda: httpx.post(url).raise_for_status()])
        return
    build = request.getfixturevalue("build")
    with ControlPlane(build, Choices()) as plane, Stack(home, settings, plane=plane) as stack:
        yield Arena(stack, [lambda: crash(plane, API_SERVER), lambda: crash(plane, ETCD)])


def crash(plane: ControlPlane, part: str) -> None:
    """Kill a part and start it again, as the kubelet of a control plane's machine does."""
    plane.kill(part)
    plane.start(part)


@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_with_random_deaths_ends_right(arena: Arena, seed: int, tmp_path: Path):
    stack = arena.stack
    manifest = tmp_path / "chaos.yaml"  # in a namespace of its own, because the stack is that of every seed
    body = yaml.safe_load(MANIFEST.read_text())
    manifest.write_text(yaml.safe_dump(body | {"metadata": body["metadata"] | {"namespace": f"chaos-{seed}"}}))
    before = sum(state.restarts for state in stack.supervisor.states())
    chaos = Chaos(arena, seed)
    run = Run(stack, PlainView(Console(quiet=True)), RunOptions(timeout_seconds=300), on_look=chaos.look)
    outcome = run.perform(load([str(manifest)]))
    restarts = sum(state.restarts for state in stack.supervisor.states()) - before
    assert outcome.verified, outcome.problems
    assert outcome.pools_left == 0
    assert restarts > 0, "nothing was struck"
    for one in outcome.timeline.slices.values():
        created = [call for pool in one.pools for call in outcome.timeline.calls.get(pool, [])]
        accepted = [call for call in created if call.method == "CreateNodePool" and call.code == "OK"]
        assert len(accepted) == 1, f"{one.job}: {accepted}"
