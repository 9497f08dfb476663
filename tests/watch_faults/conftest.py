"""One loop for all scenarios of this folder, on a real control plane that may be broken."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.stack.clusters import ClusterKind
from demo.stack.commands import StackSettings
from demo.stack.stack import Stack
from standins.controlplane.building import find_build
from standins.controlplane.cache import default_cache
from standins.controlplane.commands import Choices
from standins.controlplane.plane import ControlPlane
from tests.clusters import SPEED
from tests.lives.cloud import wait_for
from tests.watch_faults.watchfaults_loop import Loop

COMPACTION_SECONDS = 20
LEASE_SECONDS = 300
"""Longer than any pause of the exporter here: a leader that was paused past its lease ends instead
of resuming."""


@pytest.fixture(scope="package")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    """The loop; JobSet is installed only after the exporter runs."""
    home = tmp_path_factory.mktemp("loop")
    choices = Choices(compaction_seconds=COMPACTION_SECONDS, scheduler_backoff_seconds=1, jobset=False, audit=True)
    with ControlPlane(find_build(default_cache()), choices) as plane:
        yield from looped_on_a_plane(home, plane)


def looped_on_a_plane(home: Path, plane: ControlPlane) -> Iterator[Loop]:
    settings = StackSettings(speed=SPEED, cluster=ClusterKind.REAL, lease_seconds=LEASE_SECONDS)
    with Stack(home, settings, plane=plane) as stack, Loop(stack, plane) as loop:
        wait_for("two looks for JobSets", lambda: loop.restarts("absent")["jobsets"] >= 2)
        loop.before_jobset = observe_without_jobset(loop)
        plane.install_jobset()
        yield loop


def observe_without_jobset(loop: Loop) -> dict[str, Any]:
    """What the exporter says of itself while the cluster does not know JobSets."""
    ready = httpx.get(f"{loop.stack.addresses.exporter}/readyz")
    return {
        "pid": loop.pid("exporter"),
        "ready": ready.status_code,
        "missing": ready.json()["missing"],
        "absent": loop.exporter_metric("resource_absent", resource="jobsets"),
        "pods_listed": loop.exporter_metric("listed", resource="pods"),
        "healthy": httpx.get(f"{loop.stack.addresses.exporter}/healthz").is_success,
        "audit": loop.audit_log(),
    }
