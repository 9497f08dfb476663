"""The command line and the environment of every process of the stack.

This is the one place that knows how each part is started; everything here is a pure function of the
layout, the settings and the addresses of the parts that were started before.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from demo.stack.clusters import ClusterKind
from demo.stack.layout import (
    CLUSTER,
    CLUSTER_PATH,
    LOCATION,
    OPERATIONS_TOPIC,
    PROJECT,
    PROJECT_ROOT,
    TOPIC,
    ZONE,
    Layout,
)
from shared.settings import Settings
from standins.kit.processes import Command

THREADS = "80"
"""Of each function, as of an instance that is deployed; the framework has four for each core."""
FAST_FUNCTION = Path(__file__).with_name("fast_function.py")
TICK_VIRTUAL_SECONDS = 60
TICK_SECONDS_MIN = 1.0
"""A tick of a small cluster takes a part of a second."""
ACCOUNT_PREFIX = "tpu-provisioner-"
"""Before the name of the exporter or of a function: its service account in the chart."""
CHART = PROJECT_ROOT / "infra" / "helm"
RUN_VIRTUAL_SECONDS = 180.0
"""Longer than the nodes of a pool take to come up one after the other, so that all pods of a slice
run at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    """What a person may choose about a stack."""

    speed: float = 30.0
    """Virtual seconds per real second, for everything that GKE and the kubelets take time for."""
    seed: int = 1
    run_virtual_seconds: float = RUN_VIRTUAL_SECONDS
    """How long a pod runs when its annotations say nothing."""
    restarts: bool = True
    faults: str = ""
    """A file of faults and capacity for the fake GKE, or nothing."""
    cluster: ClusterKind = ClusterKind.EMBEDDED
    """Which Kubernetes everything runs on."""
    controllers: tuple[str, ...] = ()
    """Further controllers of the real one."""
    grace_virtual_seconds: float = Settings(clusters={}).grace_seconds
    """How long the functions keep the pools of a suspended workload."""
    lease_seconds: int = 15
    """How long a silent exporter keeps its Lease, where Kubernetes knows accounts; 0: no
    election."""
    kueue_admission_check: bool = False
    """Whether the functions answer Kueue's admission checks, for which they need further rights."""
    idle_seconds_max: int = 0
    """For how many real seconds a workload may keep its pools when it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the parts of a running stack listen."""

    kubernetes: str
    kubeconfig: str
    """The file by which an administrator gets in there."""
    gke_rest: str
    pubsub_rest: str
    pubsub_grpc: str
    functions: dict[str, str]
    exporter: str
    logging: str = ""
    """Where the logs of all parts can be asked as Cloud Logging is."""


def cluster(layout: Layout, settings: StackSettings) -> Command:
    """Return the command of the chosen Kubernetes."""
    if settings.cluster is ClusterKind.REAL:
        further = (f"--with={each}" for each in settings.controllers)
        return control_plane(layout, f"--chart={CHART}", *further)
    return run_module(
        "cluster",
        "standins.cluster",
        "serve",
        f"--speed={settings.speed:g}",
        f"--seed={settings.seed}",
        f"--kubeconfig-file={layout.kubeconfig}",
        f"--ports-file={layout.ports_file('cluster')}",
    )


def control_plane(layout: Layout, *options: str) -> Command:
    """Return the command of the real control plane."""
    return run_module(
        "cluster",
        "standins.controlplane",
        "serve",
        f"--folder={layout.control_plane}",
        f"--accounts-folder={layout.accounts}",
        f"--kubeconfig-file={layout.kubeconfig}",
        f"--ports-file={layout.ports_file('cluster')}",
        *options,
    )


def google(layout: Layout, settings: StackSettings, *, operations_topic: str = OPERATIONS_TOPIC) -> Command:
    """Return the command of Google's APIs: GKE, whose nodes go to Kubernetes, Pub/Sub, and logs."""
    faults = (f"--faults={settings.faults}",) if settings.faults else ()
    return run_module(
        "google",
        "standins.google",
        "serve",
        f"--project={PROJECT}",
        f"--location={LOCATION}",
        f"--cluster={CLUSTER}",
        f"--speed={settings.speed:g}",
        f"--seed={settings.seed}",
        f"--kubernetes={layout.kubeconfig}",
        "--pubsub",
        f"--operations-topic={operations_topic}",
        f"--logs={layout.logs}",
        f"--ports-file={layout.ports_file('google')}",
        "--machines-everywhere",  # its one cluster is in one region, and the examples have all machines
        *faults,
    )


def kubelet(layout: Layout, settings: StackSettings) -> Command:
    """Return the command of the simulated kubelet."""
    return run_module(
        "kubelet",
        "standins.kubelet",
        f"--kubeconfig={layout.kubeconfig}",
        f"--speed={settings.speed:g}",
        f"--run-seconds={settings.run_virtual_seconds:g}",
        restartable=True,
    )


