"""Brings objects into a Kubernetes API and takes tokens out of it, over the client that is also deployed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from shared.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.edges.kubernetes_api import KubernetesApi

Json = dict[str, Any]

APPLY = "application/apply-patch+yaml"
_OWNER = "local-controlplane"
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
"""To apply again does no harm, and on a busy machine the largest definitions take longer than a request waits."""
TOKEN_SECONDS = 30 * 24 * 3600


class _IssuedToken(msgspec.Struct):
    token: str


class _TokenAnswer(msgspec.Struct):
    status: _IssuedToken


def path_of(thing: Json) -> str:
    """Return the address of an object.

    Raises:
        ValueError: objects of this kind are not brought in from here.
    """
    kind, metadata = thing["kind"], thing["metadata"]
    if kind not in _PLURALS:
        raise ValueError(f"kind: {kind!r} is not valid; valid: {', '.join(_PLURALS)}")
    version = thing["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{scope}/{_PLURALS[kind]}/{metadata['name']}"


def apply(api: KubernetesApi, things: Iterable[Json]) -> None:
    """Create or change objects so that they are as given.

    By server-side apply: https://kubernetes.io/docs/reference/using-api/server-side-apply/.

    Raises:
        ProvisionerError: the API refused one, or never answered; those before it are in place.
    """
    for thing in things:
        for left in reversed(range(_ATTEMPTS)):
            try:
                api.patch(f"{path_of(thing)}?fieldManager={_OWNER}&force=true", thing, APPLY)
                break
            except Unavailable:
                if not left:
                    raise


def issue_token(api: KubernetesApi, namespace: str, account: str, *, seconds: int = TOKEN_SECONDS) -> str:
    """Return a new token of a service account.

    Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/.

    Raises:
        NotFound: there is no such account.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    return api.create(path, request, _TokenAnswer).status.token
