"""A queue of Kueue in a life's namespace, and what Kueue does with the workload in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.edges.kueue import CONTROLLER
from tests.loop.bodies import LIFE, TOPOLOGY, TPU_TYPE, Json
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


class Queued(Workload):
    """A workload with the verbs that are about its queue."""

    def policy_of_queue(self, policy: str) -> None:
        """Let its queue admit again, or nothing more."""
        name = self.labels[QUEUE]
        self.cloud.patch(f"{API}/clusterqueues/{name}", {"spec": {"stopPolicy": policy}})

    def admitted(self, active: bool) -> None:
        """End the workload's admission, or let it be admitted again."""
        name = self._read_workload()["metadata"]["name"]
        self.cloud.patch(f"{API}/namespaces/{self.namespace}/workloads/{name}", {"spec": {"active": active}})

    def kueue(self, words: str) -> None:
        """Kueue says so of it: type, status and reason of a condition."""
        self._wait(f"Kueue says {words}", lambda: any(each.startswith(words) for each in self._list_words()))

    def check(self, state: str) -> None:
        """Its admission check has this state."""
        self._wait(f"check {state}", lambda: self._read_check().get("state") == state)

    def held(self) -> None:
        """It has no pod that may be placed, and GKE was asked for nothing."""
        gated = all(pod["spec"].get("schedulingGates") for pod in self.list_pods())
        assert gated
        self.unasked()

    def _read_workload(self) -> Json:
        workloads = (self.cloud.get(f"{API}/namespaces/{self.namespace}/workloads") or {})["items"]
        mine = [each for each in workloads if each["metadata"]["ownerReferences"][0]["name"] == self.name]
        return mine[0] if mine else {}

    def _list_words(self) -> list[str]:
        conditions = self._read_workload().get("status", {}).get("conditions", ())
        return [f"{each['type']} {each['status']} {each['reason']}" for each in conditions]

    def _read_check(self) -> Json:
        checks = self._read_workload().get("status", {}).get("admissionChecks", ())
        return dict(checks[0]) if checks else {}
