"""Whatever dies on the way, the run ends right: one pool per slice while it lasts, none afterwards."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from rich.console import Console

from local.demo.manifests import load
from local.demo.running import Run, RunOptions
from local.demo.views import PlainView
from local.stack.commands import StackSettings
from local.stack.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.demo.timeline import Timeline

MANIFEST = Path(__file__).resolve().parents[2] / "examples" / "v6e-two-slices.yaml"
SECONDS = 12.0
"""The blows fall within this time after the apply; an undisturbed run takes about as long."""


class Chaos:
    """Strikes each target twice, at moments drawn from a seed."""

    def __init__(self, stack: Stack, seed: int) -> None:
        chance = random.Random(seed)
        targets: list[Callable[[], object]] = [
            lambda: stack.kill("exporter"),
            lambda: stack.kill("provision"),
            lambda: stack.kill("collect"),
            lambda: stack.kill("sweep"),
            lambda: httpx.post(f"{stack.addresses.pubsub_rest}/admin/disconnect").raise_for_status(),
            lambda: httpx.post(f"{stack.addresses.kubernetes}/admin/disconnect").raise_for_status(),
        ]
        blows = [(chance.uniform(0.0, SECONDS), strike) for strike in targets for _ in range(2)]
        self._due = sorted(blows, key=lambda blow: blow[0])

    def look(self, timeline: Timeline) -> None:
        """Strike what is due by now."""
        while self._due and time.time() - timeline.started_at >= self._due[0][0]:
            self._due.pop(0)[1]()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_with_random_deaths_ends_right(tmp_path: Path, seed: int):
    with Stack(tmp_path, StackSettings(speed=60.0, restarts=True)) as stack:
        chaos = Chaos(stack, seed)
        run = Run(stack, PlainView(Console(quiet=True)), RunOptions(timeout_seconds=80), on_look=chaos.look)
        outcome = run.perform(load([str(MANIFEST)]))
        restarts = sum(state.restarts for state in stack.supervisor.states())
    assert outcome.verified, outcome.problems
    assert outcome.pools_left == 0
    assert restarts > 0, "nothing was struck"
    for one in outcome.timeline.slices.values():
        created = [call for pool in one.pools for call in outcome.timeline.calls.get(pool, [])]
        accepted = [call for call in created if call.method == "CreateNodePool" and call.code == "OK"]
        assert len(accepted) == 1, f"{one.job}: {accepted}"
