"""Connects to the cluster that the exporter runs in, by its pod's account."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from shared.edges.connection import Connection, TokenFile
from shared.model.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def connection_in_cluster(environ: Mapping[str, str] = os.environ, folder: Path = ACCOUNT_FOLDER) -> Connection:
    """Return the connection of the pod's own account, whose token is read again each minute.

    Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/.

    Raises:
        Misconfigured: this is not a pod with a mounted account.
    """
    host, namespace = environ.get("KUBERNETES_SERVICE_HOST", ""), folder / "namespace"
    try:
        token = TokenFile(folder / "token")
        token()
        return Connection(
            url=f"https://{f'[{host}]' if ':' in host else host}:{environ.get('KUBERNETES_SERVICE_PORT', '')}",
            token=token,
            ca_file=str(folder / "ca.crt"),
            namespace=namespace.read_text(encoding="utf-8").strip() if namespace.exists() else "default",
        )
    except (Misconfigured, OSError, ValueError) as error:
        problem = f"this is no pod with an account ({error}); set TPU_PROVISIONER_KUBECONFIG instead"
        raise Misconfigured((f"{folder}: {problem}",)) from error
