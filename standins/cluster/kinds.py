"""The table of kinds that the cluster serves. A new kind is a new row.

Kinds without a controller (Deployment, ConfigMap) are stored and served, and nothing else happens.
"""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One served kind: where it is found and what it is called."""

    api_version: str
    kind: str
    plural: str
    short_name: str = ""
    namespaced: bool = True
    has_status: bool = False
    has_generation: bool = False
    only_stored: bool = False  # nothing acts on it here, where a person would expect it

    @property
    def group(self) -> str:
        """Return the API group; the core group is the empty text."""
        return self.api_version.rpartition("/")[0]

    @property
    def resource(self) -> str:
        """Return `plural.group`, the name that error messages use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> str:
        """Return the path of its group and version, without a slash at both ends."""
        return f"apis/{self.api_version}" if self.group else f"api/{self.api_version}"


def _app(kind: str, plural: str, short_name: str) -> Kind:
    return Kind("apps/v1", kind, plural, short_name, has_status=True, has_generation=True, only_stored=True)


POD = Kind("v1", "Pod", "pods", "po", has_status=True, has_generation=True)
NODE = Kind("v1", "Node", "nodes", "no", namespaced=False, has_status=True)
NAMESPACE = Kind("v1", "Namespace", "namespaces", "ns", namespaced=False, has_status=True)
EVENT = Kind("v1", "Event", "events", "ev")
SERVICE = Kind("v1", "Service", "services", "svc", has_status=True)
JOB = Kind("batch/v1", "Job", "jobs", has_status=True, has_generation=True)
JOBSET = Kind("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", has_status=True, has_generation=True)
PRIORITY_CLASS = Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc", namespaced=False)
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
KINDS: tuple[Kind, ...] = (
    *(POD, NODE, NAMESPACE, EVENT, SERVICE, JOB, JOBSET, PRIORITY_CLASS, LEASE),
    Kind("v1", "ServiceAccount", "serviceaccounts", "sa"),
    Kind("v1", "ConfigMap", "configmaps", "cm"),
    Kind("v1", "Secret", "secrets"),
    Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", has_status=True, only_stored=True),
    Kind("v1", "PersistentVolume", "persistentvolumes", "pv", namespaced=False, has_status=True),
    Kind("storage.k8s.io/v1", "StorageClass", "storageclasses", "sc", namespaced=False),
    _app("Deployment", "deployments", "deploy"),
    _app("ReplicaSet", "replicasets", "rs"),
    _app("StatefulSet", "statefulsets", "sts"),
    _app("DaemonSet", "daemonsets", "ds"),
)
BY_PATH: dict[tuple[str, str], Kind] = {(kind.prefix, kind.plural): kind for kind in KINDS}
BY_TYPE: dict[tuple[str, str], Kind] = {(kind.api_version, kind.kind): kind for kind in KINDS}

# https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
_SELECTABLE: dict[Kind, tuple[str, ...]] = {
    POD: ("spec.nodeName", "spec.schedulerName", "status.phase", "status.podIP"),
    NAMESPACE: ("status.phase",),
    EVENT: (
        *("reason", "reportingComponent", "type"),
        *(f"involvedObject.{field}" for field in ("apiVersion", "kind", "namespace", "name", "uid")),
    ),
}


def selectable(kind: Kind) -> tuple[str, ...]:
    """Return the fields that a `fieldSelector` may name for this kind."""
    return ("metadata.name", "metadata.namespace", *_SELECTABLE.get(kind, ()))


def field_values(kind: Kind, body: Json) -> dict[str, str]:
    """Return the selectable fields of an object as text; an absent field is the empty text."""
    return {path: _look_up(body, path) for path in selectable(kind)}


def _look_up(body: Json, path: str) -> str:
    value: Any = body
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return "" if value is None else str(value)
