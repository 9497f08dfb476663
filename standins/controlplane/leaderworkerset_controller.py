"""The LeaderWorkerSet controller."""

from standins.controlplane.controller import Controller, Json, Probe, Setting, Webhooks
from standins.processes.addresses import HOST

_OF_ITS_PODS = {"matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]}
_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
_PATCH = {"objectSelector": _OF_ITS_PODS, "rules": [_PODS]}
"""`config/webhook/mutating-patch.yaml` and its twin in the module."""


def _arguments(setting: Setting) -> tuple[str, ...]:
    return (f"--config={setting.settings_file}",)


def _settings(setting: Setting) -> Json:
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


def _minimal() -> Json:
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
            body=_minimal(),
            filled=("spec", "networkConfig"),
        ),
        patches={"mpod.kb.io": _PATCH, "vpod.kb.io": _PATCH},
    ),
    arguments=_arguments,
    settings=_settings,
)
