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

    from exporter.exporter_settings import ExporterSettings
    from shared.edges.pubsub import PubsubTopic

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


NAMESPACE = "tpu-provisioner"  # of the Lease, if neither a setting nor a pod says so


def open_connection(
    settings: ExporterSettings, environ: Mapping[str, str] = os.environ, folder: Path = ACCOUNT_FOLDER
) -> Connection:
    """Return the way to the API: as the settings say, else by the account of this pod.

    Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/.
    """
    url, token_file, ca_file = settings.endpoint, settings.token_file, settings.ca_file
    if not url:
        host, port = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        token_file, ca_file = str(folder / "token"), str(folder / "ca.crt")
    token = TokenFile(Path(token_file)) if token_file else None
    try:
        if token:
            token()
        return Connection(url=url, token=token, ca_file=ca_file)
    except (Misconfigured, ValueError) as error:
        hint = "" if settings.endpoint else "; outside of a pod, set TPU_PROVISIONER_ENDPOINT"
        problems = error.problems if isinstance(error, Misconfigured) else (str(error),)
        raise Misconfigured(tuple(f"{each}{hint}" for each in problems)) from error


def find_namespace(settings: ExporterSettings, folder: Path = ACCOUNT_FOLDER) -> str:
    """Return the namespace of the Lease: as set, else that of this pod."""
    own = folder / "namespace"
    if settings.lease_namespace or settings.endpoint or not own.exists():
        return settings.lease_namespace or NAMESPACE
    return own.read_text(encoding="utf-8").strip()


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
