"""What upstream's autoscaler does with groups and pods, on the real control plane.

The stand-in plays the same table in `standins/autoscaler/tests`. The words and times of upstream's
program are told in docs/tested.md.
"""

from pathlib import Path

import pytest

from standins.autoscaler.tests.autoscaler_scenarios import UPSTREAM, Row, list_rows
from standins.controlplane.building import find_build
from standins.controlplane.plane import ControlPlane
from standins.controlplane.programs import read_products
from tests.cluster.scaling_world import FAST, SLOW, RealWorld

NAME = "autoscaler-1.33"
pytestmark = [pytest.mark.cluster, pytest.mark.controller(NAME), pytest.mark.timeout(600)]


@pytest.mark.parametrize("row", list_rows(UPSTREAM), ids=lambda row: row.play.__name__)
def test_upstream_does_what_an_autoscaler_does(row: Row, plane: ControlPlane, tmp_path: Path) -> None:
    program = find_build(read_products()[NAME]).binary(NAME)
    speed = SLOW if row.slow else FAST
    with RealWorld(plane, program, tmp_path, speed=speed, threshold=row.threshold) as world:
        row.play(world)
