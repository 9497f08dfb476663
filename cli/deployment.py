"""One deployment as the command line reaches it: GKE, Kubernetes and Pub/Sub, by the functions' own edges.

The operator's identity is the only difference: application default credentials of whoever sits here
(https://cloud.google.com/docs/authentication/application-default-credentials), not an instance's account.
"""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import urllib3

from cli.settings import OperatorSettings, read_environment
from shared.core.errors import Denied
from shared.core.settings import Credentials
from shared.edges.clock import SystemClock
from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import GkeNodePools
from shared.edges.google_access import SCOPES
from shared.edges.google_rest import GoogleRest
from shared.edges.kubernetes_api import Connection, KubernetesApi
from shared.edges.kubernetes_connection import TokenFile, connection_from_kubeconfig
from shared.perform.outcome import Ports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.auth.credentials import Credentials as GoogleCredentials

    from shared.core.settings import ClusterSettings, Settings

_LOGIN = "gcloud auth application-default login"
_USER_AGENT = "tpu-provisioner-cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Everything that a command may ask."""

    settings: Settings
    own: OperatorSettings
    ports: Ports
    apis: dict[str, KubernetesApi]
    """The Kubernetes API of each cluster, for what the functions never read."""
    gke: GoogleRest
    pubsub: GoogleRest
    logging: GoogleRest | None
    """None where no logs can be read."""
    monitoring: GoogleRest | None
    """None where there are no metrics."""
    http: urllib3.PoolManager


def open_deployment(environ: Mapping[str, str]) -> Deployment:
    """Return the deployment that the environment describes; nothing is sent yet.

    Raises:
        Misconfigured: a setting is missing or wrong.
    """
    settings, own = read_environment(environ)
    http = urllib3.PoolManager(maxsize=4)
    token = google_token() if settings.credentials == Credentials.GOOGLE else None
    apis = {name: _open_kubernetes(cluster, own, token) for name, cluster in settings.clusters.items()}

    def reach(endpoint: str) -> GoogleRest:
        return GoogleRest(endpoint, http=http, token=token)

    gke = reach(settings.gke_endpoint)
    ports = Ports(
        settings=settings,
        pools=GkeNodePools(gke, reach(settings.compute_endpoint)),
        clusters={name: KubernetesCluster(api) for name, api in apis.items()},
        clock=SystemClock(),
    )
    return Deployment(
        settings=settings,
        own=own,
        ports=ports,
        apis=apis,
        gke=gke,
        pubsub=reach(settings.pubsub_endpoint),
        logging=reach(own.logging_endpoint) if own.logging_endpoint else None,
        monitoring=reach(own.monitoring_endpoint) if own.monitoring_endpoint else None,
        http=http,
    )


def google_token() -> Callable[[], str]:
    """Return a function that gives a valid access token of the person who runs this.

    The returned function raises `Denied` with the command that mends it.
    """
    lock = threading.Lock()
    held: list[GoogleCredentials] = []

    def give() -> str:
        # Imported at the first use: a third of a second that `plan` and the local stack need not wait for.
        import google.auth  # noqa: PLC0415 -- see above
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 -- see above
        from google.auth.transport.requests import Request  # noqa: PLC0415 -- see above

        with lock:
            try:
                if not held:
                    held.append(google.auth.default(scopes=SCOPES)[0])
                if not held[0].valid:
                    held[0].refresh(Request())  # type: ignore[no-untyped-call]
            except GoogleAuthError as error:
                raise Denied(f"no Google credentials: {error}; log in with: {_LOGIN}") from error
            return str(held[0].token)

    return give


def _open_kubernetes(
    cluster: ClusterSettings, own: OperatorSettings, token: Callable[[], str] | None
) -> KubernetesApi:
    if own.kubeconfig:
        return KubernetesApi(connection_from_kubeconfig(own.kubeconfig), user_agent=_USER_AGENT)
    if cluster.token_file:
        token = TokenFile(Path(cluster.token_file))
    context = ssl.create_default_context(cafile=cluster.ca_file) if cluster.ca_file else None
    return KubernetesApi(
        Connection(url=cluster.endpoint, token=token, ssl_context=context), user_agent=_USER_AGENT
    )
