"""The Kueue controller, for the workloads that name a queue.

These are Jobs, JobSets, RayClusters, RayJobs, LeaderWorkerSets and pods.

It insists on certificates that it could have made itself, and leaves alone those that it finds.
Left off, because nothing here asks for it: what shows pending workloads through an aggregated API.
"""

from standins.controlplane.controller import Controller, Json, OwnCertificates, Probe, Setting, Webhooks
from standins.processes.addresses import HOST

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


def _arguments(setting: Setting) -> tuple[str, ...]:
    return (f"--config={setting.settings_file}",)


def _settings(setting: Setting) -> Json:
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


def _minimal() -> Json:
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
        probe=Probe(path="/apis/batch/v1/namespaces/default/jobs", body=_minimal(), filled=("spec", "suspend")),
        patches={f"{name}.kb.io": {"namespaceSelector": _OUTSIDE} for name in _KEPT_OUT},
    ),
    certificates=OwnCertificates(
        secret=_SECRET, authority_name="kueue-ca", host_name=f"{_SERVICE}.{_NAMESPACE}.svc"
    ),
    converts=frozenset(
        f"{each}.kueue.x-k8s.io"
        for each in ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
    ),
    arguments=_arguments,
    settings=_settings,
)
