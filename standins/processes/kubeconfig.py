"""Kubeconfig files.

How a server's address and its token are written, and how an HTTP client is opened from them.

Format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/. Programs that a kubeconfig
names are never run, and no proxy of the environment is used.
"""

import base64
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any, TypedDict

import httpx
import yaml

from standins.processes.addresses import STAND_IN

Json = dict[str, Any]

_NAME = "tpu-provisioner-local"


class KubeconfigError(ValueError):
    """A kubeconfig cannot be used; the text names the file, the field and what is valid."""


class _Options(TypedDict):
    base_url: str
    headers: dict[str, str]
    verify: ssl.SSLContext | bool
    trust_env: bool


def open_client(path: Path | str, *, timeout_seconds: float = 10.0) -> httpx.Client:
    """Return a client for the current context of a kubeconfig; the caller closes it.

    Raises KubeconfigError: the file, or a field that it needs, is missing or wrong.
    """
    return httpx.Client(timeout=timeout_seconds, **_read_options(Path(path)))


def open_async_client(path: Path, *, timeout_seconds: float = 10.0, connections: int = 100) -> httpx.AsyncClient:
    """Return a client for the current context of a kubeconfig, for use in an event loop.

    The caller closes it.

    Raises KubeconfigError: the file, or a field that it needs, is missing or wrong.
    """
    limits = httpx.Limits(max_connections=connections)
    return httpx.AsyncClient(timeout=timeout_seconds, limits=limits, **_read_options(path))


def render_kubeconfig(url: str, *, authority: bytes = b"", token: str = "", namespace: str = "default") -> str:
    """Return a kubeconfig (JSON, which is YAML) that kubectl and the client libraries accept."""
    cluster, user = {"server": url}, {}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    if token:
        user["token"] = token
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": namespace}}],
        "current-context": _NAME,
    }
    return json.dumps(config, indent=2) + "\n"


def _read_options(path: Path) -> _Options:
    cluster, user = _read_current(path)
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("http://", "https://")):
        raise KubeconfigError(
            f"{path}: clusters[].cluster.server is {server!r}; valid: an http:// or https:// address"
        )
    try:
        token = _read_text(path, user, "token", "tokenFile")
        verify = _trust(path, cluster, user) if server.startswith("https://") else False
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"{path}: token or certificate: {error}") from error
    headers = {"User-Agent": STAND_IN}
    if token:
        headers["Authorization"] = f"Bearer {token.strip()}"
    return {"base_url": server, "headers": headers, "verify": verify, "trust_env": False}


def _read_current(path: Path) -> tuple[Json, Json]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", "") or "it is not YAML"
        raise KubeconfigError(f"{path}: cannot be read as a kubeconfig: {why}; valid: a kubeconfig") from error
    if not isinstance(config, dict):
        raise KubeconfigError(f"{path}: cannot be read as a kubeconfig: it is not a mapping")
    context = _find(path, config, "contexts", "context", config.get("current-context"))
    cluster = _find(path, config, "clusters", "cluster", context.get("cluster"))
    return cluster, _find(path, config, "users", "user", context["user"]) if context.get("user") else {}


def _find(path: Path, config: Json, group: str, field: str, name: object) -> Json:
    entries = config.get(group) or []
    for entry in entries:
        if entry.get("name") == name:
            return entry.get(field) or {}
    valid = ", ".join(str(entry.get("name")) for entry in entries) or "none"
    raise KubeconfigError(f"{path}: {group} has no entry named {name!r}; present: {valid}")


def _read_text(path: Path, section: Json, inline: str, file: str) -> str:
    """Return the text of an inline field, or of the file that another field names.

    Empty when there is neither.
    """
    if section.get(inline):
        text = str(section[inline])
        return base64.b64decode(text).decode() if inline.endswith("-data") else text
    return (path.parent / str(section[file])).read_text(encoding="utf-8") if section.get(file) else ""


def _trust(path: Path, cluster: Json, user: Json) -> ssl.SSLContext:
    def read(section: Json, field: str) -> str:
        return _read_text(path, section, f"{field}-data", field)

    context = ssl.create_default_context(cadata=read(cluster, "certificate-authority") or None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = read(user, "client-certificate"), read(user, "client-key")
    if certificate and key:
        # The ssl module reads certificates from files only.
        with tempfile.TemporaryDirectory() as folder:
            chain = Path(folder) / "client.pem"
            chain.touch(mode=0o600)
            chain.write_text(f"{certificate}\n{key}\n", encoding="utf-8")
            context.load_cert_chain(chain)
    return context
