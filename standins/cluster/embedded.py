"""The whole embedded cluster without HTTP: store, registry, controllers.

The server and the tests use the same object. A test with a manual clock calls `settle`.
"""

from standins.cluster.clock import Clock
from standins.cluster.controllers.garbage_collector import GarbageCollector
from standins.cluster.controllers.job_controller import JobController
from standins.cluster.controllers.jobset_controller import JobSetController
from standins.cluster.controllers.namespace_controller import NamespaceController
from standins.cluster.controllers.node_controller import NodeController
from standins.cluster.controllers.runner import LATENCY_SECONDS, Runner
from standins.cluster.controllers.scheduler import Scheduler
from standins.cluster.store.kinds import NAMESPACE
from standins.cluster.store.object_store import DEFAULT_HISTORY, Store
from standins.cluster.writing.event_recorder import Recorder
from standins.cluster.writing.registry import Registry

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CONTROLLERS = (NodeController, Scheduler, JobController, JobSetController, GarbageCollector, NamespaceController)
_MAX_STEPS = 100_000


class Cluster:
    """A cluster in memory."""

    def __init__(self, clock: Clock, *, seed: int = 1, history: int = DEFAULT_HISTORY) -> None:
        self.clock = clock
        self.store = Store(history=history)
        self.registry = Registry(self.store, clock, seed=seed)
        self.recorder = Recorder(self.registry)
        self.runner = Runner(
            self.store, clock, [controller(self.registry, self.recorder) for controller in _CONTROLLERS]
        )
        for name in NAMESPACES:
            self.registry.create(NAMESPACE, {"metadata": {"name": name}})

    def settle(self, *, seconds: float = 1.0) -> None:
        """Reconcile until nothing is due within some seconds of a `ManualClock`, and move it.

        Raises:
            TypeError: when the cluster runs on a real clock.
            RuntimeError: when the controllers never come to rest.
        """
        advance = getattr(self.clock, "advance", None)
        if advance is None:
            raise TypeError("settle needs a cluster with a ManualClock")
        until = self.clock.monotonic() + seconds
        for _ in range(_MAX_STEPS):
            if self.runner.step():
                continue
            wait = self.runner.next_due_seconds()
            if wait is None or self.clock.monotonic() + wait > until:
                advance(max(0.0, until - self.clock.monotonic()))
                return
            advance(max(wait, LATENCY_SECONDS / 10))
        raise RuntimeError(f"the controllers did not come to rest within {_MAX_STEPS} steps")
