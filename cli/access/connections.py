"""The connections of the command line to GKE, Kubernetes and Pub/Sub, as the functions have them.

The operator's identity is the only difference: the same look-up of credentials finds the login of
the person who runs the command, and not an instance's account. The clients of Pub/Sub and of
kubeconfigs are loaded at their first use: each costs as much as all the rest.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from cli.access.deployment import OperatorSettings, find_log_project, read_environment
from cli.access.log_search import open_logs
from shared.edges.cluster import KubernetesCluster
from shared.edges.connection import CONNECTIONS_MAX, Connection
from shared.edges.gke import GkePools, open_apis
from shared.edges.google import CLIENT, GoogleAccount, PubsubTopic, translate_errors
from shared.edges.kubernetes import KubernetesApi
from shared.edges.kueue import KueueQueues
from shared.edges.process import SYSTEM_CLOCK
from shared.engine.budget import open_books
from shared.engine.outside import Ports
from shared.model.errors import Misconfigured, NotFound
from shared.model.messages import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import urllib3
    from google.cloud.logging_v2 import Client
    from google.pubsub_v1.services.publisher import PublisherClient
    from google.pubsub_v1.services.subscriber import SubscriberClient
    from kubernetes.client.configuration import Configuration

    from cli.access.log_search import OpenLogs
    from shared.settings import Settings


_BEARER = "BearerToken"  # the client's own name for the header Authorization


class ClientConnection(Connection):
    """A connection by the client's own configuration, which is kept and not copied."""

    def __init__(self, configuration: Configuration) -> None:
        """Prepare; nothing is sent yet."""
        super().__init__(url=str(configuration.host))
        self._configuration = configuration

    @cached_property
    def pool(self) -> urllib3.PoolManager:
        """The client's transport: trust, client certificate and proxy are in it."""
        from kubernetes.client.rest import RESTClientObject  # noqa: PLC0415 -- see above

        self._configuration.connection_pool_maxsize = CONNECTIONS_MAX
        pool: urllib3.PoolManager = RESTClientObject(self._configuration).pool_manager
        return pool

    def authorize(self) -> str:
        """Return the header Authorization for the next request; empty sends none."""
        return (self._configuration.get_api_key_with_prefix(_BEARER) or "").strip()


def _check_user(loader: Any) -> None:
    """Refuse a user who acts as another: the client would act as the person, with more rights."""
    name = loader.current_context["context"].get("user")
    user = loader._config["users"].get_with_name(name).value["user"] or {} if name else {}  # noqa: SLF001
    others = [key for key in user if key == "as" or key.startswith("as-")]
    if others:
        raise ValueError(f"user {name!r}: {others[0]} is not supported")


def connection_from_kubeconfig(path: Path | str) -> Connection:
    """Return the connection of the current context of a kubeconfig.

    The client runs exec plugins here, and again before what they gave expires.
    """
    from kubernetes.client.configuration import Configuration  # noqa: PLC0415 -- see above
    from kubernetes.config import kube_config  # noqa: PLC0415

    configuration: Any = Configuration()
    loaders: Any = kube_config
    try:
        loader = loaders.KubeConfigLoader(loaders.KubeConfigMerger(str(path)).config, None, config_base_path=None)
        _check_user(loader)
        loader.load_and_set(configuration)
        return ClientConnection(configuration)
    except Exception as error:
        # The client lets through whatever a malformed file makes Python or a library raise.
        problem = f"kubeconfig {path}: cannot be used: {error}; valid: a kubeconfig as kubectl reads it"
        raise Misconfigured((problem,)) from error


PULL_MAX = 100
_TIMEOUT_SECONDS = 30.0


class PulledMessage(msgspec.Struct, frozen=True):
    """One message that was pulled and is held until it is acknowledged or given back."""

    ack_id: str
    message_id: str
    publish_time: str  # RFC 3339
    message: Message


class PubsubAdmin:
    """The API over REST; every method raises the errors of `shared.model.errors`."""

    def __init__(self, endpoint: str, account: GoogleAccount) -> None:
        """Prepare; the clients are opened at their first use, and nothing is sent before."""
        self._host, self._account = endpoint.rstrip("/"), account

    def open_topic(self, name: str) -> PubsubTopic:
        """Return a topic to publish to."""
        return PubsubTopic(self._open_publisher, name)

    def _open_publisher(self) -> PublisherClient:
        from google.pubsub_v1.services.publisher import PublisherClient  # noqa: PLC0415 -- see above
        from google.pubsub_v1.services.publisher.transports import PublisherRestTransport  # noqa: PLC0415

        credentials = self._account.credentials
        transport = PublisherRestTransport(host=self._host, credentials=credentials, client_info=CLIENT)
        return PublisherClient(transport=transport)

    @cached_property
    def _subscriber(self) -> SubscriberClient:
        from google.pubsub_v1.services.subscriber import SubscriberClient  # noqa: PLC0415 -- see above
        from google.pubsub_v1.services.subscriber.transports import SubscriberRestTransport  # noqa: PLC0415

        transport = SubscriberRestTransport(host=self._host, credentials=self._account.credentials)
        return SubscriberClient(transport=transport)

    def has_subscription(self, name: str) -> bool:
        """Return whether there is such a subscription."""
        with suppress(NotFound):
            self._call("get_subscription", name, subscription=name)
            return True
        return False

    def seek(self, name: str, time: str) -> None:
        """Put a subscription back to a time (RFC 3339)."""
        self._call("seek", name, subscription=name, time=datetime.fromisoformat(time))

    def pull(self, name: str) -> list[PulledMessage]:  # assumes: subscriptions
        """Return up to `PULL_MAX` messages. An empty answer does not prove an empty queue."""
        answer = self._call("pull", name, subscription=name, max_messages=PULL_MAX, return_immediately=True)
        return [
            PulledMessage(
                each.ack_id,
                each.message.message_id,
                each.message.publish_time.rfc3339(),
                Message(each.message.data, dict(each.message.attributes)),
            )
            for each in answer.received_messages
        ]

    def acknowledge(self, name: str, ack_ids: Sequence[str]) -> None:
        """Take messages away for good."""
        self._call("acknowledge", name, subscription=name, ack_ids=list(ack_ids))

    def hold(self, name: str, ack_ids: Sequence[str], seconds: int) -> None:
        """Keep messages from being delivered again for so long; 0 gives them back at once."""
        request = {"ack_ids": list(ack_ids), "ack_deadline_seconds": seconds}
        self._call("modify_ack_deadline", name, subscription=name, **request)

    def _call(self, method: str, name: str, **request: Any) -> Any:
        with translate_errors(f"{method} {name}"):
            return getattr(self._subscriber, method)(request=request, retry=None, timeout=_TIMEOUT_SECONDS)


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
        chosen = connection_from_kubeconfig(own.kubeconfig)
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
        books=open_books(settings),
    )
    return Deployment(
        settings=settings,
        own=own,
        ports=ports,
        apis=apis,
        pubsub=PubsubAdmin(own.pubsub_endpoint, account),
        open_logs=find_logs if own.logging_endpoint else None,
    )
