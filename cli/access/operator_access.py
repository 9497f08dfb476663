"""The connections of the command line to GKE, Kubernetes and Pub/Sub, as the functions have them.

The operator's identity is the only difference: the same look-up of credentials finds the login of
the person who runs the command, and not an instance's account.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.access.cli_settings import OperatorSettings, find_log_project, read_environment
from cli.access.kubeconfig import connection_from_kubeconfig
from cli.access.log_search import open_logs
from cli.access.subscriptions import PubsubAdmin, open_publisher_over_rest, open_subscriber
from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import GkePools, open_apis
from shared.edges.google import GoogleAccount
from shared.edges.kubernetes import KubernetesApi
from shared.edges.kueue import KueueQueues
from shared.edges.process import SYSTEM_CLOCK
from shared.engine.budget import Budget
from shared.engine.outside import Ports
from shared.engine.threads import Crew

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.cloud.logging_v2 import Client

    from cli.access.log_search import OpenLogs
    from shared.settings import Settings

_USER_AGENT = "tpu-provisioner-cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Everything that a command may ask."""

    settings: Settings
    own: OperatorSettings
    ports: Ports
    apis: dict[str, KubernetesApi]
    """The Kubernetes API of each cluster, for what the functions never read."""
    pubsub: PubsubAdmin
    open_logs: OpenLogs | None
    """Opens the logs of the deployment, else those of a cluster's project, which it is given; None
    where no logs can be read."""


def open_deployment(environ: Mapping[str, str]) -> Deployment:
    """Return the deployment that the environment describes; nothing is sent yet."""
    settings, own = read_environment(environ)
    account = GoogleAccount(settings.credentials)
    pools = GkePools(settings.gke_endpoint, account)
    if own.kubeconfig:
        chosen = connection_from_kubeconfig(own.kubeconfig, own.context)
        apis = {name: KubernetesApi(chosen, user_agent=_USER_AGENT) for name in settings.clusters}
    else:
        apis = open_apis(settings.clusters, pools, account, _USER_AGENT)

    def find_logs(project: str) -> Client:
        home = find_log_project(own, f"projects/{project}")  # a cluster may be in another project
        return open_logs(own.logging_endpoint, account.credentials, home)

    ports = Ports(
        settings=settings,
        pools=pools,
        clusters={name: KubernetesCluster(api) for name, api in apis.items()},
        queues={name: KueueQueues(api) for name, api in apis.items()} if settings.kueue_admission_check else {},
        clock=SYSTEM_CLOCK,
        budget=Budget(settings),
        crew=Crew(),
    )
    return Deployment(
        settings=settings,
        own=own,
        ports=ports,
        apis=apis,
        pubsub=PubsubAdmin(
            lambda: open_publisher_over_rest(own.pubsub_endpoint, account.credentials),
            lambda: open_subscriber(own.pubsub_endpoint, account.credentials),
        ),
        open_logs=find_logs if own.logging_endpoint else None,
    )
