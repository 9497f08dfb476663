"""Every setting of the functions: the type, the unit, the default and the reason for the default.

`shared.environment` reads them from environment variables; nothing here reads an environment.
Internal mechanics have no setting. The classes of rules (`Valid`) serve the other programs'
settings too.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

from shared.capacity_texts import CapacityPolicy  # noqa: TC001 -- read as types at run time
from shared.kinds.table import KIND_NAMES
from shared.model.needs import NodeSource  # noqa: TC001 -- the same
from shared.model.times import COUNT_MAX
from shared.shapes.catalogue import DISK_GB_DEFAULT, DISK_GB_MAX, MIB, Room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Valid:
    """A rule for the value of one setting; the field's type is annotated with it."""

    text: str
    """What is valid, for the person who set something else."""
    accepts: Callable[[Any], bool]
    """Return whether a value of the right type is valid."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A setting that is wrong in itself or together with others, although its type is right."""

    field: str
    what: str
    valid: str = ""


def between(least: int, most: int) -> Valid:
    """Return the rule for a number with a least and a greatest value."""
    return Valid(f"a number from {least} to {most}", lambda number: least <= number <= most)


def matching(pattern: str, text: str) -> Valid:
    """Return the rule for a text of one form."""
    return Valid(text, lambda value: re.fullmatch(pattern, value) is not None)


