"""What upstream's autoscaler does with groups and pods, on the real control plane.

The stand-in plays the same table in `standins/autoscaler/tests`. The words and times of upstream's
program are told in docs/tested.md.
"""

from pathlib import Path

import pytest

from standins.autoscaler.tests.autoscaler_scenarios import UPSTREAM, Row, list_rows
from standins.controlplane.building import find_addition_build
from standins.controlplane.cache import default_cache
from standins.controlplane.plane import ControlPlane
from tests.cluster.scaling_world import FAST, SLOW, RealWorld

NAME = "autoscaler-1.33"
pytestmark = [pytest.mark.cluster, pytest.mark.controller(NAME), pytest.mark.timeout(600)]


@pytest.mark.parametrize("row", list_rows(UPSTREAM), ids=lambda row: row.play.__name__)
def test_upstream_does_what_an_autoscaler_does(row: Row, plane: ControlPlane, tmp_path: Path) -> None:
    program = find_addition_build(default_cache(), NAME).binary(NAME)
    speed = SLOW if row.slow else FAST
    with RealWorld(plane, program, tmp_path, speed=speed, threshold=row.threshold) as world:
        row.play(world)
