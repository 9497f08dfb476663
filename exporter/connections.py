"""The exporter's connections: to the cluster that it watches, and to Pub/Sub over gRPC."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
from google.pubsub_v1.services.publisher import PublisherClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

from shared.edges.connection import Connection, TokenFile
from shared.edges.google import translate_errors
from shared.edges.pubsub import CLIENT
from shared.model.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.edges.pubsub import PubsubTopic

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def connection_in_cluster(environ: Mapping[str, str] = os.environ, folder: Path = ACCOUNT_FOLDER) -> Connection:
    """Return the connection of the pod's own account, whose token is read again each minute.

    Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/.
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


def open_publisher() -> PublisherClient:
    """Return a client over gRPC with the application default credentials.

    It reads the variables that Google's clients read, PUBSUB_EMULATOR_HOST for example. It has
    threads of its own, so it suits a process that always has CPU, and that does not fork.
    """
    return PublisherClient(client_info=CLIENT)


def connect(topic: PubsubTopic) -> None:
    """Open the connection now, so that the first batch does not wait for it.

    Nothing is sent, so this does not show whether the topic exists. After an error the next call
    tries again.
    """
    with translate_errors(f"connect to publish to {topic.name}"):
        transport = topic.get_client().transport
        if not isinstance(transport, PublisherGrpcTransport):
            return
        ready = grpc.channel_ready_future(transport.grpc_channel)
        try:
            ready.result(topic.timeout_seconds)
        except grpc.FutureTimeoutError as error:
            ready.cancel()
            topic.close()
            raise Unavailable(f"no connection in {topic.timeout_seconds:g} s") from error
