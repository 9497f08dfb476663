"""From a kubeconfig to an HTTP client: server, certificate authority, token or client certificate.

Source: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any

import httpx
import yaml

Json = dict[str, Any]

_CONNECTIONS = 16
_TIMEOUT_SECONDS = 30.0


class KubeconfigError(ValueError):
    """A kubeconfig that cannot be used; the text names the file, the field and what would be valid."""


def open_client(path: Path) -> httpx.AsyncClient:
    """Return a client for the current context of a kubeconfig.

    Raises:
        KubeconfigError: when the file or one of the fields it needs is missing or wrong.
    """
    cluster, user = _current(path)
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise KubeconfigError(
            f"{path}: clusters[].cluster.server is {server!r}; valid: an http:// or https:// address"
        )
    headers = {"User-Agent": "tpu-provisioner-kubelet"}
    token = user.get("token") or _content(path, user, "tokenFile")
    if token:
        headers["Authorization"] = f"Bearer {token.strip()}"
    return httpx.AsyncClient(
        base_url=server,
        headers=headers,
        verify=_trust(path, cluster, user) if server.startswith("https://") else False,
        timeout=_TIMEOUT_SECONDS,
        limits=httpx.Limits(max_connections=_CONNECTIONS),
        trust_env=False,
    )


def _current(path: Path) -> tuple[Json, Json]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path}: cannot be read as a kubeconfig: {error}") from error
    context = _named(path, config, "contexts", "context", config.get("current-context"))
    cluster = _named(path, config, "clusters", "cluster", context.get("cluster"))
    return cluster, _named(path, config, "users", "user", context.get("user")) if context.get("user") else {}


def _named(path: Path, config: Json, group: str, field: str, name: Any) -> Json:
    entries = config.get(group) or []
    for entry in entries:
        if entry.get("name") == name:
            return entry.get(field) or {}
    valid = ", ".join(str(entry.get("name")) for entry in entries) or "none"
    raise KubeconfigError(f"{path}: {group} has no entry named {name!r}; present: {valid}")


def _content(path: Path, section: Json, field: str) -> str:
    """Return the text of a field's inline `-data` twin, or of the file that the field names."""
    if section.get(f"{field}-data"):
        return base64.b64decode(section[f"{field}-data"]).decode()
    if section.get(field):
        return (path.parent / str(section[field])).read_text(encoding="utf-8")
    return ""


def _trust(path: Path, cluster: Json, user: Json) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=_content(path, cluster, "certificate-authority") or None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = _content(path, user, "client-certificate")
    key = _content(path, user, "client-key")
    if certificate and key:
        with tempfile.TemporaryDirectory() as folder:
            chain = Path(folder) / "client.pem"
            chain.touch(mode=0o600)
            chain.write_text(f"{certificate}\n{key}\n", encoding="utf-8")
            context.load_cert_chain(chain)
    return context
