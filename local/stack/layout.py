"""Where a stack keeps its files, and the names that it gives to things.

One folder per stack holds everything: ports files, logs, the kubeconfig, the staged functions. Names of cloud
resources are constants, because a stack serves one project with one cluster.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

PROJECT = "demo-project"
LOCATION = "us-east5"
ZONE = "us-east5-b"
CLUSTER = "demo"
CLUSTER_PATH = f"projects/{PROJECT}/locations/{LOCATION}/clusters/{CLUSTER}"
TOPIC = f"projects/{PROJECT}/topics/workload-events"
DEAD_LETTER_TOPIC = f"projects/{PROJECT}/topics/dead-letters"
DEAD_LETTER_SUBSCRIPTION = f"projects/{PROJECT}/subscriptions/dead-letters"
FUNCTIONS = ("provision", "collect", "sweep")
PROJECT_ROOT = Path(__file__).resolve().parents[2]
DEFAULT_HOME = PROJECT_ROOT / ".local"


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one stack under its home folder."""

    home: Path

    @property
    def logs(self) -> Path:
        """The folder with one log file per process."""
        return self.home / "logs"

    @property
    def ports(self) -> Path:
        """The folder with one ports file per server process."""
        return self.home / "ports"

    @property
    def bundle(self) -> Path:
        """The staged functions, as they would be uploaded."""
        return self.home / "functions"

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig that kubectl and every part of the stack use."""
        return self.home / "kubeconfig"

    @property
    def state(self) -> Path:
        """What runs, written by the supervisor whenever it changes."""
        return self.home / "stack.json"

    def log(self, name: str) -> Path:
        """Return the log file of one process."""
        return self.logs / f"{name}.log"

    def ports_file(self, name: str) -> Path:
        """Return the file that one server process writes once it listens."""
        return self.ports / f"{name}.json"

    def create(self) -> None:
        """Create the folders and drop what an earlier stack left in them."""
        for folder in (self.home, self.logs, self.ports):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.bundle, ignore_errors=True)
        stale = [self.state, self.kubeconfig, *self.ports.glob("*.json"), *self.logs.glob("*.log")]
        for path in stale:
            path.unlink(missing_ok=True)
