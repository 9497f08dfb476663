"""What surrounds a workload in a life: its queue of Kueue, and the disks of its pods.

Claims are as an API server takes them: of a volume in one zone, and of a class that makes one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar

from shared.edges.kueue import CONTROLLER
from tests.loop.bodies import LIFE, TOPOLOGY, TPU_TYPE, Json, read_manifest
from tests.loop.cloud import wait_for
from tests.loop.workload import Workload

if TYPE_CHECKING:
    from tests.loop.cloud import Cloud

API, VERSION = "/apis/kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta2"
CHECK = "capacity"
OUR_CHECK = (f"{API}/admissionchecks", CHECK, "AdmissionCheck", {"spec": {"controllerName": CONTROLLER}})
URGENT = (f"{API}/workloadpriorityclasses", "urgent", "WorkloadPriorityClass", {"value": 1000})
QUEUE = "kueue.x-k8s.io/queue-name"  # the label that puts a workload into a queue
_TPU = "google.com/tpu"
DRIVER = "pd.csi.storage.gke.io"
VOLUMES, CLASSES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"
_ASKS: Json = {"accessModes": ["ReadWriteMany"]}
_SIZE: Json = {"resources": {"requests": {"storage": "1Gi"}}}
_AT_ONCE: Json = {"metadata": {"name": "standard"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"}


def build(path: str, name: str, kind: str, body: Json) -> tuple[str, Json]:
    """Return an object of Kueue, with the path that it is posted to."""
    return path, {"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}} | body


def list_queue(name: str, namespace: str, words: Json) -> list[tuple[str, Json]]:
    """Return a local queue with its own cluster queue, whose one flavor gives the place.

    Its words: `chips` of quota, `topology` of the flavor (the workload says it if there is none),
    `check` for our admission check, `policy` for a queue that admits nothing at first.
    """
    place = {TPU_TYPE: "tpu-v6e-slice", LIFE: name}
    place |= {TOPOLOGY: words["topology"]} if "topology" in words else {}
    quota = {"name": _TPU, "nominalQuota": words.get("chips", 8)}
    spec: Json = {
        "namespaceSelector": {},
        "stopPolicy": words.get("policy", "None"),
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": [_TPU], "flavors": [{"name": name, "resources": [quota]}]}],
    }
    if words.get("check"):
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
    own = f"{API}/namespaces/{namespace}/localqueues"
    return [
        build(f"{API}/resourceflavors", name, "ResourceFlavor", {"spec": {"nodeLabels": place}}),
        build(f"{API}/clusterqueues", name, "ClusterQueue", {"spec": spec}),
        build(own, name, "LocalQueue", {"spec": {"clusterQueue": name}}),
    ]


def make_check(cloud: Cloud) -> None:
    """Create our admission check and the priority `urgent`; return once the check is active."""
    for each in (OUR_CHECK, URGENT):
        cloud.create(*build(*each))

    def is_active() -> bool:
        conditions = (cloud.get(f"{API}/admissionchecks/{CHECK}") or {}).get("status", {}).get("conditions", ())
        return any((each["type"], each["status"]) == ("Active", "True") for each in conditions)

    wait_for("the check is active", is_active)


def name_claims(namespace: str) -> str:
    """Return the path of a namespace's claims."""
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def list_bound(namespace: str, claim: str, volume: str, zone: str) -> list[tuple[str, Json]]:
    """Return a volume in a zone and a claim of it, each with the path that it is posted to."""
    here = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    there = {
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": DRIVER, "volumeHandle": volume},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        "storageClassName": "",
    }
    asked = {"volumeName": volume, "storageClassName": ""}
    return [
        (VOLUMES, {"metadata": {"name": volume}, "spec": _ASKS | there}),
        (name_claims(namespace), {"metadata": {"name": claim}, "spec": _ASKS | _SIZE | asked}),
    ]


def list_unbound(namespace: str, claim: str, storage_class: str, zone: str) -> list[tuple[str, Json]]:
    """Return a class of one zone, and a claim that gets its volume of it when a pod is placed."""
    here = {"key": "topology.kubernetes.io/zone", "values": [zone]}
    made = {
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [here]}],
    }
    asked = {"storageClassName": storage_class}
    return [
        (CLASSES, {"metadata": {"name": storage_class}, **made}),
        (name_claims(namespace), {"metadata": {"name": claim}, "spec": _ASKS | _SIZE | asked}),
    ]


class Actor(Workload):
    """A workload with the verbs that are about its queue and its claims."""

    WAITS: ClassVar = Workload.WAITS | {
        # Type, status and reason of a condition.
        "kueue": lambda own, words: any(each.startswith(words) for each in own.list_words()),
        "check": lambda own, state: own.read_check().get("state") == state,
    }

    def policy_of_queue(self, policy: str) -> None:
        """Let its queue admit again, or nothing more."""
        name = self.labels[QUEUE]
        self.cloud.patch(f"{API}/clusterqueues/{name}", {"spec": {"stopPolicy": policy}})

    def admitted(self, active: bool) -> None:
        """End the workload's admission, or let it be admitted again."""
        name = self._read_workload()["metadata"]["name"]
        self.cloud.patch(f"{API}/namespaces/{self.namespace}/workloads/{name}", {"spec": {"active": active}})

    def held(self) -> None:
        """It has no pod that may be placed, and GKE was asked for nothing."""
        gated = all(pod["spec"].get("schedulingGates") for pod in self.list_pods())
        assert gated
        self.unasked()

    def claim(self, words: Json) -> None:
        """Create a claim of a file, which no controller here binds; its class binds at once."""
        with contextlib.suppress(AssertionError):  # another life has made it
            self.cloud.create(CLASSES, _AT_ONCE)
        self.cloud.create(name_claims(self.namespace), read_manifest(words))

    def disk(self, words: Json) -> None:
        """Bind a claim to a new volume in a zone, as a driver does; one that is missing is made."""
        volume = f"{self.namespace}-{words['claim']}"
        made = list_bound(self.namespace, words["claim"], volume, words["zone"])
        (_, body), (claims, claim) = made
        path = f"{claims}/{words['claim']}"
        there = self.cloud.get(path)
        if there:
            own = {key: there["spec"][key] for key in ("storageClassName", "accessModes")}
            refers = {"claimRef": {"namespace": self.namespace, "name": words["claim"]}}
            body["spec"] |= own | refers | {"capacity": there["spec"]["resources"]["requests"]}
        self.cloud.create(VOLUMES, body)
        if not there:
            self.cloud.create(claims, claim)
        elif not self.cloud.is_real:  # the embedded cluster has no controller that binds
            self.cloud.patch(path, {"spec": {"volumeName": volume}})
        wait_for(f"{path} is bound", lambda: (self.cloud.get(path) or {})["spec"].get("volumeName"))

    def _read_workload(self) -> Json:
        workloads = (self.cloud.get(f"{API}/namespaces/{self.namespace}/workloads") or {})["items"]
        mine = [each for each in workloads if each["metadata"]["ownerReferences"][0]["name"] == self.name]
        return mine[0] if mine else {}

    def list_words(self) -> list[str]:
        conditions = self._read_workload().get("status", {}).get("conditions", ())
        return [f"{each['type']} {each['status']} {each['reason']}" for each in conditions]

    def read_check(self) -> Json:
        checks = self._read_workload().get("status", {}).get("admissionChecks", ())
        return dict(checks[0]) if checks else {}