CLUSTER = matching(
    r"projects/[^/\s]+/locations/[^/\s]+/clusters/[^/\s]+",
    "projects/PROJECT/locations/LOCATION/clusters/NAME",
)
URL = matching(r"https?://[^/\s?#]+(/[^\s?#]*)?", "https://HOST or http://HOST")
_AUTHORITY = matching(
    "(LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t[A-Za-z0-9+/=]+)?", "a certificate as PEM in base64"
)
KindNames = Annotated[
    tuple[str, ...],
    Valid(
        f"one or more of {', '.join(KIND_NAMES)}, separated by commas",
        lambda names: bool(names) and set(names) <= set(KIND_NAMES),
    ),
]
_NoNegative = Annotated[int, between(0, COUNT_MAX)]
_Positive = Annotated[int, between(1, COUNT_MAX)]
_IDLE_SECONDS = between(0, 604_800)
FLEX_WAIT_SECONDS = between(0, 604_800)
_NAMESPACE = matching("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "the name of a namespace")
_POLICIES = Valid(
    'a list like [{"namespaces": ["team-*"], "priorities": [{"spot": true}, {}]}]', lambda _: True
)
_SOURCES = Valid(
    '{"on-demand": "creation", "spot": "autoscaler"}, with on-demand, spot and reservation as keys',
    lambda sources: set(sources) <= {"on-demand", "spot", "reservation"},
)
_PODS_MAX = 256
"""Per node: https://cloud.google.com/kubernetes-engine/quotas."""
_PODS = between(8, _PODS_MAX)
_WORKLOAD_PODS_MAX = 128
"""Of these; the rest is for system pods."""
_RUN_SECONDS = between(600, 604_800)
"""https://cloud.google.com/kubernetes-engine/docs/concepts/dws"""


class Credentials(StrEnum):
    """The identity that the functions use."""

    GOOGLE = "google"
    """The Google account of the environment: metadata server, or application default
    credentials."""
    ANONYMOUS = "anonymous"
    """No identity: for local stand-ins only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster that this deployment serves."""

    endpoint: str  # assumes: dns-endpoint
    """URL of the Kubernetes API; on GKE the DNS endpoint, ``https://UID.REGION.gke.goog``."""
    zone: str = ""
    """Zone of new pools for pods that select no zone. A multi-host slice is in exactly one zone."""
    ca_file: str = ""
    """PEM file of the API's certificate authority. Empty: `ca_data`, else the public roots, as for
    the DNS endpoint."""
    ca_data: str = ""
    """The same in base64: GKE's `masterAuth.clusterCaCertificate`. A private endpoint needs it."""
    token_file: str = ""
    """File with a bearer token for the Kubernetes API. Empty: the account that `credentials`
    names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that an operator can set. Lists are comma-separated or JSON, maps are JSON."""

    clusters: Annotated[
        dict[str, ClusterSettings],
        Valid(f'{{"{CLUSTER.text}": {{"endpoint": "https://…"}}}}', lambda _: True),
    ]
    """From ``projects/P/locations/L/clusters/C`` to its settings. Events of other clusters are
    refused."""

    kinds: KindNames = KIND_NAMES
    """Kinds of workload that are served; by default all. Pools of other kinds are kept."""
    own_namespace: Annotated[str, _NAMESPACE] = "tpu-provisioner"
    """The provisioner's own namespace in every cluster. Its label
    ``tpu-provisioner.cloud.google.com/mode`` holds for that cluster within seconds: the emergency
    stop. The same label on the namespace of a workload holds for that namespace."""

    allowed_namespaces: tuple[str, ...] = ("*",)
    """Patterns of namespaces that may have pools. Default: all, because RBAC limits who creates
    pods."""
    allowed_accelerators: tuple[str, ...] = ("*",)
    """Patterns of accelerator labels, for example ``tpu-v6e-*`` or ``nvidia-l4``."""
    allowed_node_service_accounts: tuple[str, ...] = ()
    """Patterns that the annotation ``node-service-account`` may name. Default: none, because the
    author of a pod must not choose an identity that the operator did not list."""
    allowed_node_networks: tuple[str, ...] = ()
    """Patterns of ``network:subnetwork`` that the annotation ``additional-node-networks`` may name.
    Default: none."""
    allowed_reservations: tuple[str, ...] = ("*",)
    """Patterns of reservations of the cluster's own project that pods may select. Default: all,
    because RBAC limits who creates pods."""
    allowed_shared_reservations: tuple[str, ...] = ()
    """Patterns of ``PROJECT/RESERVATION`` that pods may select outside the cluster's own project.
    Default: none, because the author of a pod must not use up another project's reservation."""
    capacity_policies: Annotated[tuple[CapacityPolicy, ...], _POLICIES] = ()
    """The first policy that fits a pod's namespace and accelerator lists the ways to get its
    capacity, the best first, in the words of GKE's ComputeClass. Where pods have the annotation
    ``capacity``, that list counts instead. JSON or YAML."""
    nodes_from: Annotated[dict[str, NodeSource], _SOURCES] = field(default_factory=dict)
    """From a tier to what makes the nodes of its pools: ``creation``, or GKE's ``autoscaler``,
    which says within a minute or two that there is no capacity. Default: the autoscaler for spot
    and on-demand where a list of capacity has another way, else creation. Flex-start and elastic
    pools always have the autoscaler. These never have it: several GPU machines for one slice, and
    pools that are made before pods exist."""
    allowed_label_prefixes: tuple[str, ...] = ("*",)
    """Patterns of label keys that the annotation ``copy-labels`` may copy to nodes. Labels that
    name the owner of a pool are never copied."""
    copy_labels: tuple[str, ...] = ()
    """Keys of pod labels that are always copied to the nodes of the pod's pool."""

    kueue_admission_check: bool = False
    """Answer Kueue's admission checks whose controller is
    ``tpu-provisioner.cloud.google.com/capacity``: a workload with quota gets node pools for all of
    its slices before it is resumed. It needs a role of its own."""

    limit_chips: _NoNegative = 0
    """Chips in all pools of one cluster, and in those that are about to be created. 0: no limit.
    The spec bounds each workload in any case, and the quota bounds the project."""
    limit_chips_per_namespace: _NoNegative = 0
    """The same for each namespace of workloads."""
    deletions_per_minute_max: _Positive = 50
    """How many pools of a cluster are deleted in a minute at most because an owner is absent or a
    pool failed. The oldest go first, the next tick continues, and an alert is raised, because a
    mistake is more likely than so many. Pools whose owner is found and says that it is over or
    suspended are not counted."""
    grace_seconds: _Positive = 300
    """One wait, in seconds, for what may still change by itself: how long a workload is suspended,
    or without quota, before its pools are deleted. Five minutes are longer than preemption and
    re-admission by a queue, and much shorter than a create."""
    creation_seconds_max: _Positive = 3600  # assumes: stockout-time
    """A pool that lacks nodes for so long without a word of GKE has failed. A stockout takes 35
    minutes."""
    idle_seconds: Annotated[int, _IDLE_SECONDS] = 0
    """How long the pool of a slice stays without use after its workload is over, for the next
    workload of its shape. 0: not at all, because an idle pool costs as much as a used one. Pools
    that are pinned or elastic never stay. The annotation ``idle-seconds`` of a pod replaces it."""
    idle_seconds_max: Annotated[int, _IDLE_SECONDS] = 0
    """The most that the annotation may ask for, if that is more than `idle_seconds`. A pool never
    stays for longer than the larger of the two, whatever was allowed when it was created."""
    force_on_demand: bool = False
    """Ignore spot and reservation selectors, for clusters whose webhook removes them from the
    pods."""
    node_service_account: str = ""
    """Google account of the nodes. Empty: the project's default Compute Engine account."""
    node_tags: tuple[str, ...] = ()
    """Network tags of the nodes."""
    node_disk_type: str = ""
    """Boot disk type, for machines that accept it. Others get the machine's default."""
    node_disk_size_gb: _NoNegative = 0
    """Boot disk size in GB. 0: GKE's default of 100."""
    node_disk_size_gb_max: Annotated[int, between(0, DISK_GB_MAX)] = 1000
    """The largest boot disk in GB that pods get if they request more ephemeral storage than the
    usual disk leaves. 100 GB leave 43.8 GiB. A larger `node_disk_size_gb` counts instead, so 0
    means: never a larger disk. 1,000 GB leave 729 GiB, at a small part of the price of
    accelerators."""
    node_daemonsets_cpu_millis: _NoNegative = 300
    """Thousandths of a vCPU that the DaemonSets of the cluster request on each node. The default is
    what GKE's own request in any cluster; add your own. With what GKE reserves, it is not left to
    the pods of a workload."""
    node_daemonsets_memory_mib: _NoNegative = 500
    """MiB of memory that they request on each node, as `node_daemonsets_cpu_millis`."""
    node_secondary_boot_disk: str = ""
    """``projects/P/global/images/I``: a container image cache. It also turns on image streaming."""
    node_resources: tuple[str, ...] = ()
    """Patterns of extended resources that something in the cluster gives to every new node, beside
    those of accelerators. A pod that requests another one is refused, because no node has it."""
    node_additional_networks: tuple[str, ...] = ()
    """``network:subnetwork`` pairs that every node gets."""
    node_boot_disk_kms_key: str = ""
    """Full resource name of the key for boot disks."""
    node_confidential_storage: bool = False
    """Confidential boot disks. They need `node_boot_disk_kms_key`."""
    node_secure_boot: bool = True
    """Shielded nodes with secure boot."""
    node_max_pods: Annotated[int, _PODS] = 15
    """Pods per node. 15 takes a /27 of pod addresses for each node. GKE's 110 takes a /24, and the
    address range is soon exhausted."""
    node_workload_identity: bool = True
    """Metadata server for Workload Identity (``GKE_METADATA``) on the nodes."""
    resource_labels: dict[str, str] = field(default_factory=dict)
    """Labels of the virtual machines, for billing."""
    max_run_duration_seconds: Annotated[int, _RUN_SECONDS] = 604_800
    """Longest life of flex-start nodes."""
    flex_start_wait_seconds: Annotated[int, FLEX_WAIT_SECONDS] = 0
    """How long a flex-start pool may wait for its first node before the next way of a list of
    capacity is tried, at least the grace. 0: without end. The annotation
    ``flex-start-wait-seconds`` of a pod replaces it."""
    workload_policy_prefix: str = "tpu-provisioner-"
    """A workload policy is named by this prefix and the topology, as the Go TPU Provisioner
    expects."""

    credentials: Credentials = Credentials.GOOGLE
    """``google``, or ``anonymous`` with local stand-ins."""
    gke_endpoint: Annotated[str, URL] = "https://container.googleapis.com"
    """Base URL of the GKE API."""
    compute_endpoint: Annotated[str, URL] = "https://compute.googleapis.com"
    """Base URL of the Compute Engine API, which says what keeps a pool from getting machines."""

    def find_conflicts(self) -> Iterator[Conflict]:
        """Yield what is wrong inside maps and lists, and between fields."""
        yield from self._find_conflicts_of_clusters()
        for pair in self.node_additional_networks:
            if not re.fullmatch("[^:]+:[^:]+", pair):
                what = f"{pair!r} is not a pair of network and subnetwork"
                yield Conflict(
                    "node_additional_networks", what, "NETWORK:SUBNETWORK, separated by commas"
                )
        if self.node_confidential_storage and not self.node_boot_disk_kms_key:
            what = "is true, but TPU_PROVISIONER_NODE_BOOT_DISK_KMS_KEY is empty"
            yield Conflict("node_confidential_storage", what, "false, or set the key too")

    def _find_conflicts_of_clusters(self) -> Iterator[Conflict]:
        if not self.clusters:
            yield Conflict("clusters", "names no cluster", "at least one cluster")
        for name, cluster in self.clusters.items():
            if not CLUSTER.accepts(name):
                yield Conflict("clusters", f"{name!r} is not the name of a cluster", CLUSTER.text)
            if not URL.accepts(cluster.endpoint):
                what = f"{name}: the endpoint {cluster.endpoint!r} is not a URL"
                yield Conflict("clusters", what, URL.text)
            if not _AUTHORITY.accepts(cluster.ca_data):
                yield Conflict(
                    "clusters", f"{name}: the ca_data is not a certificate", _AUTHORITY.text
                )
        for endpoint, times in Counter(
            each.endpoint.rstrip("/") for each in self.clusters.values()
        ).items():
            if times > 1:
                yield Conflict(
                    "clusters", f"{times} clusters have the endpoint {endpoint!r}", "one each"
                )

    @property
    def idle_bound(self) -> int:
        """Return for how many seconds any pool may stay without use."""
        return max(self.idle_seconds, self.idle_seconds_max)

    @property
    def room(self) -> Room:
        """Return what nodes leave to the pods of workloads."""
        return Room(
            cpu_millis=self.node_daemonsets_cpu_millis,
            memory_bytes=self.node_daemonsets_memory_mib * MIB,
            pods=min(_WORKLOAD_PODS_MAX, _PODS_MAX + 1 - self.node_max_pods),
            disk_gb=max(self.node_disk_size_gb_max, self.node_disk_size_gb or DISK_GB_DEFAULT),
        )

    @property
    def limited(self) -> bool:
        """Return whether any limit is set: only then are the cluster's pools counted."""
        return bool(self.limit_chips or self.limit_chips_per_namespace)


def is_allowed(value: str, patterns: Iterable[str]) -> bool:
    """Return whether a value fits one of an allow-list's patterns (``*`` matches any text)."""
    return any(fnmatchcase(value, pattern) for pattern in patterns)
