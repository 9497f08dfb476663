"""The few calls to a Kubernetes API that registering and removing nodes needs, over plain HTTP(S).

The API server is given as a URL or as a kubeconfig (its current context; tokens, CA, client
certificates). What to register is decided in `registrar`.
"""

from pathlib import Path
from typing import Any

import httpx

from standins.processes.kubeconfig import open_async_client

_TIMEOUT_SECONDS = 10.0
_MERGE = {"Content-Type": "application/merge-patch+json"}


class KubernetesApi:
    """A client of one Kubernetes API.

    Every call raises httpx.HTTPError when the API is down or refuses.
    """

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
        """Merge `patch` into a Node, or into its subresource `part`.

        A Node that is gone is left alone.
        """
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
    """Return a client for a URL or a kubeconfig path.

    Raises ValueError when the file cannot be used.
    """
    if target.startswith(("http://", "https://")):
        return KubernetesApi(httpx.AsyncClient(base_url=target, timeout=_TIMEOUT_SECONDS, trust_env=False))
    return KubernetesApi(open_async_client(Path(target).expanduser(), timeout_seconds=_TIMEOUT_SECONDS))
