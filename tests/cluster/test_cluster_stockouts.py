"""A stockout on the real control plane: what its owner and the operator read, and what follows.

The ticks are called by the tests, so that they are counted and no time is.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.parts import operator_environment
from demo.settings import CLUSTER_PATH, PROJECT, ClusterKind, StackSettings
from demo.stack import Stack
from shared.model import labels
from shared.model.times import FRESH_SECONDS
from standins.controlplane.plane import ControlPlane
from tests.cli.cli_world import run
from tests.kinds.living import LONG, Life
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import RUN_SECONDS, Job, jobset

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
SPEED = 20
"""GKE tries for 35 minutes to make the nodes of a pool that it creates with them: here, 105 s."""
CAPACITY = """
capacity:
- {tier: spot, zone: us-east5-a, nodes: 0}
- {tier: spot, zone: us-east5-b, nodes: 2}
- {tier: on-demand, machine_type: ct6e-*, nodes: 0}
"""
LIST = "[{spot: true, location: {zones: [us-east5-a, us-east5-b]}}]"
SOLD_OUT = "does not have enough resources available to fulfill the request"
TICKS_MAX = 2


class Place:
    """A running stack whose ticks come when they are called."""

    def __init__(self, stack: Stack, cloud: Cloud) -> None:
        self.cloud = cloud
        self.environ = operator_environment(stack.layout, stack.settings, stack.addresses)
        self._gke, self._functions = stack.addresses.gke_rest, stack.addresses.functions

    def tick(self) -> None:
        for url in self._functions.values():
            httpx.post(f"{url}tick?cluster={CLUSTER_PATH}", timeout=60).raise_for_status()

    def tick_until(self, look: Callable[[], Any], *, ticks: int = TICKS_MAX) -> None:
        """Let both functions look until a look of ours finds something, at most so often."""
        for _ in range(ticks):
            self.tick()
            if look():
                return
            time.sleep(0.5)
        pytest.fail(f"not found after {ticks} ticks")

    def wait_refused(self, zone: str) -> None:
        """Return once the instance group of the one pool in a zone has its first error."""
        at = f"{self._gke}/compute/v1/projects/{PROJECT}/zones/{zone}/instanceGroupManagers"

        def look() -> bool:
            pools = httpx.get(f"{self._gke}/v1/{CLUSTER_PATH}/nodePools").json().get("nodePools", [])
            urls = [url for each in pools for url in each.get("instanceGroupUrls", []) if f"/{zone}/" in url]
            names = [url.rpartition("/")[2] for url in urls]
            return any(httpx.get(f"{at}/{name}/listErrors").json().get("items") for name in names)

        wait_for(f"an error of the instance group in {zone}", look)

    def find_causes(self, life: Life) -> list[str]:
        """Return the lines of `why` about a workload that have GKE's cause."""
        why = run("why", f"{life.namespace}/{life.name}", environ=self.environ).stdout.splitlines()
        return [line for line in why if SOLD_OUT in line]


@pytest.fixture(scope="module")
def place(plane_with: Callable[..., ControlPlane], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder: Path = tmp_path_factory.mktemp("stockouts")
    (folder / "faults.yaml").write_text(CAPACITY)
    settings = StackSettings(speed=SPEED, cluster=ClusterKind.REAL, faults=str(folder / "faults.yaml"))
    with Stack(folder, settings, plane=plane_with()) as stack, Cloud(stack) as cloud:
        stack.ticks.clear()
        yield Place(stack, cloud)


def told(life: Life, words: str) -> dict[str, str]:
    """Return what Events of ours with these words say, by the kind of their object."""
    return {
        each["involvedObject"]["kind"]: each["message"]
        for each in life.events("NodePoolCreationFailed")
        if words in each["message"]
    }


def test_a_stockout_of_an_autoscaled_pool_is_told_and_the_next_candidate_runs(place: Place) -> None:
    life = Life(place.cloud, "listed", "JobSet")
    body = jobset(life.name, Job(does={RUN_SECONDS: str(LONG), labels.CAPACITY: LIST}))
    pods = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pods["tolerations"] = [{"key": "cloud.google.com/gke-spot", "operator": "Exists"}]
    life.create(body)
    place.wait_refused("us-east5-a")
    (empty,) = life.pools()

    time.sleep(FRESH_SECONDS)  # a tick leaves a younger pod to its message
    place.tick_until(lambda: told(life, SOLD_OUT))
    assert told(life, SOLD_OUT).keys() == {"JobSet"}
    assert empty in told(life, SOLD_OUT)["JobSet"]

    assert life.pools_of(life.wait_running(2)) == {name for name in life.pools() if name != empty}
    assert life.calls("CreateNodePool")[0]["pool"] == empty
    grown = life.events("TriggeredScaleUp")
    assert {each["source"]["component"] for each in grown} == {"cluster-autoscaler"}
    assert any("zones/us-east5-b" in each["message"] and "0->2" in each["message"] for each in grown)
    assert any(empty in line for line in place.find_causes(life))
    life.delete()
    place.tick_until(lambda: not life.pools(), ticks=100)
