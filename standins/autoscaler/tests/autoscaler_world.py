"""The stage of the autoscaler's scenarios: what a scenario may do and see. Seconds are virtual.

Each stage runs one autoscaler: the stand-in, or the real one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

GPU: dict[str, Any] = {
    "placement_policy": {},
    "config": {
        "machine_type": "a3-highgpu-8g",
        "disk_type": "pd-ssd",
        "accelerators": [{"accelerator_type": "nvidia-h100-80gb", "accelerator_count": 8}],
    },
}
"""What makes a pool of single hosts with eight GPUs each."""


@dataclass(frozen=True)
class Said:
    """An Event about a pod."""

    at: float
    reason: str
    message: str
    type: str


class AutoscalerWorld(ABC):
    """A cluster with autoscaled pools and pods, and an autoscaler that runs as time passes."""

    @abstractmethod
    def add_pool(self, name: str, *, hosts: int = 4, **changes: Any) -> None:
        """Create an empty autoscaled pool (default: a v6e slice of four hosts), and wait for it."""

    @abstractmethod
    def add_pod(self, name: str, **changes: Any) -> None:
        """Create a pod of a Job with the default scheduler (default: four TPU chips).

        `requests`, `selector`, `annotations`, `anti_affinity` (a key of labels), `tolerates`.
        """

    @abstractmethod
    def end_pod(self, name: str) -> None:
        """Let a pod succeed."""

    @abstractmethod
    def add_fault(self, **fault: Any) -> None:
        """Put a fault of the fake GKE in force."""

    @abstractmethod
    def clear_faults(self) -> None:
        """Remove all faults."""

    @abstractmethod
    def keep_nodes(self, pool: str) -> None:
        """Annotate the nodes of a pool so that the autoscaler does not remove them."""

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def count_nodes(self, pool: str) -> int:
        """Return how many nodes a pool has."""

    @abstractmethod
    def read_target(self, pool: str) -> int:
        """Return how many instances the pool's group keeps."""

    @abstractmethod
    def find_pool_of(self, pod: str) -> str:
        """Return on which pool a pod runs, empty for none."""

    @abstractmethod
    def list_events(self, pod: str, reason: str) -> list[Said]:
        """Return the Events about a pod."""
