"""The JobSet controller, which every control plane may have from its base build."""

from standins.controlplane.controller import Controller, Json, Probe, Setting, Webhooks
from standins.processes.addresses import HOST

_OF_JOBSETS_PODS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
POD_WEBHOOKS = ("mpod.kb.io", "vpod.kb.io")


def _arguments(setting: Setting) -> tuple[str, ...]:
    return (f"--config={setting.settings_file}", "--metrics-bind-address=0")


def _settings(setting: Setting) -> Json:
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


def _minimal() -> Json:
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
            body=_minimal(),
            filled=("spec", "network"),
        ),
        patches={name: {"objectSelector": _OF_JOBSETS_PODS} for name in POD_WEBHOOKS},
    ),
    arguments=_arguments,
    settings=_settings,
)
