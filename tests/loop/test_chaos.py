"""Whatever dies on the way, the run ends right: one pool per slice while it lasts, none afterwards.

On both clusters the exporter and the functions are killed and Pub/Sub breaks off its connections.
The embedded cluster breaks off its watches too; of the real one, the API server and etcd themselves
are killed.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest
from rich.console import Console

from demo.feed import View
from demo.following import Run, RunOptions
from demo.manifests import load
from demo.settings import ClusterKind, StackSettings
from demo.stack import Stack
from demo.tests.local_commands import ROOT, TEST_SECONDS_MAX
from standins.controlplane.plane import API_SERVER, ETCD, ControlPlane
from tests.running_stacks import SPEEDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Strike = Callable[[], object]

PROCESSES = ("exporter", "provision", "collect")
MANIFEST = ROOT / "examples" / "v6e-two-slices.yaml"
SLICES = 2
SECONDS = 12.0
"""The blows fall within this time after the apply; an undisturbed run takes about as long."""

PATIENCE_SECONDS = 120.0
"""Longer than all blows and restarts together: nobody is asked while the exporter is away."""


def disconnect(address: str) -> None:
    """Let a stand-in break off its connections."""
    httpx.post(f"{address}/admin/disconnect").raise_for_status()


def crash(plane: ControlPlane, part: str) -> None:
    """Kill a part and start it again, as the kubelet of a control plane's machine does."""
    plane.kill(part)
    plane.start(part)


@pytest.mark.slow
@pytest.mark.timeout(TEST_SECONDS_MAX)
def test_a_run_with_random_deaths_ends_right(cluster_kind: ClusterKind, tmp_path: Path) -> None:
    with ExitStack() as things:
        plane = things.enter_context(ControlPlane()) if cluster_kind is ClusterKind.REAL else None
        settings = StackSettings(speed=SPEEDS[ClusterKind.REAL], cluster=cluster_kind)
        stack = things.enter_context(Stack(tmp_path, settings, plane=plane))
        strikes: list[Strike] = [partial(stack.supervisor.kill, each) for each in PROCESSES]
        strikes.append(partial(disconnect, stack.addresses.google_rest))
        if plane:
            strikes += [partial(crash, plane, API_SERVER), partial(crash, plane, ETCD)]
        else:
            strikes.append(partial(disconnect, stack.addresses.kubernetes))
        chance = random.Random(1)
        blows = [(chance.uniform(0.0, SECONDS), strike) for strike in strikes for _ in range(2)]
        blows.sort(key=lambda blow: blow[0], reverse=True)

        def strike_what_is_due(seconds: float) -> None:
            while blows and seconds >= blows[-1][0]:
                blows.pop()[1]()

        options = RunOptions(timeout_seconds=300, patience_seconds=PATIENCE_SECONDS)
        run = Run(stack, View(Console(quiet=True)), options, on_look=strike_what_is_due)
        outcome = run.perform(load([str(MANIFEST)]))
        restarts = sum(state.restarts for state in stack.supervisor.states())

    assert outcome.problems == []
    assert outcome.refusals == []  # a workload that was given up ends "right", too
    assert restarts > 0, "nothing was struck"
    # As many pools as slices. A slice whose message is late may run on another one's pool, which
    # then gets the next attempt instead. GKE's own record counts: a function that is killed after
    # its create has logged no decision.
    assert outcome.calls["CreateNodePool"] == SLICES, outcome.calls
