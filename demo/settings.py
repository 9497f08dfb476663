"""What a person chooses about a stack, the names of its cloud things, and where its files are.

One folder per stack holds everything: ports files, logs, the kubeconfig, the staged functions.
Names of cloud resources are constants, because a stack serves one project with one cluster.
"""

import shutil
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import msgspec

from shared.settings import Settings
from standins.kit.processes import ProcessState

PROJECT = "demo-project"
LOCATION = "us-east5"
ZONE = "us-east5-b"
CLUSTER = "demo"
CLUSTER_PATH = f"projects/{PROJECT}/locations/{LOCATION}/clusters/{CLUSTER}"
NAME = "tpu-provisioner"
"""The deployment's name, from which those of its parts follow as in Terraform."""
TOPIC = f"projects/{PROJECT}/topics/{NAME}-workload-events"
OPERATIONS_TOPIC = f"projects/{PROJECT}/topics/{NAME}-nodepool-events"
DEAD_LETTER_TOPIC = f"projects/{PROJECT}/topics/{NAME}-dead-letters"
DEAD_LETTER_SUBSCRIPTION = f"projects/{PROJECT}/subscriptions/{NAME}-dead-letters"
FUNCTIONS = ("provision", "collect")
SUPERVISOR = "supervisor"
"""Whose log begins before its stack does, when it runs in the background."""
PROJECT_ROOT = Path(__file__).resolve().parents[1]
DEFAULT_HOME = PROJECT_ROOT / ".local"
SPEED = 40.0


class ClusterKind(StrEnum):
    """The Kubernetes under a stack."""

    EMBEDDED = "embedded"
    """Our own, in one Python process: starts in a second, needs nothing, is an opinion."""
    REAL = "real"
    """Kubernetes and JobSet themselves, as plain processes (docs/local-stack.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    """What may be chosen about a stack."""

    speed: float = SPEED
    """Virtual seconds per real second, for everything that GKE and the kubelets take time for."""
    faults: str = ""
    """A file of faults and capacity for the fake GKE, or nothing."""
    cluster: ClusterKind = ClusterKind.EMBEDDED
    """Which Kubernetes everything runs on."""
    controllers: tuple[str, ...] = ()
    """Further controllers of the real one."""
    grace_virtual_seconds: float = Settings(clusters={}).grace_seconds
    """How long the functions keep the pools of a suspended workload."""
    lease_seconds: int = 15
    """How long a silent exporter keeps its Lease; 0: no election."""
    kueue_admission_check: bool = False
    """Whether the functions answer Kueue's admission checks, for which they need further rights."""
    idle_seconds_max: int = 0
    """For how many real seconds a workload may keep its pools when it is over."""

    @property
    def is_real(self) -> bool:
        """Whether it runs on a real control plane, which knows accounts."""
        return self.cluster is ClusterKind.REAL


class BadSettings(ValueError):
    """A stack cannot be started so; the text says why, and what is valid."""


def check_settings(settings: StackSettings) -> StackSettings:
    """Return the settings with the full path of their file of faults.

    Raises BadSettings: that file is wrong, or the real control plane has not been built.
    """
    if not (settings.is_real or settings.faults):
        return settings
    # Imported late: most starts need none of it, and would wait a third of a second for it.
    from standins.controlplane.building import BuildMissing, find_build  # noqa: PLC0415 -- see above
    from standins.controlplane.programs import RecipeBroken, choose_products  # noqa: PLC0415 -- see above
    from standins.google.gke.scenario import ScenarioError, load_scenario  # noqa: PLC0415 -- see above

    try:
        if settings.is_real:
            for product in choose_products(settings.controllers):
                find_build(product)
        if settings.faults:
            load_scenario(Path(settings.faults))
            return replace(settings, faults=str(Path(settings.faults).resolve()))
    except (BuildMissing, RecipeBroken, ScenarioError) as error:
        raise BadSettings(str(error)) from error
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the parts of a running stack listen."""

    kubernetes: str
    kubeconfig: str
    """The file by which an administrator gets in there."""
    google_rest: str
    """Of all APIs of Google: GKE, Pub/Sub, and the logs of all parts."""
    pubsub_grpc: str
    functions: dict[str, str]
    exporter: str


class State(msgspec.Struct, frozen=True):
    """What runs, as its file says it."""

    supervisor_pid: int
    settings: StackSettings
    addresses: Addresses
    processes: list[ProcessState]


class Layout:
    """The files of one stack under its home folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.logs = home / "logs"
        """The folder with one log file per process."""
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
        self.lock = home / "lock"
        self.state = home / "stack.json"
        """What runs, written whenever it changes; `tpu-provisioner` finds the stack by it."""

    def log(self, name: str) -> Path:
        """Return the log file of one process."""
        return self.logs / f"{name}.log"

    def ports_file(self, name: str) -> Path:
        """Return the file that one server process writes once it listens."""
        return self.home / f"{name}.ports"

    def create(self) -> None:
        """Create the folders and drop what an earlier stack left in them."""
        self.logs.mkdir(parents=True, exist_ok=True)
        for folder in (self.bundle, self.control_plane, self.accounts):
            shutil.rmtree(folder, ignore_errors=True)
        logs = [path for path in self.logs.glob("*.log") if path != self.log(SUPERVISOR)]
        for path in (self.state, self.kubeconfig, *self.home.glob("*.ports"), *logs):
            path.unlink(missing_ok=True)

    def drop_control_plane(self) -> None:
        """Remove the data and keys of a real control plane that has ended; its logs remain."""
        shutil.rmtree(self.accounts, ignore_errors=True)
        for path in self.control_plane.glob("*"):
            if path != self.control_plane_logs:
                shutil.rmtree(path, ignore_errors=True)  # it leaves files
                path.unlink(missing_ok=True)
