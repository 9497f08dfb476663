"""Where a stack keeps its files, and the names that it gives to things.

One folder per stack holds everything: ports files, logs, the kubeconfig, the staged functions.
Names of cloud resources are constants, because a stack serves one project with one cluster.
"""

import shutil
from pathlib import Path

PROJECT = "demo-project"
LOCATION = "us-east5"
ZONE = "us-east5-b"
CLUSTER = "demo"
CLUSTER_PATH = f"projects/{PROJECT}/locations/{LOCATION}/clusters/{CLUSTER}"
TOPIC = f"projects/{PROJECT}/topics/workload-events"
OPERATIONS_TOPIC = f"projects/{PROJECT}/topics/nodepool-events"
DEAD_LETTER_TOPIC = f"projects/{PROJECT}/topics/dead-letters"
DEAD_LETTER_SUBSCRIPTION = f"projects/{PROJECT}/subscriptions/dead-letters"
FUNCTIONS = ("provision", "collect")
SUPERVISOR = "supervisor"
"""Whose log begins before its stack does, when it runs in the background."""
PROJECT_ROOT = Path(__file__).resolve().parents[2]
DEFAULT_HOME = PROJECT_ROOT / ".local"


class Layout:
    """The files of one stack under its home folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.logs = home / "logs"
        """The folder with one log file per process."""
        self.ports = home / "ports"
        """The folder with one ports file per server process."""
        self.bundle = home / "functions"
        """The staged functions, as they would be uploaded."""
        self.kubeconfig = home / "kubeconfig"
        """The kubeconfig of an administrator: for kubectl, the demo and the stand-ins."""
        self.control_plane = home / "control-plane"
        """The folder of a real control plane: its data, its keys, and the logs of its parts."""
        self.control_plane_logs = self.control_plane / "logs"
        """The folder with one log file per part of a real control plane."""
        self.accounts = home / "accounts"
        """The folder with the credentials of a real control plane's service accounts."""
        self.authority = self.accounts / "ca.crt"
        """The certificate that those who talk to a real control plane trust."""
        self.state = home / "stack.json"
        """What runs, written by the supervisor whenever it changes."""
        """The variables of `tpu-provisioner`, which finds the running stack by this file."""
        self.kept_ports = home / "kept-ports.json"
        """Where the parts of the last stack listened; the next one does so again."""

    def account_kubeconfig(self, account: str) -> Path:
        """Return the kubeconfig of one service account."""
        return self.accounts / f"{account}.kubeconfig"

    def account_token(self, account: str) -> Path:
        """Return the bare token of one service account."""
        return self.accounts / f"{account}.token"

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
        for folder in (self.bundle, self.control_plane, self.accounts):
            shutil.rmtree(folder, ignore_errors=True)
        logs = [path for path in self.logs.glob("*.log") if path != self.log(SUPERVISOR)]
        for path in (self.state, self.kubeconfig, *self.ports.glob("*.json"), *logs):
            path.unlink(missing_ok=True)

    def drop_control_plane(self) -> None:
        """Remove the data and keys of a real control plane that has ended; its logs remain."""
        shutil.rmtree(self.accounts, ignore_errors=True)
        for path in self.control_plane.glob("*"):
            if path.is_dir() and path != self.control_plane_logs:
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_file():
                path.unlink(missing_ok=True)
