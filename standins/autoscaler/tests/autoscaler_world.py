"""The stage of the autoscaler's scenarios: what a scenario may do and see. Seconds are virtual.

Each stage runs one autoscaler: the stand-in, or upstream's program.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from standins.google.tests.fakegke_worlds import slice_pool

GPU: dict[str, Any] = {
    "placement_policy": {},
    "config": {
        "machine_type": "a3-highgpu-8g",
        "disk_type": "pd-ssd",
        "accelerators": [{"accelerator_type": "nvidia-h100-80gb", "accelerator_count": 8}],
    },
}
"""What makes a pool of single hosts with eight GPUs each."""
TPU_HOSTS: dict[str, Any] = {"placement_policy": {}, "config": {"machine_type": "ct6e-standard-4t"}}
"""What makes a pool of TPU hosts that nothing binds together."""
POOL = "cloud.google.com/gke-nodepool"
# The last one is a soft taint, by which upstream's program keeps new pods off a node that may go.
_TAINTS = ("google.com/tpu", "nvidia.com/gpu", "DeletionCandidateOfClusterAutoscaler")
_TOLERATIONS = [{"key": key, "operator": "Exists"} for key in _TAINTS]


@dataclass(frozen=True)
class PodEvent:
    """An Event about a pod."""

    at: float
    reason: str
    message: str
    type: str


class AutoscalerWorld(ABC):
    """A cluster with autoscaled pools and pods, and an autoscaler that runs as time passes."""

    STEP: ClassVar = 10.0
    LEAST_WAIT: ClassVar = 0.0
    """So long it waits for what must come, if a scenario names a shorter time."""

    @property
    @abstractmethod
    def now(self) -> float: ...

    @abstractmethod
    def add_pool(self, name: str, *, hosts: int = 4, **changes: Any) -> None:
        """Create an empty autoscaled pool (default: a v6e slice of four hosts), and wait for it."""

    @abstractmethod
    def add_pod(self, name: str, **changes: Any) -> None:
        """Create a pod of a Job with the default scheduler; see `build_template`."""

    @abstractmethod
    def end_pod(self, name: str) -> None: ...

    @abstractmethod
    def add_fault(self, **fault: Any) -> None:
        """Put a fault of the fake GKE in force."""

    @abstractmethod
    def clear_faults(self) -> None: ...

    @abstractmethod
    def keep_node(self, node: str, *, kept: bool = True) -> None:
        """Annotate a node so that the autoscaler does not remove it, or take that back."""

    @abstractmethod
    def advance(self, seconds: float) -> None: ...

    @abstractmethod
    def list_nodes(self, pool: str) -> list[str]: ...

    @abstractmethod
    def read_target(self, pool: str) -> int:
        """Return how many instances the pool's group keeps."""

    @abstractmethod
    def find_node_of(self, pod: str) -> str:
        """Return on which node a pod runs, empty for none."""

    @abstractmethod
    def list_events(self, pod: str, reason: str) -> list[PodEvent]: ...

    def wait_for(self, what: Callable[[], object], seconds: float) -> float:
        """Let time pass until something is so, and return after how many seconds it was."""
        began, most = self.now, max(seconds, self.LEAST_WAIT)
        while not what():
            assert self.now - began < most, f"it did not come in {most} s"
            self.advance(self.STEP)
        return self.now - began

    def see_that(self, what: Callable[[], object], seconds: float) -> None:
        """Let time pass, during which something stays so."""
        until = self.now + seconds
        while self.now < until:
            assert what()
            self.advance(self.STEP)
        assert what()


def build_pool(name: str, hosts: int, changes: dict[str, Any]) -> Any:
    """Return the pool that `add_pool` asks for."""
    scaling = {"enabled": True, "max_node_count": hosts}
    config = {"spot": False, **changes.get("config", {})}
    fields = {"initial_node_count": 0, "autoscaling": scaling, **changes, "config": config}
    return slice_pool(name, **fields)


def build_template(changes: dict[str, Any]) -> dict[str, Any]:
    """Return metadata and spec of a pod (default: four TPU chips).

    `requests`, `pool`, `labels`, `annotations`, `anti_affinity` (a key of labels), `tolerates`, and
    `near` (the node that it prefers).
    """
    asked = changes.get("requests", {"google.com/tpu": "4"})
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "main", "resources": {"requests": asked, "limits": asked}}],
        "nodeSelector": {POOL: changes["pool"]} if "pool" in changes else {},
        "tolerations": _TOLERATIONS if changes.get("tolerates", True) else [],
    }
    affinity = spec["affinity"] = {}
    if key := changes.get("anti_affinity"):
        selector = {"matchExpressions": [{"key": key, "operator": "Exists"}]}
        terms = [{"topologyKey": POOL, "labelSelector": selector}]
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if near := changes.get("near"):
        name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [near]}]}
        ways = [{"weight": 100, "preference": name}]
        affinity["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": ways}
    metadata = {"labels": changes.get("labels", {}), "annotations": changes.get("annotations", {})}
    return {"metadata": metadata, "spec": spec}
