"""Lives all the lives of the catalogue at the same time on one stack, and measures each.

Every life has a thread and a namespace of its own. What went wrong in one is kept for the test of
that one.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from demo.stack import Stack
from tests.lives.bindings import Bindings
from tests.lives.catalogue import LIVES, Life
from tests.lives.cloud import Cloud
from tests.lives.scene import Scene

Json = dict[str, Any]
_START_GAP_SECONDS = 0.3
COMPUTE = "compute."
"""How the names of Compute Engine's methods begin; the others are GKE's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one life came to."""

    end: str
    pools: int
    creates: int
    deletes: int
    calls: dict[str, int] = field(default_factory=dict)
    """How many calls named a pool of this life, by method and code, including Compute Engine's."""

    @property
    def calls_in_all(self) -> int:
        """Calls of GKE's API."""
        return sum(count for text, count in self.calls.items() if not text.startswith(COMPUTE))


@dataclass(slots=True)
class Run:
    """All lives on one cluster."""

    measured: dict[str, Measured] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)
    """Moments at which a pool held pods of two slices."""


def live_all(stack: Stack) -> Run:
    """Live all that this cluster plays and return the results; never raises for one life."""
    run = Run()
    with Cloud(stack) as cloud, Bindings(stack.addresses.kubeconfig) as bindings:
        finished: dict[str, Scene] = {}
        lock = threading.Lock()

        def live(life: Life, place: int) -> None:
            threading.Event().wait(place * _START_GAP_SECONDS)
            try:
                scene = _live(life, cloud, bindings)
            except BaseException as error:  # noqa: BLE001 -- the test of this very life raises it
                with lock:
                    run.errors[life.name] = error
                return
            with lock:
                finished[life.name] = scene

        with ThreadPoolExecutor(max_workers=len(LIVES)) as pool:
            list(pool.map(live, LIVES, range(len(LIVES))))
        # Only now: a call that came late, after its life was over, counts too.
        run.measured = {name: measure(scene.calls(), scene.end()) for name, scene in sorted(finished.items())}
        run.shared = bindings.shared()
        for life in LIVES:
            cloud.delete(f"/api/v1/namespaces/life-{life.name}")
    return run


def _live(life: Life, cloud: Cloud, bindings: Bindings) -> Scene:
    scene = Scene(life.name, cloud, bindings)
    try:
        life.script(scene)
        scene.wait_no_pools()
    except BaseException:
        scene.clear_faults()
        scene.delete()
        raise
    scene.clear_faults()
    return scene


def measure(calls: Sequence[Json], end: str) -> Measured:
    """Return what the calls about the pools of one life come to."""
    accepted = [each for each in calls if each["code"] == "OK"]
    created = [each["pool"] for each in accepted if each["method"] == "CreateNodePool"]
    return Measured(
        end=end,
        pools=len(set(created)),
        creates=len(created),
        deletes=sum(each["method"] == "DeleteNodePool" for each in accepted),
        calls=dict(sorted(Counter(f"{each['method']} {each['code']}" for each in calls).items())),
    )
