"""The table of kinds that the cluster serves: adding a kind is adding a row.

A row says names, scope and subresources. What a write of a kind turns into is in `admission`, what it prints as
in `api.columns`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One served kind: where it is found and what it is called."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    has_status: bool = False
    has_generation: bool = False
    orphans_by_default: bool = False
    stored_as: str = ""
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """Return `group/version`, or the bare version of the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Return `plural.group`, the name that error messages use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage(self) -> str:
        """Return the key under which objects are kept; two rows may share one."""
        return self.stored_as or self.resource

    @property
    def singular(self) -> str:
        """Return the lower-case name of one object."""
        return self.kind.lower()


_RBAC = "rbac.authorization.k8s.io"
_ALL = ("all",)

POD = Kind("", "v1", "Pod", "pods", short_names=("po",), has_status=True, has_generation=True, categories=_ALL,
           subresources=("binding", "eviction", "log"))  # fmt: skip
NODE = Kind("", "v1", "Node", "nodes", namespaced=False, short_names=("no",), has_status=True)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False, short_names=("ns",), has_status=True)
EVENT = Kind("", "v1", "Event", "events", short_names=("ev",))
SERVICE = Kind("", "v1", "Service", "services", short_names=("svc",), has_status=True, categories=_ALL)
CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", short_names=("pvc",), has_status=True)
JOB = Kind(
    "batch", "v1", "Job", "jobs", has_status=True, has_generation=True, orphans_by_default=True, categories=_ALL
)
JOBSET = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", has_status=True, has_generation=True)
DEFINITION = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions",
                  namespaced=False, short_names=("crd", "crds"), has_status=True, has_generation=True)  # fmt: skip
PRIORITY_CLASS = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, short_names=("pc",)
)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")

KINDS: tuple[Kind, ...] = (
    POD, NODE, NAMESPACE, EVENT, SERVICE, CLAIM, JOB, JOBSET, DEFINITION, PRIORITY_CLASS, LEASE,
    Kind("events.k8s.io", "v1", "Event", "events", short_names=("ev",), stored_as=EVENT.resource),
    Kind("", "v1", "ConfigMap", "configmaps", short_names=("cm",)),
    Kind("", "v1", "Secret", "secrets"),
    Kind("", "v1", "ServiceAccount", "serviceaccounts", short_names=("sa",)),
    Kind("", "v1", "Endpoints", "endpoints", short_names=("ep",)),
    Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False, short_names=("pv",),
         has_status=True),
    Kind("", "v1", "ResourceQuota", "resourcequotas", short_names=("quota",), has_status=True),
    Kind("", "v1", "LimitRange", "limitranges", short_names=("limits",)),
    Kind("apps", "v1", "Deployment", "deployments", short_names=("deploy",), has_status=True, has_generation=True,
         categories=_ALL),
    Kind("apps", "v1", "ReplicaSet", "replicasets", short_names=("rs",), has_status=True, has_generation=True,
         categories=_ALL),
    Kind("apps", "v1", "StatefulSet", "statefulsets", short_names=("sts",), has_status=True, has_generation=True,
         categories=_ALL),
    Kind("apps", "v1", "DaemonSet", "daemonsets", short_names=("ds",), has_status=True, has_generation=True,
         categories=_ALL),
    Kind("batch", "v1", "CronJob", "cronjobs", short_names=("cj",), has_status=True, has_generation=True,
         categories=_ALL),
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", short_names=("pdb",), has_status=True,
         has_generation=True),
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", short_names=("netpol",),
         has_generation=True),
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, short_names=("sc",)),
    Kind(_RBAC, "v1", "Role", "roles"),
    Kind(_RBAC, "v1", "RoleBinding", "rolebindings"),
    Kind(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False),
    Kind(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    Kind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
         namespaced=False),
    Kind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations",
         namespaced=False),
)  # fmt: skip

BY_PATH: dict[tuple[str, str, str], Kind] = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
BY_TYPE: dict[tuple[str, str], Kind] = {(kind.api_version, kind.kind): kind for kind in KINDS}
