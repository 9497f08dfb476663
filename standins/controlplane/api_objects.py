"""Objects of a Kubernetes API, read and written as its administrator."""

from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from standins.kit.kubernetes import open_client

APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
_TEXT_MAX = 2_000


def open_api(kubeconfig: Path, *, timeout_seconds: float = 10.0) -> httpx.Client:
    """Return a client with the rights of a kubeconfig's user; the caller closes it.

    Raises KubeconfigError: the kubeconfig cannot be used.
    """
    client = open_client(kubeconfig, timeout_seconds=timeout_seconds)
    client.event_hooks = {"response": [_raise_refusal]}
    return client


def exists(api: httpx.Client, path: str) -> bool:
    """Return whether there is something at a path.

    Raises httpx.HTTPError: the server did not answer, or refused for another reason.
    """
    try:
        api.get(path)
    except httpx.HTTPStatusError as error:
        if is_refusal(error, HTTPStatus.NOT_FOUND):
            return False
        raise
    return True


def is_refusal(error: httpx.HTTPError, status: HTTPStatus) -> bool:
    """Return whether the server answered with this status."""
    return isinstance(error, httpx.HTTPStatusError) and error.response.status_code == status


def _raise_refusal(response: httpx.Response) -> None:
    if response.is_success:
        return
    response.read()
    request = response.request
    text = f"{request.method} {request.url.path}: {response.status_code}: {response.text[:_TEXT_MAX]}"
    raise httpx.HTTPStatusError(text, request=request, response=response)


Json = dict[str, Any]

_HOW = {"fieldManager": "local-controlplane", "force": "true"}
_PLURALS = {
    "Namespace": "namespaces",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}
_ATTEMPTS = 6
"""To apply again does no harm, and on a busy machine the largest definitions take longer than a
request waits."""
_TOKEN_SECONDS = 30 * 24 * 3600


def path_of(thing: Json) -> str:
    """Return the address of an object.

    Raises ValueError: objects of this kind are not brought in from here.
    """
    kind, metadata = thing["kind"], thing["metadata"]
    if kind not in _PLURALS:
        raise ValueError(f"kind: {kind!r} is not valid; valid: {', '.join(_PLURALS)}")
    version = thing["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{scope}/{_PLURALS[kind]}/{metadata['name']}"


def apply(api: httpx.Client, things: Iterable[Json]) -> None:
    """Create or change objects so that they are as given.

    By server-side apply: https://kubernetes.io/docs/reference/using-api/server-side-apply/.

    Raises httpx.HTTPError: the API refused one, or never answered; those before it are in place.
    """
    for thing in things:
        for left in reversed(range(_ATTEMPTS)):
            try:
                api.patch(path_of(thing), params=_HOW, headers=APPLY, json=thing)
                break
            except httpx.HTTPError as error:
                if not left or (isinstance(error, httpx.HTTPStatusError) and not error.response.is_server_error):
                    raise


def issue_token(api: httpx.Client, namespace: str, account: str) -> str:
    """Return a new token of a service account.

    Source:
    https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/.

    Raises httpx.HTTPStatusError: there is no such account.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_SECONDS},
    }
    return str(api.post(path, json=request).json()["status"]["token"])
