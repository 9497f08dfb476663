"""Connects to the cluster that the exporter runs in, by its pod's account."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubernetes.client.configuration import Configuration
from kubernetes.config import incluster_config
from kubernetes.config.config_exception import ConfigException

from shared.edges.connection import Connection
from shared.model.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_accounts: Any = incluster_config


def connection_in_cluster(environ: Mapping[str, str] | None = None, folder: Path = ACCOUNT_FOLDER) -> Connection:
    """Return the connection of the pod's own service account.

    The client reads the token again once a minute. Source:
    https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/.

    Raises:
        Misconfigured: this is not a pod with a mounted account.
    """
    configuration = Configuration()
    try:
        _accounts.InClusterConfigLoader(
            token_filename=str(folder / "token"),
            cert_filename=str(folder / "ca.crt"),
            environ=os.environ if environ is None else environ,
        ).load_and_set(configuration)
        namespace_file = folder / "namespace"
        namespace = namespace_file.read_text(encoding="utf-8").strip() if namespace_file.exists() else "default"
        return Connection(configuration=configuration, namespace=namespace)
    except (ConfigException, OSError, ValueError) as error:
        problem = f"this is no pod with an account ({error}); set TPU_PROVISIONER_KUBECONFIG instead"
        raise Misconfigured((f"{folder}: {problem}",)) from error
