"""Ray's own autoscaler requests and releases workers, and the pools follow (docs/demo-ray.md)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from demo.ray.image import write_image
from demo.ray.installing import default_folder, find_ray
from demo.ray.ray_run import Run
from demo.stack.clusters import ClusterKind
from demo.stack.commands import StackSettings
from demo.stack.stack import Stack
from standins.controlplane.plane import ControlPlane
from tests.clusters import SPEED

KUBERAY = "kuberay-1.6"
SECONDS_MAX = 900.0
"""Five Ray nodes start on what may be half a core; with that, a run took four minutes."""
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.controller(KUBERAY),
    pytest.mark.ray,
    pytest.mark.timeout(SECONDS_MAX + 300),
    pytest.mark.slow,
]


def test_actors_of_ray_get_a_slice_and_gpus_and_the_pools_go_when_they_are_let_go(
    plane_with: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    ray = find_ray(default_folder())
    settings = StackSettings(speed=SPEED, cluster=ClusterKind.REAL, images=(write_image(tmp_path / "image", ray),))
    messages: list[str] = []
    with Stack(tmp_path / "stack", settings, plane=plane_with(KUBERAY)) as stack:
        run = Run(
            stack, ray, tell=lambda line: messages.append(f"{line.who} {line.what}"), seconds_max=SECONDS_MAX
        )
        outcome = run.perform(("TPU", "GPU"))

    assert outcome.problems == [], "\n".join(messages)
