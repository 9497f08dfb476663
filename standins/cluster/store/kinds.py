"""The table of kinds that the cluster serves. A new kind is a new row.

Kinds without a controller (Deployment, ConfigMap) are stored and served, and nothing else happens.
"""

from dataclasses import dataclass, replace
from typing import Any


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
    categories: tuple[str, ...] = ()
    only_stored: bool = False
    """Nothing acts on it here, where a person would expect it."""

    @property
    def api_version(self) -> str:
        """Return `group/version`, or the bare version of the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Return `plural.group`, the name that error messages use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """Return the lower-case name of one object."""
        return self.kind.lower()


_ALL = ("all",)

POD = Kind("", "v1", "Pod", "pods", short_names=("po",), has_status=True, has_generation=True, categories=_ALL)
NODE = Kind("", "v1", "Node", "nodes", namespaced=False, short_names=("no",), has_status=True)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False, short_names=("ns",), has_status=True)
EVENT = Kind("", "v1", "Event", "events", short_names=("ev",))
SERVICE = Kind("", "v1", "Service", "services", short_names=("svc",), has_status=True, categories=_ALL)
ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", short_names=("sa",))
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", short_names=("cm",))
JOB = Kind(
    "batch", "v1", "Job", "jobs", has_status=True, has_generation=True, orphans_by_default=True, categories=_ALL
)
JOBSET = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", has_status=True, has_generation=True)
PRIORITY_CLASS = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, short_names=("pc",)
)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
_VOLUME = Kind(
    "", "v1", "PersistentVolume", "persistentvolumes", namespaced=False, short_names=("pv",), has_status=True
)
_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, short_names=("sc",))
_CLAIM = Kind(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    short_names=("pvc",),
    has_status=True,
    only_stored=True,
)


_APP = Kind("apps", "v1", "", "", has_status=True, has_generation=True, categories=_ALL, only_stored=True)


def _app(kind: str, plural: str, short_name: str) -> Kind:
    return replace(_APP, kind=kind, plural=plural, short_names=(short_name,))


KINDS: tuple[Kind, ...] = (
    POD, NODE, NAMESPACE, EVENT, SERVICE, ACCOUNT, CONFIG_MAP, JOB, JOBSET, PRIORITY_CLASS, LEASE,
    _CLAIM, _VOLUME, _CLASS, Kind("", "v1", "Secret", "secrets"),
    _app("Deployment", "deployments", "deploy"),
    _app("ReplicaSet", "replicasets", "rs"),
    _app("StatefulSet", "statefulsets", "sts"),
    _app("DaemonSet", "daemonsets", "ds"),
)  # fmt: skip

BY_PATH: dict[tuple[str, str, str], Kind] = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
BY_TYPE: dict[tuple[str, str], Kind] = {(kind.api_version, kind.kind): kind for kind in KINDS}

# https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
_GENERIC = ("metadata.name", "metadata.namespace")
_EXTRA: dict[str, tuple[str, ...]] = {
    POD.resource: ("spec.nodeName", "spec.schedulerName", "status.phase", "status.podIP"),
    NODE.resource: ("spec.unschedulable",),
    NAMESPACE.resource: ("status.phase",),
    EVENT.resource: (
        "involvedObject.apiVersion",
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "reason",
        "reportingComponent",
        "type",
    ),
}


def selectable(kind: Kind) -> tuple[str, ...]:
    """Return the fields that a `fieldSelector` may name for this kind."""
    return (*_GENERIC, *_EXTRA.get(kind.resource, ()))


def field_values(kind: Kind, body: dict[str, Any]) -> dict[str, str]:
    """Return the selectable fields of an object as text; an absent field is the empty text."""
    values = {path: _lookup(body, path) for path in selectable(kind)}
    if kind is NODE:
        values["spec.unschedulable"] = values["spec.unschedulable"].lower() or "false"
    return values


def _lookup(body: dict[str, Any], path: str) -> str:
    value: Any = body
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return "" if value is None else str(value)
