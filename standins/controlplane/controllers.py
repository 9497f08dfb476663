"""The further controllers of the real control plane: how each is run, and when it is ready.

What every controller has is `Controller`; the table says which of them there are.
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from standins.controlplane.chart import ManifestBroken, read_folder, read_objects
from standins.controlplane.layout import ControllerPorts
from standins.controlplane.recipe import UnknownAddition, find_additions
from standins.kit.addresses import HOST

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


_OF_JOBSETS_PODS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
POD_WEBHOOKS = ("mpod.kb.io", "vpod.kb.io")


def _jobset_arguments(setting: Setting) -> tuple[str, ...]:
    return (f"--config={setting.settings_file}", "--metrics-bind-address=0")


def _jobset_settings(setting: Setting) -> Json:
    """Source: https://jobset.sigs.k8s.io/docs/reference/jobset-config.v1alpha1/."""
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": HOST, "port": setting.ports.webhooks, "certDir": str(setting.certificates)},
        "health": {"healthProbeBindAddress": f"{HOST}:{setting.ports.health}"},
        # Alpha, and off by default: without it no JobSet may ask for a restart in place.
        "featureGates": {"InPlaceRestart": True},
    }


def _jobset_minimal() -> Json:
    pod = {"containers": [{"name": "probe", "image": "probe"}]}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "probe"},
        "spec": {"replicatedJobs": [{"name": "probe", "template": {"spec": {"template": {"spec": pod}}}}]},
    }


JOBSET = Controller(
    name="jobset",
    namespace="jobset-system",
    prefix="jobset-",
    account="jobset-controller-manager",
    definitions="config/components/crd/bases",
    rights="config/components/rbac",
    webhooks=Webhooks(
        file="config/components/webhook/manifests.yaml",
        probe=Probe(
            path="/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
            body=_jobset_minimal(),
            filled=("spec", "network"),
        ),
        patches={name: {"objectSelector": _OF_JOBSETS_PODS} for name in POD_WEBHOOKS},
    ),
    arguments=_jobset_arguments,
    settings=_jobset_settings,
)


def _kuberay_arguments(setting: Setting) -> tuple[str, ...]:
    """Feature gates stay as each version has them."""
    return (
        "--enable-leader-election=false",
        "--metrics-addr=0",
        f"--health-probe-bind-address={HOST}:{setting.ports.health}",
        # As for Kubernetes' own controllers: a burst of pods should take seconds.
        "--qps=300",
        "--burst=600",
    )


def _kuberay(name: str) -> Controller:
    return Controller(
        name=name,
        namespace="kuberay-system",
        account="kuberay-operator",
        definitions="config/crd/bases",
        rights="config/rbac",
        arguments=_kuberay_arguments,
    )


KUBERAY_1_5 = _kuberay("kuberay-1.5")
KUBERAY_1_6 = _kuberay("kuberay-1.6")


_NAMESPACE = "kueue-system"
_SECRET, _SERVICE = "kueue-webhook-server-cert", "kueue-webhook-service"
_FRAMEWORKS = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "pod",
    "leaderworkerset.x-k8s.io/leaderworkerset",
)
"""Of those that Kueue knows, the ones that there are controllers of here. Its own configuration
leaves the last two off: they hold pods by a scheduling gate instead of suspending what makes
them."""
_OUTSIDE = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", _NAMESPACE]}
    ]
}
_KEPT_OUT = ("mpod", "vpod", "mdeployment", "vdeployment", "mstatefulset", "vstatefulset")
"""Webhooks that must not stop Kueue itself from starting
(`config/components/webhook/kustomization.yaml`)."""


def _name_settings(setting: Setting) -> tuple[str, ...]:
    return (f"--config={setting.settings_file}",)


