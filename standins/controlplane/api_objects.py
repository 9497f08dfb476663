"""Brings objects into a Kubernetes API, and takes tokens of service accounts out of it."""

from collections.abc import Iterable
from typing import Any

import httpx

from standins.controlplane.api_client import APPLY

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
