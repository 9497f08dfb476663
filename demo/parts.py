"""The command line and the environment of every process of the stack.

This is the one place that knows how each part is started; everything here is a pure function of the
layout, the settings and the addresses of the parts that were started before.
"""

import json
import shlex
import sys
from pathlib import Path

from demo.settings import (
    CLUSTER,
    CLUSTER_PATH,
    LOCATION,
    NAME,
    OPERATIONS_TOPIC,
    PROJECT,
    PROJECT_ROOT,
    TOPIC,
    ZONE,
    Addresses,
    Layout,
    StackSettings,
)
from shared.settings import Settings
from standins.kit.processes import Command

THREADS = "80"
"""Of each function, as of an instance that is deployed; the framework has four for each core."""
RUN_VIRTUAL_SECONDS = 300
"""How long a pod runs when its annotations say nothing: longer than the nodes of a pool take to
come up one after the other, so that all pods of a slice run at once."""
CHART = PROJECT_ROOT / "infra" / "helm"
_FAST_FUNCTION = Path(__file__).with_name("functions.py")


def cluster(layout: Layout, settings: StackSettings, port: int) -> Command:
    """Return the command of the chosen Kubernetes; a real one chooses its several ports itself."""
    files = (f"--kubeconfig-file={layout.kubeconfig}", f"--ports-file={layout.ports_file('cluster')}")
    if settings.is_real:
        folders = (f"--folder={layout.control_plane}", f"--accounts-folder={layout.accounts}", f"--chart={CHART}")
        further = (f"--with={each}" for each in settings.controllers)
        return _run_module("cluster", "standins.controlplane", "serve", *folders, *files, *further)
    options = (f"--port={port}", f"--speed={settings.speed:g}", *files)
    return _run_module("cluster", "standins.cluster", "serve", *options)


def google(layout: Layout, settings: StackSettings, ports: dict[str, int]) -> Command:
    """Return the command of Google's APIs: GKE, whose nodes go to Kubernetes, Pub/Sub, and logs."""
    faults = (f"--faults={settings.faults}",) if settings.faults else ()
    return _run_module(
        "google",
        "standins.google",
        "serve",
        f"--project={PROJECT}",
        f"--location={LOCATION}",
        f"--cluster={CLUSTER}",
        f"--speed={settings.speed:g}",
        f"--kubernetes={layout.kubeconfig}",
        "--pubsub",
        f"--operations-topic={OPERATIONS_TOPIC}",
        f"--logs={layout.logs}",
        f"--rest-port={ports['google']}",
        f"--grpc-port={ports['pubsub']}",
        f"--ports-file={layout.ports_file('google')}",
        "--machines-everywhere",  # its one cluster is in one region, and the examples have all machines
        *faults,
    )


def kubelet(layout: Layout, settings: StackSettings) -> Command:
    """Return the command of the simulated kubelet."""
    options = (f"--kubeconfig={layout.kubeconfig}", f"--run-seconds={RUN_VIRTUAL_SECONDS}")
    return _run_module("kubelet", "standins.kubelet", f"--speed={settings.speed:g}", *options, restartable=True)


def autoscaler(layout: Layout, settings: StackSettings, google_rest: str) -> Command:
    """Return the command of GKE's cluster autoscaler, which fills the autoscaled pools."""
    options = (f"--kubeconfig={layout.kubeconfig}", f"--gke={google_rest}", f"--cluster={CLUSTER_PATH}")
    return _run_module(
        "autoscaler", "standins.autoscaler", f"--speed={settings.speed:g}", *options, restartable=True
    )


def exporter(layout: Layout, settings: StackSettings, addresses: Addresses) -> Command:
    """Return the command of the exporter, configured as its Deployment would.

    It competes for its Lease. Where Kubernetes knows accounts, it has the rights of its own.
    """
    access: dict[str, str] = {}
    if settings.is_real:
        access["TPU_PROVISIONER_CA_FILE"] = str(layout.authority)
        access["TPU_PROVISIONER_TOKEN_FILE"] = str(layout.accounts / "tpu-provisioner-exporter.token")
    return _run_module(
        "exporter",
        "exporter",
        restartable=True,
        environment={
            "TPU_PROVISIONER_CLUSTER": CLUSTER_PATH,
            "TPU_PROVISIONER_TOPIC": TOPIC,
            "TPU_PROVISIONER_ENDPOINT": addresses.kubernetes,
            **access,
            "TPU_PROVISIONER_HTTP_PORT": addresses.exporter.rpartition(":")[2],
            "TPU_PROVISIONER_LEASE_SECONDS": str(settings.lease_seconds),
            "TPU_PROVISIONER_KUEUE_ADMISSION_CHECK": str(settings.kueue_admission_check).lower(),
            "PUBSUB_EMULATOR_HOST": addresses.pubsub_grpc,
        },
    )


