"""How the mock of Google Cloud is called, and what its clients must be told.

It is a proxy that answers for ``*.googleapis.com`` itself, with certificates of its own authority.
So terraform, gcloud and Google's libraries are used as they are, without custom endpoints.
"""

from __future__ import annotations

import os
import shutil
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from standins.processes.child import Command
from standins.processes.free_ports import HOST, is_free

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NOT_FOR_CLIENTS = ("NO_PROXY", "no_proxy", "SSL_CERT_DIR")
"""With these of the caller's environment, the mock would not be asked or not be trusted."""
VARIABLE = "MOCK_GOOGLE_CLOUD"
"""Names the program; standins/googlecloud/README.md says how to build it."""


def find_program() -> str | None:
    """Return the path of the program that the environment names; None without one."""
    return shutil.which(os.environ.get(VARIABLE, ""))


def name_service_host(name: str, project: str, region: str) -> str:
    """Return the host of a function's address, as the mock forms it."""
    return f"{name}-{zlib.crc32((project + region).encode()):010d}.{region}.run.app"


@dataclass(frozen=True, slots=True, kw_only=True)
class MockCloud:
    """One process of the mock: how it is started, and how it is reached."""

    folder: Path
    """For its certificate and its journal."""
    port: int
    project: str
    """The one that clients mean if they name none."""
    other_projects: tuple[str, ...] = ()
    forwards: Mapping[str, str] = field(default_factory=dict)
    """By host: the URL of the server that answers in place of the mock."""
    require_enabled: bool = False
    """Whether APIs must be enabled before they are called, as at Google."""
    name: str = "google-cloud"
    trusts: Path | None = None
    """The certificate of the authority of all servers that it forwards to by https, if there are
    any."""

    @property
    def url(self) -> str:
        """Its address: of the proxy, and of what it tells about itself."""
        return f"http://{HOST}:{self.port}"

    @property
    def authority(self) -> Path:
        """The certificate that clients must trust; written at its start."""
        return self.folder / f"{self.name}.pem"

    @property
    def journal(self) -> Path:
        """A line of JSON for each call that it has answered."""
        return self.folder / f"{self.name}.jsonl"

    def command(self, program: str) -> Command:
        """Return how the process is started."""
        return Command(
            name=self.name,
            arguments=(
                *(program, "-listen", f"{HOST}:{self.port}", "-ca", str(self.authority)),
                *("-projects", ",".join((self.project, *self.other_projects)), "-journal", str(self.journal)),
                *(("-require-enabled",) if self.require_enabled else ()),
                *(word for host, target in self.forwards.items() for word in ("-to", f"{host}={target}")),
            ),
            folder=self.folder,
            environment={"SSL_CERT_FILE": str(self.trusts)} if self.trusts else {},
        )

    def is_ready(self) -> bool:
        """Return whether it listens."""
        return self.authority.is_file() and not is_free(self.port)

    def describe_clients(self) -> dict[str, str]:
        """Return the variables by which programs reach it and trust it."""
        trusting = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE")
        proxy = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), self.url)
        return proxy | dict.fromkeys(trusting, str(self.authority)) | {"GOOGLE_OAUTH_ACCESS_TOKEN": "none"}

    def describe_gcloud(self, config: Path) -> dict[str, str]:
        """Return what gcloud must be told besides; its configuration gets a new folder."""
        config.mkdir()
        token = config / "token"
        token.write_text("none")
        return {
            "CLOUDSDK_CONFIG": str(config),
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_PROJECT": self.project,
        }

    def ask(self, path: str) -> httpx.Response:
        """Return what the mock tells about itself, for example at ``/deployed``.

        Raises httpx.HTTPError: it does not answer, or not with success.
        """
        return httpx.get(f"{self.url}{path}", timeout=10, trust_env=False).raise_for_status()
