"""The GKE of stories answers as the fake GKE does: a pool has the same lives in both."""

from functools import partial, partialmethod
from typing import Any

import pytest

from tests.contract.test_gke_edge import LIVES, play_life
from tests.simulation.sim_scenarios import CLUSTERS, Fault, Scenario
from tests.simulation.sim_world import World

CALL_SECONDS = 5.0
FAULTS = {"outcome": "stockout", "fail_sync": "quota", "cluster_busy": "busy"}
"""The fault of a story for a switch of the fake GKE."""


class SimGke:
    """The GKE of a story, as `tests.contract.gke_world.Gke` is the fake one."""

    def __init__(self) -> None:
        self.world, self.edge = World(Scenario()), self

    def advance(self, seconds: float) -> None:
        self.world.time.run_until(self.world.time.now + seconds)

    def fault(self, switch: str, **_fields: object) -> None:
        for _ in range(2 if switch == "cluster_busy" else 1):  # it lasts for the calls of a life
            self.world.faults.arm(Fault(0.0, FAULTS[switch]))

    def _call(self, method: str, _cluster: str, *rest: Any, **more: Any) -> Any:
        answer = self.world.time.fork(partial(getattr(self.world.gke, method), CLUSTERS[0], *rest, **more))
        self.advance(CALL_SECONDS)
        return answer()

    def create(self, cluster: str, body: dict[str, Any]) -> None:
        self._call(
            "create", cluster, body | {"config": body["config"] | {"labels": {}, "machineType": "g2-standard-4"}}
        )

    delete, get, list = partialmethod(_call, "delete"), partialmethod(_call, "get"), partialmethod(_call, "list")
    raise_maximum, lower_maximum = partialmethod(_call, "raise_maximum"), partialmethod(_call, "lower_maximum")


@pytest.mark.parametrize("steps", LIVES.values(), ids=LIVES)
def test_a_pool_of_a_story_lives_as_the_rules_expect(steps: str) -> None:
    play_life(SimGke(), steps)
