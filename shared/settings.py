"""Every setting of the functions: the type, the bounds, the default and the reason for the default.

Each field is one environment variable, ``TPU_PROVISIONER_<FIELD>``; lists are comma-separated or
JSON, maps are JSON. A wrong setting stops the start: `Misconfigured` names every wrong, missing or
unknown variable, and what is valid. The exporter's and the command line's settings are read by the
same rules. Internal mechanics have no setting.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from shared.capacity_texts import CapacityPolicy, UnreadableList, read_policies
from shared.kinds.table import KIND_NAMES
from shared.model.errors import JSON_ERRORS, Misconfigured
from shared.model.times import COUNT_MAX
from shared.shapes.catalogue import DISK_GB_DEFAULT, DISK_GB_MAX, MIB, Room

PREFIX = "TPU_PROVISIONER_"
_VALID = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a comma-separated list, or a JSON list of texts",
    dict: "a JSON object",
}
_SHOWN_LENGTH_MAX = 80
_TEXT_LENGTH_MAX = 300


def between(least: int, most: int) -> Meta:
    """Return the rule for a number with a least and a greatest value."""
    return Meta(ge=least, le=most, description=f"a number from {least} to {most}")


def matching(pattern: str, text: str) -> Meta:
    """Return the rule for a text of one form."""
    return Meta(pattern=rf"\A(?:{pattern})\Z", description=text)


GKE_ENDPOINT = "https://container.googleapis.com"
CLUSTER = matching(
    r"projects/[^/\s]+/locations/[^/\s]+/clusters/[^/\s]+",
    "projects/PROJECT/locations/LOCATION/clusters/NAME",
)
URL = matching(r"https?://[^/\s?#]+(/[^\s?#]*)?", "https://HOST or http://HOST")
OPTIONAL_URL = matching(
    r"(https?://[^/\s?#]+(/[^\s?#]*)?)?", "https://HOST or http://HOST, or empty"
)
_KIND = matching("|".join(KIND_NAMES), "a kind")
KindNames = Annotated[
    tuple[Annotated[str, _KIND], ...],
    Meta(min_length=1, description=f"one or more of {', '.join(KIND_NAMES)}, separated by commas"),
]
_NoNegative = Annotated[int, between(0, COUNT_MAX)]
_Positive = Annotated[int, between(1, COUNT_MAX)]
WAIT_SECONDS_MAX = 604_800
_WAIT_SECONDS = Annotated[int, between(0, WAIT_SECONDS_MAX)]
_NAMESPACE = matching("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "the name of a namespace")
_POLICIES = Meta(
    description='a list like [{"namespaces": ["team-*"], "priorities": [{"spot": true}, {}]}]'
)
_PAIR = matching("[^:]+:[^:]+", "NETWORK:SUBNETWORK")
_PODS_MAX = 256
"""Per node: https://cloud.google.com/kubernetes-engine/quotas."""
_WORKLOAD_PODS_MAX = 128
"""Of these; the rest is for system pods."""


class Credentials(StrEnum):
    """The identity that the functions use."""

    GOOGLE = "google"
    """The Google account of the environment: metadata server, or application default
    credentials."""
    ANONYMOUS = "anonymous"
    """No identity: for local stand-ins only."""


class ClusterSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cluster that this deployment serves."""

    zone: str = ""
    """Zone of new pools for pods that select no zone. A multi-host slice is in exactly one zone."""
    private: bool = False
    """Whether the Kubernetes API is reached by its private address, in place of its DNS endpoint.
    GKE says what both are."""
    endpoint: Annotated[str, OPTIONAL_URL] = ""
    """URL of the Kubernetes API of a stand-in, of which GKE knows nothing."""
    ca_file: str = ""
    """PEM file of the authority of that URL. Empty: the public ones."""
    token_file: str = ""
    """File with a bearer token for that URL. Empty: the account that `credentials` names."""


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that an operator can set. Lists are comma-separated or JSON, maps are JSON."""

    clusters: Annotated[
        dict[Annotated[str, CLUSTER], ClusterSettings],
        Meta(min_length=1, description=f'{{"{CLUSTER.description}": {{"zone": "ZONE"}}}}'),
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
    """Patterns of reservations that pods may select: ``NAME`` in the cluster's own project,
    ``PROJECT/NAME`` in another one. Default: all of the own project, because RBAC limits who
    creates pods, and none of others, because the author of a pod must not use them up."""
    capacity_policies: Annotated[tuple[CapacityPolicy, ...], _POLICIES] = ()
    """The first policy that fits a pod's namespace and accelerator lists the ways to get its
    capacity, the best first, in the words of GKE's ComputeClass. Where pods have the annotation
    ``capacity``, that list counts instead. JSON or YAML."""
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
    """The most pools of a cluster that are deleted in a minute because an owner is absent or a pool
    failed. The oldest go first, the next tick continues, and an alert is raised, because that many
    deletions usually mean a mistake. Pools of a finished or suspended owner do not count."""
    grace_seconds: _Positive = 300
    """One wait, in seconds, for what may still change by itself: how long a workload is suspended,
    or without quota, before its pools are deleted. Five minutes are longer than preemption and
    re-admission by a queue, and much shorter than a create."""
    creation_seconds_max: _Positive = 3600  # assumes: stockout-time
    """A pool that lacks nodes for so long has failed, if GKE names no cause before. A stockout
    takes 35 minutes."""
    idle_seconds: _WAIT_SECONDS = 0
    """How long the pool of a slice stays without use after its workload is finished, for the next
    workload of its shape. 0: not at all, because an idle pool costs as much as a used one. Pools
    that are pinned or elastic never stay. The annotation ``idle-seconds`` of a pod replaces it."""
    idle_seconds_max: _WAIT_SECONDS = 0
    """The most that the annotation may ask for, if that is more than `idle_seconds`. A pool never
    stays for longer than the larger of the two, whatever was allowed when it was created."""
    force_on_demand: bool = False
    """Ignore spot and reservation selectors, where a webhook removes them from the pods."""
    node_service_account: str = ""
    """Google service account of the nodes. Empty: the project's default Compute Engine account."""
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
    node_additional_networks: tuple[Annotated[str, _PAIR], ...] = ()
    """``network:subnetwork`` pairs that every node gets."""
    node_boot_disk_kms_key: str = ""
    """Full resource name of the key for boot disks."""
    node_confidential_storage: bool = False
    """Confidential boot disks. Without `node_boot_disk_kms_key`, GKE refuses each pool."""
    node_secure_boot: bool = True
    """Shielded nodes with secure boot."""
    node_max_pods: Annotated[int, between(8, _PODS_MAX)] = 15
    """Pods per node. 15 takes a /27 of pod addresses for each node. GKE's 110 takes a /24, and the
    address range is soon exhausted."""
    node_workload_identity: bool = True
    """Metadata server for Workload Identity (``GKE_METADATA``) on the nodes."""
    resource_labels: dict[str, str] = {}
    """Labels of the virtual machines, for billing."""
    flex_start_wait_seconds: _WAIT_SECONDS = 0
    """How long a flex-start pool may wait for its first node before the next way of a list of
    capacity is tried, at least the grace. 0: without end. The annotation
    ``flex-start-wait-seconds`` of a pod replaces it."""
    workload_policy_prefix: str = "tpu-provisioner-"
    """A workload policy has this prefix and the topology, as the Go TPU Provisioner expects."""

    credentials: Credentials = Credentials.GOOGLE
    """``google``, or ``anonymous`` with local stand-ins."""
    gke_endpoint: Annotated[str, URL] = GKE_ENDPOINT
    """Base URL of the GKE API. Another one is a stand-in's, which has Compute Engine's API too."""

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


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Return the functions' settings; `Misconfigured` names all that is wrong with them."""
    settings: Settings = read_all(environ, Settings)[0]
    return settings


def read_all(environ: Mapping[str, str], *kinds: type[Any]) -> list[Any]:
    """Return several settings classes from one environment, which may hold the variables of all."""
    variables = {name_variable(each.name): each for kind in kinds for each in fields(kind)}
    problems = _list_unknown(environ, sorted(variables))
    values: dict[str, Any] = {}
    for name, field in variables.items():
        text, valid = environ.get(name), name_valid(field.type)
        try:
            if text is not None:
                values[field.name] = _convert(text, field.type)
            elif field.required:
                problems.append(describe_problem(name, "is required", valid=valid))
        except (*JSON_ERRORS, UnreadableList) as error:
            inside = isinstance(error, UnreadableList) or _is_json(str(text))
            what = f"is not valid: {error}" if inside else "is not valid"
            problems.append(describe_problem(name, what, text, valid))
    if problems:
        raise Misconfigured(tuple(problems))
    return [
        kind(**{each.name: values[each.name] for each in fields(kind) if each.name in values})
        for kind in kinds
    ]


def name_variable(field: str) -> str:
    """Return the name of the environment variable that sets a field."""
    return f"{PREFIX}{field.upper()}"


def describe_problem(name: str, what: str, got: str | None = None, valid: str = "") -> str:
    """Return one problem in the form ``NAME: what is wrong (got 'value'); valid: …``."""
    shown = "" if got is None else f" (got {got[:_SHOWN_LENGTH_MAX]!r})"
    return f"{_shorten(name)}: {_shorten(what)}{shown}{f'; valid: {valid}' if valid else ''}"


def _shorten(text: str) -> str:
    """Return a text that may quote what was given, on one line of bounded length."""
    shown = text if len(text) <= _TEXT_LENGTH_MAX else f"{text[:_TEXT_LENGTH_MAX]}…"
    return shown if shown.isprintable() else shown.encode("unicode_escape").decode()


def _list_unknown(environ: Mapping[str, str], variables: list[str]) -> list[str]:
    """Return a problem for each variable that has our prefix and is no setting."""
    problems = []
    for name in sorted({each for each in environ if each.startswith(PREFIX)} - {*variables}):
        near = difflib.get_close_matches(name.upper(), variables, n=1)
        what = f"is not a setting; did you mean {near[0]}?" if near else "is not a setting"
        listed = ", ".join(each.removeprefix(PREFIX) for each in variables)
        valid = "" if near else f"{PREFIX} and one of {listed}"
        problems.append(describe_problem(name, what, valid=valid))
    return problems


def name_valid(hint: Any) -> str:
    """Return in words what a type accepts: those of its rule, else those of the type itself."""
    for rule in getattr(hint, "__metadata__", ()):
        if isinstance(rule, Meta) and rule.description:
            return rule.description
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return ", ".join(hint)
    return _VALID.get(typing.get_origin(hint) or hint, "a text")


def _convert(text: str, hint: Any) -> Any:
    text.encode()  # raises UnicodeError for bytes that are not UTF-8
    kind = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    if kind == tuple[CapacityPolicy, ...]:
        return read_policies(text)
    origin = typing.get_origin(kind)
    if origin is dict or (origin is tuple and _is_json(text)):
        return msgspec.json.decode(text.encode(), type=hint, strict=False)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return msgspec.convert(parts if origin is tuple else text, type=hint, strict=False)


def _is_json(text: str) -> bool:
    return text.lstrip().startswith(("[", "{"))
