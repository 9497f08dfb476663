"""How the processes of a deployed system are started: with what Terraform and the build have set.

To that come only what the platform gives a process, and the ways of this machine: a proxy to the
stand-ins, a port. Pure but for reading the rendered manifests.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from demo.deploy.deployments import Function
from demo.stack.commands import run_function, run_module
from demo.stack.layout import PROJECT_ROOT
from standins.processes.child import Command

_MANIFEST = PROJECT_ROOT / "infra" / "kubernetes" / "exporter" / "deployment.yaml"
_PLACEHOLDER = "${projectNumber}"
"""The mock leaves it in the DNS endpoint of a cluster, where GKE has the number."""


def function_command(
    function: Function, source: Path, *, port: int, number: str, metadata: str, clients: Mapping[str, str]
) -> Command:
    """Return the command of one deployed function.

    Args:
        function: As deployed.
        source: Its archive, unpacked.
        port: Where it shall listen.
        number: The project's number.
        metadata: ``host:port`` of its metadata server.
        clients: The variables by which it reaches Google's hosts.
    """
    variables = {key: value.replace(_PLACEHOLDER, number) for key, value in function.environment.items()}
    return run_function(
        function.entry_point,
        source,
        port=port,
        environment={
            **clients,
            **variables,
            "K_SERVICE": function.name,
            "K_REVISION": f"{function.name}-00001",
            "GCE_METADATA_HOST": metadata,
            "GCE_METADATA_IP": metadata,
            # No login of this machine's user may answer before the metadata server.
            "CLOUDSDK_CONFIG": "/nonexistent",
            "HOME": "/nonexistent",
        },
    )


def list_endpoint_hosts(function: Function, number: str) -> list[str]:
    """Return the hosts of the Kubernetes APIs that a function was told."""
    clusters = json.loads(function.environment["TPU_PROVISIONER_CLUSTERS"].replace(_PLACEHOLDER, number))
    return [each["endpoint"].removeprefix("https://") for each in clusters.values()]


def read_exporter(rendered: Path) -> tuple[str, dict[str, str]]:
    """Return the exporter's account, as ``ns/NAMESPACE/sa/NAME``, and its variables.

    `rendered` is the folder that infra/build/render_exporter.py wrote.
    """
    deployment = yaml.safe_load(_MANIFEST.read_text(encoding="utf-8"))
    pod = deployment["spec"]["template"]["spec"]
    variables = _read_variables(pod)
    kustomization = json.loads((rendered / "kustomization.yaml").read_text(encoding="utf-8"))
    for each in kustomization["patches"]:
        patch = json.loads(each["patch"])
        if "target" not in each and patch["kind"] == "Deployment":
            variables |= _read_variables(patch["spec"]["template"]["spec"])
    account = f"ns/{deployment['metadata']['namespace']}/sa/{pod['serviceAccountName']}"
    return account, variables


def _read_variables(pod: Mapping[str, Any]) -> dict[str, str]:
    (container,) = pod["containers"]
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def exporter_command(variables: Mapping[str, str], *, kubeconfig: Path, port: int, pubsub_grpc: str) -> Command:
    """Return the command of the exporter, with the variables of its rendered manifest.

    It is for the embedded cluster, which has no Deployments.
    """
    return run_module(
        "exporter",
        "exporter",
        environment={
            **variables,
            "TPU_PROVISIONER_KUBECONFIG": str(kubeconfig),
            "TPU_PROVISIONER_HTTP_PORT": str(port),
            "TPU_PROVISIONER_LEASE_SECONDS": "0",  # the embedded cluster knows no accounts
            "PUBSUB_EMULATOR_HOST": pubsub_grpc,
        },
    )
