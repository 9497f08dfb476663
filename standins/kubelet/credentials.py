"""The service account's credentials of a pod, written where its containers find them.

A real kubelet writes them too. Source:
https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken
"""

from pathlib import Path
from typing import Any

import httpx

from standins.kubelet.container_command import TOKEN_FOLDER

Json = dict[str, Any]

_LIFETIME_SECONDS = 3607
"""As a kubelet asks for. Longer than any pod lives here, so nothing renews it."""


async def write_credentials(client: httpx.AsyncClient, pod: Json, folder: Path) -> None:
    """Write token, certificate authority and namespace below a pod's folder, if it mounts a token.

    Raises httpx.HTTPError: the API server did not answer, or refused.
    """
    if not _mounts_token(pod):
        return
    namespace = pod["metadata"]["namespace"]
    account = pod["spec"].get("serviceAccountName", "default")
    base = f"/api/v1/namespaces/{namespace}"
    reference = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    wanted = {"expirationSeconds": _LIFETIME_SECONDS, "boundObjectRef": reference}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": wanted}
    granted = (await client.post(f"{base}/serviceaccounts/{account}/token", json=request)).raise_for_status()
    authority = (await client.get(f"{base}/configmaps/kube-root-ca.crt")).raise_for_status()
    target = folder / TOKEN_FOLDER
    target.mkdir(parents=True, mode=0o700, exist_ok=True)
    files = {
        "token": granted.json()["status"]["token"],
        "ca.crt": authority.json()["data"]["ca.crt"],
        "namespace": namespace,
    }
    for name, text in files.items():
        path = target / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")


def _mounts_token(pod: Json) -> bool:
    containers = pod["spec"]["containers"]
    return any(
        mount["mountPath"] == f"/{TOKEN_FOLDER}" for each in containers for mount in each.get("volumeMounts", ())
    )
