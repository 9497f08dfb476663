"""How the stack itself and the demo talk to Kubernetes: HTTP, with the trust and the token of a kubeconfig.

For whoever may do everything. The exporter and the functions have clients, and accounts, of their own.
"""

from __future__ import annotations

from pathlib import Path

import httpx

from shared.edges.kubernetes_connection import connection_from_kubeconfig


def open_kubernetes(kubeconfig: Path | str, *, timeout_seconds: float = 10.0) -> httpx.Client:
    """Return a client whose base URL is the Kubernetes API of a kubeconfig; the caller closes it.

    Proxies of the environment are not used: everything here is on this machine.

    Raises:
        Misconfigured: the kubeconfig cannot be used.
    """
    connection = connection_from_kubeconfig(Path(kubeconfig))
    headers = {"Authorization": f"Bearer {connection.token()}"} if connection.token else {}
    return httpx.Client(
        base_url=connection.url,
        headers=headers,
        verify=connection.ssl_context or True,
        timeout=timeout_seconds,
        trust_env=False,
    )
