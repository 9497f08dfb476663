"""The few calls to a Kubernetes API that registering and removing nodes needs, over plain HTTP(S).

The API server is given as a URL or as a kubeconfig (its current context; tokens, CA, client certificates). What to
register is decided in `registrar`.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any

import httpx
import yaml

_TIMEOUT = httpx.Timeout(10.0)
_MERGE = {"Content-Type": "application/merge-patch+json"}


class KubernetesApi:
    """A client of one Kubernetes API. Every call raises httpx.HTTPError when the API is down or refuses."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def create_node(self, manifest: dict[str, Any]) -> None:
        """Create a Node; one that exists already is brought in line with the manifest."""
        answer = await self._client.post("/api/v1/nodes", json=manifest)
        if answer.status_code == httpx.codes.CONFLICT:
            patch = {"metadata": {"labels": manifest["metadata"]["labels"]}, "spec": manifest["spec"]}
            await self.patch_node(manifest["metadata"]["name"], patch)
            return
        answer.raise_for_status()

    async def node(self, name: str) -> dict[str, Any] | None:
        """Return a Node, None when there is none."""
        answer = await self._client.get(f"/api/v1/nodes/{name}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return dict(answer.raise_for_status().json())

    async def patch_node(self, name: str, patch: dict[str, Any], part: str = "") -> None:
        """Merge `patch` into a Node, or into its subresource `part`; a Node that is gone is left alone."""
        path = f"/api/v1/nodes/{name}" + (f"/{part}" if part else "")
        answer = await self._client.patch(path, json=patch, headers=_MERGE)
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()

    async def delete_node(self, name: str) -> None:
        """Delete a Node; one that is gone already is fine."""
        answer = await self._client.delete(f"/api/v1/nodes/{name}")
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()

    async def pods_on(self, node: str) -> list[tuple[str, str]]:
        """Return namespace and name of every pod that is bound to a node."""
        answer = await self._client.get("/api/v1/pods", params={"fieldSelector": f"spec.nodeName={node}"})
        pods = answer.raise_for_status().json()["items"]
        return [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]

    async def delete_pod(self, namespace: str, name: str, *, at_once: bool = False) -> None:
        """Delete a pod, with its own grace or at once; one that is gone already is fine."""
        parameters = {"gracePeriodSeconds": "0"} if at_once else {}
        answer = await self._client.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", params=parameters)
        if answer.status_code != httpx.codes.NOT_FOUND:
            answer.raise_for_status()


def connect(target: str) -> KubernetesApi:
    """Return a client for a URL or a kubeconfig path; raises ValueError when the file cannot be used."""
    if target.startswith(("http://", "https://")):
        return KubernetesApi(httpx.AsyncClient(base_url=target, timeout=_TIMEOUT))
    path = Path(target).expanduser()
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = _named(config, "contexts", "context", config["current-context"])
        cluster = _named(config, "clusters", "cluster", context["cluster"])
        user = _named(config, "users", "user", context["user"]) if context.get("user") else {}
        server = str(cluster["server"])
        verify = _tls(cluster, user, path.parent) if server.startswith("https://") else False
        token = _token(user, path.parent)
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ValueError(
            f"kubernetes: {target!r} is neither an http(s) URL nor a usable kubeconfig: {error!r}"
        ) from error
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return KubernetesApi(httpx.AsyncClient(base_url=server, headers=headers, verify=verify, timeout=_TIMEOUT))


def _named(config: dict[str, Any], section: str, key: str, name: str) -> dict[str, Any]:
    for entry in config.get(section) or []:
        if entry["name"] == name:
            return dict(entry[key] or {})
    raise KeyError(f"{section}: no entry named {name!r}")


def _token(user: dict[str, Any], folder: Path) -> str:
    if user.get("tokenFile"):
        return (folder / str(user["tokenFile"])).read_text(encoding="utf-8").strip()
    return str(user.get("token") or "")


def _tls(cluster: dict[str, Any], user: dict[str, Any], folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority = _bytes(cluster, "certificate-authority", folder)
    if authority:
        context.load_verify_locations(cadata=authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _bytes(user, "client-certificate", folder), _bytes(user, "client-key", folder)
    if certificate and key:
        with tempfile.NamedTemporaryFile(suffix=".pem") as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            context.load_cert_chain(pair.name)
    return context


def _bytes(section: dict[str, Any], key: str, folder: Path) -> bytes:
    if section.get(f"{key}-data"):
        return base64.b64decode(section[f"{key}-data"])
    return (folder / str(section[key])).read_bytes() if section.get(key) else b""