def function(layout: Layout, settings: StackSettings, name: str, addresses: Addresses) -> Command:
    """Return the command of one function, which Google's framework runs from the staged bundle.

    Where Kubernetes knows accounts, the function has the rights of its own and no more.
    """
    access: dict[str, str] = {}
    if settings.is_real:
        token = layout.accounts / f"tpu-provisioner-{name}.token"
        access = {"ca_file": str(layout.authority), "token_file": str(token)}
    clusters = {CLUSTER_PATH: {"endpoint": addresses.kubernetes, "zone": ZONE, **access}}
    port = addresses.functions[name].rstrip("/").rpartition(":")[2]
    return Command(
        name=name,
        arguments=(
            *(sys.executable, str(_FAST_FUNCTION), f"{settings.speed:g}", "--source=main.py"),
            *(f"--target={name}", "--signature-type=http", "--host=127.0.0.1", f"--port={port}"),
        ),
        folder=layout.bundle,
        restartable=True,
        environment={
            "THREADS": THREADS,
            "FUNCTION_TARGET": name,
            "K_SERVICE": f"{NAME}-{name}",
            "TPU_PROVISIONER_CLUSTERS": json.dumps(clusters),
            "TPU_PROVISIONER_GKE_ENDPOINT": addresses.google_rest,
            "TPU_PROVISIONER_CREDENTIALS": "anonymous",
            "TPU_PROVISIONER_ALLOWED_RESERVATIONS": "*,capacity-project/*",  # as an example needs it
            "TPU_PROVISIONER_KUEUE_ADMISSION_CHECK": str(settings.kueue_admission_check).lower(),
            "TPU_PROVISIONER_IDLE_SECONDS_MAX": str(settings.idle_seconds_max),
            "TPU_PROVISIONER_GRACE_SECONDS": _shorten(settings, settings.grace_virtual_seconds),
            "TPU_PROVISIONER_CREATION_SECONDS_MAX": _shorten(settings, Settings(clusters={}).creation_seconds_max),
        },
    )


def _shorten(settings: StackSettings, virtual_seconds: float) -> str:
    """Return a waiting time of the functions, shortened by the speed of the stand-ins' clock."""
    return str(max(1, round(virtual_seconds / settings.speed)))


def _run_module(
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


def tool_environment(layout: Layout, addresses: Addresses) -> dict[str, str]:
    """Return the variables that point kubectl, gcloud and client libraries at this stack only."""
    return {
        "KUBECONFIG": str(layout.kubeconfig),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER": addresses.google_rest.rstrip("/") + "/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB": addresses.google_rest.rstrip("/") + "/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": PROJECT,
        "CLOUDSDK_COMPUTE_REGION": LOCATION,
        "CLOUDSDK_CONTAINER_CLUSTER": CLUSTER,
        "PUBSUB_EMULATOR_HOST": addresses.pubsub_grpc,
    }


def operator_environment(layout: Layout, settings: StackSettings, addresses: Addresses) -> dict[str, str]:
    """Return the functions' own settings, and where the other parts of the stack are.

    On a real control plane the operator comes as its administrator: the functions' account may not
    read all that an operator wants to see.
    """
    return {
        **function(layout, settings, "provision", addresses).environment,
        "TPU_PROVISIONER_KUBECONFIG": addresses.kubeconfig if settings.is_real else "",
        "TPU_PROVISIONER_PUBSUB_ENDPOINT": addresses.google_rest,
        "TPU_PROVISIONER_PROJECT": PROJECT,
        "TPU_PROVISIONER_LEASE_NAME": "tpu-provisioner-exporter" if settings.lease_seconds else "",
        "TPU_PROVISIONER_LOGGING_ENDPOINT": addresses.google_rest,
    }


def export_lines(environment: dict[str, str]) -> str:
    """Return the variables as lines that a shell can evaluate."""
    return "\n".join(f"export {key}={shlex.quote(value)}" for key, value in environment.items())
