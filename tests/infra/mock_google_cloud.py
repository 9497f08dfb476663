"""A mock of Google Cloud's APIs for the real terraform and gcloud: the program that MOCK_GOOGLE_CLOUD names.

It listens as a proxy, and ends TLS with a certificate of its own. Pub/Sub is the project's own stand-in, which
answers a second create as Google does.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from standins.processes.child import Command
from standins.processes.free_ports import draw_ports, is_free
from standins.processes.stand_ins import running, running_stand_in
from tests.infra.build_scripts import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VARIABLE = "MOCK_GOOGLE_CLOUD"
PROJECT = "training-project"


@contextmanager
def serve_google_cloud(folder: Path) -> Iterator[dict[str, str]]:
    """Yield the environment in which gcloud and terraform talk to a mock with one empty project."""
    (port,) = draw_ports(1)
    certificate = folder / "ca.pem"
    with running_stand_in(folder, "standins.pubsub") as pubsub:
        arguments = (
            *(os.environ[VARIABLE], "-listen", f"127.0.0.1:{port}", "-ca", str(certificate)),
            *("-projects", PROJECT, "-require-enabled", "-journal", str(folder / "journal.jsonl")),
            *("-to", f"pubsub.googleapis.com={pubsub.addresses['rest']}"),
        )
        command = Command(name="google-cloud", arguments=arguments, folder=ROOT)
        with running(command, folder, lambda: certificate.is_file() and not is_free(port)):
            yield _describe_clients(folder, port, certificate)


def _describe_clients(folder: Path, port: int, certificate: Path) -> dict[str, str]:
    config = folder / "gcloud"
    config.mkdir()
    token = config / "token"
    token.write_text("none")
    proxy, trusted = f"http://127.0.0.1:{port}", str(certificate)
    left_out = ("SSL_CERT_DIR", "NO_PROXY", "no_proxy")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {
        "HTTPS_PROXY": proxy,
        "https_proxy": proxy,
        **dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"), trusted),
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": trusted,
        "CLOUDSDK_CONFIG": str(config),
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_PROJECT": PROJECT,
        "GOOGLE_OAUTH_ACCESS_TOKEN": "none",
    }
