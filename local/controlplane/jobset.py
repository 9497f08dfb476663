"""JobSet's own manifests, changed as little as running it as a plain process asks for. Pure but for reading files.

What its kustomization does there is done here: the namespace and name prefix, and the selector that keeps the pod
webhooks away from pods of others. Webhooks are called at a loopback address instead of through a Service.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from local.controlplane.manifests import ManifestBroken, read_folder

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

NAMESPACE = "jobset-system"
PREFIX = "jobset-"
ACCOUNT = f"{PREFIX}controller-manager"
POD_WEBHOOKS = ("mpod.kb.io", "vpod.kb.io")
_OF_JOBSETS_PODS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
_WEBHOOK_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_NAMESPACED = ("Role", "RoleBinding", "ServiceAccount")


def read_definitions(manifests: Path) -> list[Json]:
    """Return the CustomResourceDefinitions."""
    return read_folder(manifests / "config/components/crd/bases")


def read_rights(manifests: Path) -> list[Json]:
    """Return JobSet's namespace, account, roles and bindings, named as its release names them."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return [namespace, *(_placed(each) for each in read_folder(manifests / "config/components/rbac"))]


def read_webhooks(manifests: Path, *, url: str, authority: bytes) -> list[Json]:
    """Return the webhook configurations, to be called at `url`.

    Args:
        manifests: JobSet's manifests in the build.
        url: For example ``https://127.0.0.1:9443``; each webhook's own path is added.
        authority: The PEM certificate that the webhook server's certificate is verified by.

    Raises:
        ManifestBroken: a webhook is not of the expected shape, or one of the pods' is missing.
    """
    found = [
        each for each in read_folder(manifests / "config/components/webhook") if each["kind"] in _WEBHOOK_KINDS
    ]
    bundle = base64.b64encode(authority).decode()
    named = set()
    for configuration in found:
        configuration["metadata"]["name"] = PREFIX + configuration["metadata"]["name"]
        for webhook in configuration["webhooks"]:
            named.add(webhook["name"])
            service = webhook["clientConfig"].get("service")
            if service is None:
                raise ManifestBroken(f"webhook {webhook['name']}: clientConfig has no service")
            webhook["clientConfig"] = {"url": url + service["path"], "caBundle": bundle}
            if webhook["name"] in POD_WEBHOOKS:
                webhook["objectSelector"] = _OF_JOBSETS_PODS
    if missing := set(POD_WEBHOOKS) - named:
        raise ManifestBroken(f"{manifests}: no webhook named {', '.join(sorted(missing))}")
    return found


def minimal_jobset(name: str) -> Json:
    """Return a JobSet that leaves everything to defaults, for asking whether the webhooks answer."""
    pod = {"containers": [{"name": "probe", "image": "probe"}]}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "probe", "template": {"spec": {"template": {"spec": pod}}}}]},
    }


def _placed(thing: Json) -> Json:
    metadata = thing["metadata"]
    metadata["name"] = PREFIX + metadata["name"]
    if thing["kind"] in _NAMESPACED:
        metadata["namespace"] = NAMESPACE
    if "roleRef" in thing:
        thing["roleRef"]["name"] = PREFIX + thing["roleRef"]["name"]
    for subject in thing.get("subjects", ()):
        subject |= {"name": PREFIX + subject["name"], "namespace": NAMESPACE}
    return thing
