"""What the pods of a scenario's slices ask for, and GKE's machines for it."""

from dataclasses import dataclass

from shared.model import labels


@dataclass(frozen=True, slots=True)
class Shape:
    """What the pods of a slice ask for, and what GKE's machines for it are."""

    accelerator: str
    topology: str
    units: int  # chips or GPUs of each pod
    hosts: int
    machine_type: str
    gpu: bool = False

    @property
    def selectors(self) -> dict[str, str]:
        """Return the node selectors of its pods."""
        if self.gpu:
            return {labels.GPU_ACCELERATOR: self.accelerator}
        return {labels.ACCELERATOR: self.accelerator, labels.TOPOLOGY: self.topology}


SHAPES = {
    "one": Shape("tpu-v4-podslice", "2x2x1", 4, 1, "ct4p-hightpu-4t"),
    "one-other": Shape("tpu-v6e-slice", "2x2", 4, 1, "ct6e-standard-4t"),
    "two": Shape("tpu-v4-podslice", "2x2x2", 4, 2, "ct4p-hightpu-4t"),
    "two-other": Shape("tpu-v6e-slice", "2x4", 4, 2, "ct6e-standard-4t"),
    "gpu": Shape("nvidia-l4", "", 1, 1, "g2-standard-4", gpu=True),
    "gpu-other": Shape("nvidia-tesla-t4", "", 1, 1, "n1-standard-4", gpu=True),
}
OTHER = {"one": "one-other", "two": "two-other", "gpu": "gpu-other"} | {
    "one-other": "one",
    "two-other": "two",
    "gpu-other": "gpu",
}