def _kueue_settings(setting: Setting) -> Json:
    """Source: https://kueue.sigs.k8s.io/docs/reference/kueue-config.v1beta2/."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": _NAMESPACE,
        "leaderElection": {"leaderElect": False},
        # Off would mean certificates for metrics at a fixed place on this machine.
        "internalCertManagement": {"enable": True, "webhookServiceName": _SERVICE, "webhookSecretName": _SECRET},
        "webhook": {"host": HOST, "port": setting.ports.webhooks, "certDir": str(setting.certificates)},
        "health": {"healthProbeBindAddress": f"{HOST}:{setting.ports.health}"},
        "metrics": {"bindAddress": "0"},
        "clientConnection": {"qps": 300, "burst": 600},
        "featureGates": {"VisibilityOnDemand": False},
        # Without a weight all queues are equal, and what is within a queue's own quota stays as
        # without it.
        "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
        "integrations": {"frameworks": list(_FRAMEWORKS)},
    }


def _kueue_minimal() -> Json:
    pod = {"restartPolicy": "Never", "containers": [{"name": "probe", "image": "probe"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "probe", "labels": {"kueue.x-k8s.io/queue-name": "probe"}},
        "spec": {"template": {"spec": pod}},
    }


KUEUE_0_15 = Controller(
    name="kueue-0.15",
    namespace=_NAMESPACE,
    prefix="kueue-",
    account="kueue-controller-manager",
    definitions="config/components/crd/bases",
    rights="config/components/rbac",
    webhooks=Webhooks(
        file="config/components/webhook/manifests.yaml",
        # A Job that names a queue is suspended at its creation.
        probe=Probe(
            path="/apis/batch/v1/namespaces/default/jobs", body=_kueue_minimal(), filled=("spec", "suspend")
        ),
        patches={f"{name}.kb.io": {"namespaceSelector": _OUTSIDE} for name in _KEPT_OUT},
    ),
    certificates=OwnCertificates(
        secret=_SECRET, authority_name="kueue-ca", host_name=f"{_SERVICE}.{_NAMESPACE}.svc"
    ),
    converts=frozenset(
        f"{each}.kueue.x-k8s.io"
        for each in ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
    ),
    arguments=_name_settings,
    settings=_kueue_settings,
)


_OF_ITS_PODS = {"matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]}
_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
_PATCH = {"objectSelector": _OF_ITS_PODS, "rules": [_PODS]}
"""`config/webhook/mutating-patch.yaml` and its twin in the module."""


def _lws_settings(setting: Setting) -> Json:
    """Source: https://lws.sigs.k8s.io/docs/reference/."""
    return {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": HOST, "port": setting.ports.webhooks, "certDir": str(setting.certificates)},
        "health": {"healthProbeBindAddress": f"{HOST}:{setting.ports.health}"},
        "metrics": {"bindAddress": "0"},
    }


def _lws_minimal() -> Json:
    pod = {"containers": [{"name": "probe", "image": "probe"}]}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "probe"},
        "spec": {"leaderWorkerTemplate": {"size": 1, "workerTemplate": {"spec": pod}}},
    }


LWS_0_7 = Controller(
    name="lws-0.7",
    namespace="lws-system",
    prefix="lws-",
    account="lws-controller-manager",
    definitions="config/crd/bases",
    rights="config/rbac",
    webhooks=Webhooks(
        file="config/webhook/manifests.yaml",
        probe=Probe(
            path="/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
            body=_lws_minimal(),
            filled=("spec", "networkConfig"),
        ),
        patches={"mpod.kb.io": _PATCH, "vpod.kb.io": _PATCH},
    ),
    arguments=_name_settings,
    settings=_lws_settings,
)


CONTROLLERS = {each.name: each for each in (KUBERAY_1_5, KUBERAY_1_6, LWS_0_7, KUEUE_0_15)}


class ControllersClash(Exception):
    """Two controllers that were chosen cannot run in one cluster; the text names them."""


def choose_controllers(names: Iterable[str]) -> tuple[Controller, ...]:
    """Return the further controllers of these names, each once.

    Raises:
        UnknownAddition: there is none of a name, or it is no part of a control plane.
        ControllersClash: two of them are versions of the same.
    """
    products = find_additions(names)
    if apart := [product.name for product in products if product.name not in CONTROLLERS]:
        raise UnknownAddition(
            f"controller: {', '.join(apart)} is built here, but needs a cloud to run; "
            f"valid: {', '.join(CONTROLLERS)}"
        )
    chosen = tuple(CONTROLLERS[product.name] for product in products)
    owners: dict[str, str] = {}
    for each in chosen:
        if other := owners.get(each.namespace):
            raise ControllersClash(f"controllers: {other} and {each.name} cannot run in one cluster; choose one")
        owners[each.namespace] = each.name
    return chosen