def autoscaler(layout: Layout, settings: StackSettings, *, gke_rest: str) -> Command:
    """Return the command of GKE's cluster autoscaler, which fills the autoscaled pools."""
    return run_module(
        "autoscaler",
        "standins.autoscaler",
        f"--kubeconfig={layout.kubeconfig}",
        f"--gke={gke_rest}",
        f"--cluster={CLUSTER_PATH}",
        f"--speed={settings.speed:g}",
        restartable=True,
    )


def exporter(layout: Layout, settings: StackSettings, *, kubernetes: str, pubsub_grpc: str, port: int) -> Command:
    """Return the command of the exporter, configured as its Deployment would.

    Where Kubernetes knows accounts, it has the rights of its own and no more, and competes for its
    Lease.
    """
    real = settings.cluster is ClusterKind.REAL
    token = layout.account_token(f"{ACCOUNT_PREFIX}exporter")
    access = {"TPU_PROVISIONER_CA_FILE": str(layout.authority), "TPU_PROVISIONER_TOKEN_FILE": str(token)}
    return run_module(
        "exporter",
        "exporter",
        restartable=True,
        environment={
            "TPU_PROVISIONER_CLUSTER": CLUSTER_PATH,
            "TPU_PROVISIONER_TOPIC": TOPIC,
            "TPU_PROVISIONER_ENDPOINT": kubernetes,
            **(access if real else {}),
            "TPU_PROVISIONER_HTTP_PORT": str(port),
            "TPU_PROVISIONER_LEASE_SECONDS": str(settings.lease_seconds if real else 0),
            "TPU_PROVISIONER_KUEUE_ADMISSION_CHECK": str(settings.kueue_admission_check).lower(),
            "PUBSUB_EMULATOR_HOST": pubsub_grpc,
        },
    )


def function(
    layout: Layout, settings: StackSettings, name: str, *, port: int, kubernetes: str, gke_rest: str
) -> Command:
    """Return the command of one function, run from the staged bundle.

    Where Kubernetes knows accounts, the function has the rights of its own and no more.
    """
    access: dict[str, str] = {}
    if settings.cluster is ClusterKind.REAL:
        token = layout.account_token(f"{ACCOUNT_PREFIX}{name}")
        access = {"ca_file": str(layout.authority), "token_file": str(token)}
    clusters = {CLUSTER_PATH: {"endpoint": kubernetes, "zone": ZONE, **access}}
    return run_function(
        name,
        layout.bundle,
        port=port,
        speed=settings.speed,
        environment={
            "TPU_PROVISIONER_CLUSTERS": json.dumps(clusters),
            "TPU_PROVISIONER_GKE_ENDPOINT": gke_rest,
            "TPU_PROVISIONER_CREDENTIALS": "anonymous",
            "TPU_PROVISIONER_ALLOWED_RESERVATIONS": "*,capacity-project/*",  # as an example needs it
            "TPU_PROVISIONER_KUEUE_ADMISSION_CHECK": str(settings.kueue_admission_check).lower(),
            "TPU_PROVISIONER_IDLE_SECONDS_MAX": str(settings.idle_seconds_max),
            **_scaled_bounds(settings),
        },
    )


def run_function(
    name: str, source: Path, *, port: int, environment: dict[str, str], speed: float = 1.0
) -> Command:
    """Return the command that runs a function's folder by Google's own framework."""
    return Command(
        name=name,
        arguments=(
            *(sys.executable, str(FAST_FUNCTION), f"{speed:g}", "--source=main.py"),
            *(f"--target={name}", "--signature-type=http", "--host=127.0.0.1", f"--port={port}"),
        ),
        folder=source,
        restartable=True,
        environment={"THREADS": THREADS, "FUNCTION_TARGET": name, **environment},
    )


def _scaled_bounds(settings: StackSettings) -> dict[str, str]:
    """Return the functions' waiting times, shortened by the speed of the stand-ins' clock."""
    defaults = Settings(clusters={})
    virtual = {
        "GRACE_SECONDS": settings.grace_virtual_seconds,
        "CREATION_SECONDS_MAX": defaults.creation_seconds_max,
    }
    return {
        f"TPU_PROVISIONER_{name}": str(max(1, round(seconds / settings.speed)))
        for name, seconds in virtual.items()
    }


def ticker(settings: StackSettings, *, functions: Mapping[str, str]) -> Command:
    """Return the command of the process that calls both functions as Cloud Scheduler would."""
    seconds = max(TICK_SECONDS_MIN, TICK_VIRTUAL_SECONDS / settings.speed)
    return run_module(
        "ticker",
        "demo.stack.ticker",
        *(f"--url={url}tick?cluster={CLUSTER_PATH}" for url in functions.values()),
        f"--every-seconds={seconds:g}",
        restartable=True,
    )


def run_module(
    name: str, module: str, *arguments: str, environment: dict[str, str] | None = None, restartable: bool = False
) -> Command:
    """Return the command that runs a module of this project."""
    return Command(
        name=name,
        arguments=(sys.executable, "-m", module, *arguments),
        folder=PROJECT_ROOT,
        environment=environment or {},
        restartable=restartable,
    )
