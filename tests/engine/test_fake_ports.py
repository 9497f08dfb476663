"""The GKE of the engine's stories answers as the stand-in of GKE does."""

import pytest

from shared.model.pools import PoolStatus
from tests.contract.test_gke_edge import LIVES, play_life
from tests.engine.world import World

FAULTS = {"fail_sync": "quota", "cluster_busy": "busy"}
"""The error of a story for a switch of the stand-in."""


class Gke:
    """The GKE of a story, whose verbs do what time and faults do."""

    def __init__(self) -> None:
        self.world = World()
        self.edge, self.failing = self.world.gke, False

    def advance(self, _seconds: float) -> None:
        self.world.recover()
        for name, pool in list(self.edge.pools.items()):
            if pool.status == PoolStatus.STOPPING:
                del self.edge.pools[name]
            elif pool.status == PoolStatus.PROVISIONING:
                self.world.pool(name, status=PoolStatus.ERROR if self.failing else PoolStatus.RUNNING)
        self.failing = False

    def fault(self, switch: str, **_fields: object) -> None:
        self.failing = switch == "outcome"
        for verb in ("create", "raise", "delete") if switch in FAULTS else ():
            self.world.refuse(FAULTS[switch], verb)


@pytest.mark.parametrize("steps", LIVES.values(), ids=LIVES)
def test_a_pool_of_a_story_lives_as_the_rules_expect(steps: str) -> None:
    play_life(Gke(), steps)
