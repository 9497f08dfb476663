"""Every setting of the functions, typed, with its unit, default and the reason for the default.

Parsed once at the border by `shared.configuration`; nothing here reads an environment. There is no setting for
internal mechanics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from shared.core.kinds.table import KIND_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable


class Mode(StrEnum):
    """How far the provisioner may go."""

    ACTIVE = "active"
    """Creates and deletes."""
    NO_CREATE = "no-create"
    """Deletes what is over, creates nothing."""
    REPORT_ONLY = "report-only"
    """Changes nothing; decides, logs and explains as if it would."""


class Credentials(StrEnum):
    """How the functions prove who they are."""

    GOOGLE = "google"
    """The Google account of the environment (metadata server, or application default credentials)."""
    ANONYMOUS = "anonymous"
    """None at all: for stand-ins on a laptop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster that this deployment serves."""

    endpoint: str
    """URL of the Kubernetes API; on GKE the DNS endpoint, ``https://UID.REGION.gke.goog``."""
    zone: str = ""
    """Zone of new pools for pods that do not select one; multi-host slices live in exactly one zone."""
    ca_file: str = ""
    """PEM file of the API's authority; empty for public roots, as the DNS endpoint uses."""
    token_file: str = ""
    """File with a bearer token for the Kubernetes API; empty uses the account that `credentials` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything an operator can set; lists are comma-separated or JSON, maps are JSON."""

    clusters: dict[str, ClusterSettings]
    """``projects/P/locations/L/clusters/C`` to its settings. Required. Events of other clusters are refused."""

    kinds: tuple[str, ...] = KIND_NAMES
    """Kinds of workload that are served. Default: every kind that this version knows. Pools of a kind that is left
    out are kept."""
    mode: Mode = Mode.ACTIVE
    """``active``, ``no-create`` or ``report-only``."""
    namespace_modes: dict[str, Mode] = field(default_factory=dict)
    """Namespace to mode, where it differs from `mode`; the stricter of the two holds."""

    allowed_namespaces: tuple[str, ...] = ("*",)
    """Patterns of namespaces that may have pools. Default: all, as RBAC already says who may create pods."""
    allowed_accelerators: tuple[str, ...] = ("*",)
    """Patterns of accelerator labels, for example ``tpu-v6e-*`` or ``nvidia-l4``."""
    allowed_node_service_accounts: tuple[str, ...] = ()
    """Patterns that the annotation ``node-service-account`` may name. Default: none; a pod's author must not
    choose an identity that the operator did not list."""
    allowed_node_networks: tuple[str, ...] = ()
    """Patterns of ``network:subnetwork`` that the annotation ``additional-node-networks`` may name. Default:
    none."""
    allowed_label_prefixes: tuple[str, ...] = ("*",)
    """Patterns of label keys that the annotation ``copy-labels`` may copy to nodes. Owner labels never are."""
    copy_labels: tuple[str, ...] = ()
    """Pod label keys that are always copied to the nodes of its pool."""

    limit_chips: int = 0
    """Chips in all pools of one cluster, those being created included; 0: no limit (and saves a list call)."""
    limit_chips_per_namespace: int = 0
    """The same per namespace of the workload."""
    limit_slices: int = 0
    """Pools of one cluster; 0 means no limit."""
    sweep_deletions_max: int = 50
    """A sweep that would delete more deletes nothing and raises the alarm: likelier our mistake than an exodus."""
    grace_seconds: int = 300
    """How long a suspended workload, or a degraded pool, is waited for. Five minutes: longer than a preemption and
    re-admission by a queue, far shorter than a create."""
    creation_seconds_max: int = 3600
    """A pool still being created after this is given up. A stockout alone holds a create for 35 minutes."""
    drain_seconds_max: int = 900
    """How long pods of an over workload may hold its pool: the longest usual termination grace."""
    replace_differing_pools: bool = False
    """Delete and re-create a running pool whose demand has changed, instead of refusing. Of workloads whose slices
    come and go while they live, an empty one is replaced in any case."""

    force_on_demand: bool = False
    """Ignore spot and reservation selectors; meant for clusters whose webhook strips them from the pods."""
    node_service_account: str = ""
    """Google account of the nodes; empty means the project's default Compute Engine account."""
    node_tags: tuple[str, ...] = ()
    """Network tags of the nodes."""
    node_disk_type: str = ""
    """Boot disk type; used where the machine accepts it, else the machine's default."""
    node_disk_size_gb: int = 0
    """Boot disk size in GB; 0 leaves GKE's default of 100."""
    node_secondary_boot_disk: str = ""
    """``projects/P/global/images/I``: a container image cache; image streaming is turned on with it."""
    node_additional_networks: tuple[str, ...] = ()
    """``network:subnetwork`` pairs that every node gets."""
    node_boot_disk_kms_key: str = ""
    """Full resource name of the key for boot disks."""
    node_confidential_storage: bool = False
    """Confidential boot disks; needs `node_boot_disk_kms_key`."""
    node_secure_boot: bool = True
    """Shielded nodes with secure boot."""
    node_max_pods: int = 15
    """Pods per node. 15 takes a /27 of pod addresses per node; GKE's 110 takes a /24 and exhausts the range."""
    node_workload_identity: bool = True
    """Metadata server for Workload Identity (``GKE_METADATA``) on the nodes."""
    resource_labels: dict[str, str] = field(default_factory=dict)
    """Labels of the virtual machines, for billing."""
    max_run_duration_seconds: int = 604_800
    """Longest life of flex-start nodes; GKE allows 10 minutes to 7 days."""
    workload_policy_prefix: str = "tpu-provisioner-"
    """Name of a workload policy = this prefix + the topology, as the Go TPU Provisioner expects."""

    credentials: Credentials = Credentials.GOOGLE
    """``google``, or ``anonymous`` against stand-ins."""
    gke_endpoint: str = "https://container.googleapis.com"
    """Base URL of the GKE API."""
    compute_endpoint: str = "https://compute.googleapis.com"
    """Base URL of the Compute Engine API, for the size of elastic pools."""
    pubsub_endpoint: str = "https://pubsub.googleapis.com"
    """Base URL of the Pub/Sub API, for dead letters."""
    dead_letter_topic: str = ""
    """``projects/P/topics/T``: where a message that can never succeed is kept with its reason. Empty: it is
    refused to Pub/Sub instead, whose own dead-letter policy keeps it."""

    @property
    def limited(self) -> bool:
        """Return whether any cap is set, so that what the cluster's pools hold must be known."""
        return bool(self.limit_chips or self.limit_chips_per_namespace or self.limit_slices)

    def find_mode(self, namespace: str) -> Mode:
        """Return the stricter of the deployment's mode and the namespace's."""
        strictness = [Mode.ACTIVE, Mode.NO_CREATE, Mode.REPORT_ONLY]
        return max(self.mode, self.namespace_modes.get(namespace, self.mode), key=strictness.index)


def is_allowed(value: str, patterns: Iterable[str]) -> bool:
    """Return whether a value fits one of an allow-list's patterns (``*`` matches any text)."""
    return any(fnmatchcase(value, pattern) for pattern in patterns)
