"""Every label and annotation key that this project reads or writes, for any kind of workload.

Keys that the Go TPU Provisioner writes keep their meaning, so that its pools are managed too:
https://github.com/ai-on-gke/tpu-provisioner.
"""

from __future__ import annotations

import base64
import difflib
import functools
import hashlib
import re
from collections.abc import Iterable

# --- the owner of a pool (node labels, written once at creation) ---
MANAGER = "google.com/nodepool-manager"  # always `tpu-provisioner`
MANAGER_VALUE = "tpu-provisioner"
PARENT_KIND = "google.com/tpu-provisioner-parent-kind"  # kind of the object that owns the pool
PARENT_NAME = "google.com/tpu-provisioner-parent-name"  # its name
PARENT_NAMESPACE = "google.com/tpu-provisioner-parent-namespace"  # its namespace
WORKLOAD_KIND = "google.com/tpu-provisioner-workload-kind"
WORKLOAD_NAME = "google.com/tpu-provisioner-workload-name"
JOBSET_NAME = "google.com/tpu-provisioner-jobset-name"
JOBSET_NAMESPACE = "google.com/tpu-provisioner-jobset-namespace"
OWNER_UID = "google.com/tpu-provisioner-owner-uid"  # UID of the workload
NEED = "google.com/tpu-provisioner-need"  # hash of what the pods of its group ask
SLOT = "google.com/tpu-provisioner-slot"  # number of the pool within its need
ROUND = "google.com/tpu-provisioner-round"  # fallback lists that had ended before
USELESS = "google.com/tpu-provisioner-useless"  # pools before it that helped nobody
ATTEMPT = "google.com/tpu-provisioner-attempt"  # number of the try
CREATED_AT = "google.com/tpu-provisioner-created-at"  # unix seconds
CANDIDATE = "google.com/tpu-provisioner-candidate"
"""Which way of a fallback list, from 0; absent for the first."""
CLUSTER_UID = "google.com/tpu-provisioner-cluster"
"""UID of the cluster's namespace ``kube-system``, which proves which API the pool was made for."""
IDLE = "google.com/tpu-provisioner-idle"
"""Seconds that the pool may stay without use after its workload is finished; absent for 0."""

OWNER_KEYS = (MANAGER, "google.com/tpu-provisioner-")
"""What all of these labels begin with. No label of a pod may replace one."""
DEPLOYMENT = "tpu-provisioner-deployment"
"""A label of machines that names the deployment; Terraform sets it in `resource_labels`."""

# --- what pods and workloads carry ---
OWN_DOMAIN = "tpu-provisioner.cloud.google.com/"  # of all; an unknown key of it is refused
COPY_LABELS = f"{OWN_DOMAIN}copy-labels"  # pod labels that become node labels
ADDITIONAL_NODE_NETWORKS = f"{OWN_DOMAIN}additional-node-networks"  # network:subnetwork pairs
NODE_SERVICE_ACCOUNT = f"{OWN_DOMAIN}node-service-account"  # account of the nodes
CAPACITY = f"{OWN_DOMAIN}capacity"  # a list of ways to get capacity
IDLE_SECONDS = f"{OWN_DOMAIN}idle-seconds"  # the pool stays for so long
FLEX_START_WAIT = f"{OWN_DOMAIN}flex-start-wait-seconds"  # for its first node
PARTIAL_SLICE = f"{OWN_DOMAIN}partial-slice"  # `true`: hosts may stay idle
DISABLE_AUTOPROVISIONING = f"{OWN_DOMAIN}disable-autoprovisioning"  # `true`: no pool
CAPACITY_CHECK_SECONDS = f"{OWN_DOMAIN}capacity-check-seconds"
"""How long only some of the node pools are kept for a workload that waits for our admission check
of Kueue."""

MODE = f"{OWN_DOMAIN}mode"  # on a namespace: what is stopped there
SURPLUS = f"{OWN_DOMAIN}surplus"  # taint of ours; its value is unix seconds

POD_KEYS = frozenset(
    {
        *(ADDITIONAL_NODE_NETWORKS, CAPACITY, COPY_LABELS, FLEX_START_WAIT),
        *(IDLE_SECONDS, NODE_SERVICE_ACCOUNT, PARTIAL_SLICE),
    }
)
"""Annotations that are read from pods and pod templates only."""
OWN_KEYS = POD_KEYS | {CAPACITY_CHECK_SECONDS, DISABLE_AUTOPROVISIONING}
"""All keys of ours that pods and workloads may carry."""


@functools.lru_cache(maxsize=1024)
def find_meant_resource(resource: str) -> str:
    """Return the accelerator that the name of a resource is almost that of; empty for none."""
    name = resource.lower()
    for meant, word in ((TPU_RESOURCE, "tpu"), (GPU_RESOURCE, "gpu")):
        if word in name or difflib.get_close_matches(name, [meant], cutoff=0.85):
            return meant
    return ""


COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"

# --- what GKE defines ---
TPU_RESOURCE = "google.com/tpu"
GPU_RESOURCE = "nvidia.com/gpu"
HUGE_PAGES = "hugepages-"  # and a size; only pools with `linuxNodeConfig.hugepages` have them
GPU_ACCELERATOR = "cloud.google.com/gke-accelerator"
GPU_NODE = "cloud.google.com/gke-gpu"
"""``true`` on every node with GPUs:
https://docs.cloud.google.com/kubernetes-engine/docs/concepts/gpus."""
GPU_PARTITION = "cloud.google.com/gke-gpu-partition-size"
GPU_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
GPU_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
GPU_DRIVER = "cloud.google.com/gke-gpu-driver-version"
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
SLICE_TOPOLOGY = "cloud.google.com/gke-tpu-slice-topology"
ACCELERATOR_COUNT = "cloud.google.com/gke-accelerator-count"
NODE_POOL = "cloud.google.com/gke-nodepool"
SPOT = "cloud.google.com/gke-spot"
PREEMPTIBLE = "cloud.google.com/gke-preemptible"
PROVISIONING = "cloud.google.com/gke-provisioning"
FLEX_START = "cloud.google.com/gke-flex-start"
MAX_RUN_DURATION = "cloud.google.com/gke-max-run-duration-seconds"
RESERVATION_NAME = "cloud.google.com/reservation-name"
RESERVATION_PROJECT = "cloud.google.com/reservation-project"
RESERVATION_BLOCKS = "cloud.google.com/reservation-blocks"
RESERVATION_SUBBLOCKS = "cloud.google.com/reservation-subblocks"
RESERVATION_AFFINITY = "cloud.google.com/reservation-affinity"
RESERVATION_ZONE = "cloud.google.com/reservation-zone"
PLACEMENT_POLICY = "cloud.google.com/placement-policy-name"
COMPUTE_CLASS = "cloud.google.com/compute-class"
PROVISIONING_REQUEST = "autoscaling.gke.io/provisioning-request"
PROVISIONING_REQUESTS = (
    PROVISIONING_REQUEST,
    "autoscaling.x-k8s.io/consume-provisioning-request",
    "cluster-autoscaler.kubernetes.io/consume-provisioning-request",
)
"""Annotations of pods for which the cluster autoscaler has booked nodes: GKE, Kueue, older Kueue
(https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/apis/provisioningrequest)."""
QUEUED = "cloud.google.com/gke-queued"
"""``true`` on the nodes of pools for queued provisioning, which an operator creates:
https://cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest."""
ICI_RESILIENCY = "cloud.google.com/gke-tpu-ici-resiliency"
LOCATION_HINT = "cloud.google.com/gke-location-hint"
POOL_GROUP_NAME = "cloud.google.com/gke-nodepool-group-name"
WORKLOAD_TYPE = "cloud.google.com/gke-workload-type"
METADATA_SERVER = "iam.gke.io/gke-metadata-server-enabled"
NETWORK_PROFILE = "gke.networks.io/accelerator-network-profile"
OS_DISTRIBUTION = "cloud.google.com/gke-os-distribution"  # `cos` unless a pool names another image
MACHINE_FAMILY = "cloud.google.com/machine-family"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
OPERATING_SYSTEM = "kubernetes.io/os"
ARCHITECTURE = "kubernetes.io/arch"
HOSTNAME = "kubernetes.io/hostname"
_NEW_NAMES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "beta.kubernetes.io/os": OPERATING_SYSTEM,
    "beta.kubernetes.io/arch": ARCHITECTURE,
}
"""GKE's nodes have these labels under both names, with the same value:
https://kubernetes.io/docs/reference/labels-annotations-taints/."""


def rename(key: str) -> str:
    """Return the present name of a node label that Kubernetes has renamed; else the key itself."""
    return _NEW_NAMES.get(key, key)


_RESERVED = re.compile(r"(.*\.)?(google\.com|gke\.io|kubernetes\.io|k8s\.io)")


def is_reserved(key: str) -> bool:
    """Return whether a label's domain is one of Google or Kubernetes, whose labels GKE sets."""
    domain, slash, _ = key.rpartition("/")
    return bool(slash) and bool(_RESERVED.fullmatch(domain))


def hash_words(words: Iterable[str], characters: int) -> str:
    """Return the first characters of a hash in lower-case base 32, at most 48, for labels."""
    # Each word has its length before it, so that no two lists of words have the same text.
    text = "".join(f"{len(word)}:{word}" for word in words)
    digest = hashlib.sha256(text.encode()).digest()
    # Five bytes make eight characters, and the encoder is slow.
    return base64.b32encode(digest[: -(-characters // 8) * 5]).decode().lower()[:characters]
