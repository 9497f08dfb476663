"""What it takes to run somebody's controller as a plain process, by its own manifests.

Pure but for reading files.

What its kustomization does there is done here: the namespace and name prefix, and the selectors
that keep webhooks away from what is no business of theirs. Webhooks are called at a loopback
address instead of through a Service. Not here: what the single controllers are given (`jobset`,
`kuberay` and the like), and starting them (`plane`).
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from standins.controlplane.layout import ControllerPorts
from standins.controlplane.product_manifests import ManifestBroken, read_folder, read_objects
from standins.processes.addresses import HOST

Json = dict[str, Any]

_NAMESPACED = ("Role", "RoleBinding", "ServiceAccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a controller's command line and configuration are made of."""

    ports: ControllerPorts
    certificates: Path
    """A folder with ``ca.crt``, ``tls.crt`` and ``tls.key``: the last two are what webhook servers
    look for."""
    settings_file: Path
    """Where the controller finds its configuration, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """An object which nobody stores, and the field of it that a webhook fills in."""

    path: str
    body: Json
    filled: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """The webhooks of a controller."""

    file: str
    """The manifest that configures them."""
    probe: Probe
    patches: Mapping[str, Json]
    """Fields of single webhooks that its kustomization sets, by the webhook's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCertificates:
    """What a controller that makes its certificates itself must find, to leave them as they are."""

    secret: str
    authority_name: str
    host_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A controller.

    Its manifests within its module, where it is installed, and how it is called.
    """

    name: str
    """Of the product, the program and the process."""
    namespace: str
    """Two that are installed into the same one are versions of the same, and cannot run
    together."""
    account: str
    arguments: Callable[[Setting], tuple[str, ...]]
    settings: Callable[[Setting], Json] | None = None
    prefix: str = ""
    """Of the names of all its objects but the definitions."""
    definitions: str
    rights: str
    webhooks: Webhooks | None = None
    certificates: OwnCertificates | None = None
    """None where it takes whatever certificate it is given."""
    converts: frozenset[str] = field(default_factory=frozenset)
    """Names of the definitions whose versions the controller converts into each other."""

    def read_definitions(self, manifests: Path, *, url: str = "", authority: bytes = b"") -> list[Json]:
        """Return the CustomResourceDefinitions.

        Args:
            manifests: The controller's manifests in the build.
            url: Of its webhook server, where it `converts` any.
            authority: The PEM certificate that this server's certificate is verified by.
        """
        found = read_folder(manifests / self.definitions)
        for each in found:
            if each["metadata"]["name"] in self.converts:
                each["spec"]["conversion"] = _conversion(url, authority)
        return found

    def read_rights(self, manifests: Path) -> list[Json]:
        """Return namespace, account, roles and bindings, named as in the controller's release."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        return [namespace, *(self._place(each) for each in read_folder(manifests / self.rights))]

    def read_webhooks(self, manifests: Path, *, url: str, authority: bytes) -> list[Json]:
        """Return the webhook configurations, to be called at `url`.

        None if the controller has no webhooks.

        Args:
            manifests: The controller's manifests in the build.
            url: For example ``https://127.0.0.1:9443``; each webhook's own path is added.
            authority: The PEM certificate that the webhook server's certificate is verified by.

        Raises ManifestBroken: a webhook is not of the expected shape, or one that is to be patched
        is missing.
        """
        if self.webhooks is None:
            return []
        path, missing = manifests / self.webhooks.file, set(self.webhooks.patches)
        found = read_objects(path)
        for configuration in found:
            configuration["metadata"]["name"] = self.prefix + configuration["metadata"]["name"]
            for webhook in configuration["webhooks"]:
                missing.discard(webhook["name"])
                service = webhook["clientConfig"].get("service")
                if service is None:
                    raise ManifestBroken(f"webhook {webhook['name']}: clientConfig has no service")
                webhook["clientConfig"] = _client(url + service["path"], authority)
                webhook.update(self.webhooks.patches.get(webhook["name"], {}))
        if missing:
            raise ManifestBroken(f"{path}: no webhook named {', '.join(sorted(missing))}")
        return found

    def _place(self, thing: Json) -> Json:
        metadata = thing["metadata"]
        metadata["name"] = self.prefix + metadata["name"]
        if thing["kind"] in _NAMESPACED:
            metadata["namespace"] = self.namespace
        if "roleRef" in thing:
            thing["roleRef"]["name"] = self.prefix + thing["roleRef"]["name"]
        for subject in thing.get("subjects", ()):
            subject |= {"name": self.prefix + subject["name"], "namespace": self.namespace}
        return thing


def render_secret(controller: Controller, folder: Path) -> list[Json]:
    """Return the Secret with a controller's own certificates, if it has any."""
    if controller.certificates is None:
        return []
    files = ("ca.crt", "ca.key", "tls.crt", "tls.key")
    data = {name: base64.b64encode((folder / name).read_bytes()).decode() for name in files}
    metadata = {"name": controller.certificates.secret, "namespace": controller.namespace}
    return [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}]


def webhook_url(ports: ControllerPorts) -> str:
    """Return where a controller's webhook server listens."""
    return f"https://{HOST}:{ports.webhooks}"


def _client(url: str, authority: bytes) -> Json:
    return {"url": url, "caBundle": base64.b64encode(authority).decode()}


def _conversion(url: str, authority: bytes) -> Json:
    webhook = {"clientConfig": _client(f"{url}/convert", authority), "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}
