"""Workloads in a queue of Kueue: what a test does to it, and the pods, pools and calls it sees."""

from __future__ import annotations

from typing import Any

from tests.kinds.living import LIVED, Lived, is_running
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import ACCELERATOR, HOSTS, LIFE, RUN_SECONDS, TOPOLOGY, Job, jobset, select

Json = dict[str, Any]

API = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE_NAME, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
TPU = "google.com/tpu"
LONG = {RUN_SECONDS: "36000"}
"""Pods that run until somebody ends them."""
SLICE_CHIPS = 8
"""Of the topology 2x4, which all flavors of these tests have."""
V6E, V5E = "tpu-v6e-slice", "tpu-v5-lite-podslice"
HOLD, GO = "Hold", "None"
"""A queue's ``stopPolicy``: it admits nothing more, or it works."""
PATHS = {
    "JobSet": "jobset.x-k8s.io/v1alpha2/{}/jobsets",
    "RayCluster": "ray.io/v1/{}/rayclusters",
    "RayJob": "ray.io/v1/{}/rayjobs",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1/{}/leaderworkersets",
    "Job": "batch/v1/{}/jobs",
}


class Queue(Lived):
    """A namespace with its own queue; each flavor gives a shape and a selector of its own.

    Args:
        cloud: The running stack.
        name: Of the namespace, the queue and the workloads' beginnings.
        flavors: Accelerator of each flavor, in the order in which Kueue tries them.
        chips: Quota of each.
        shaped: Whether a flavor says the topology too; else the workload does.
        stopped: Whether the queue starts with admitting nothing.
        check: The name of an admission check that every workload has to pass.
        beside: A queue in another namespace whose flavors it has too. Each may borrow the other's
            quota, and takes back its own.
    """

    def __init__(
        self,
        cloud: Cloud,
        name: str,
        *flavors: str,
        chips: int = SLICE_CHIPS,
        shaped: bool = True,
        stopped: bool = False,
        check: str = "",
        beside: Queue | None = None,
    ) -> None:
        self.cloud, self.name, self.namespace = cloud, name, f"queue-{name}"
        self.chips, self.kind = chips, "Job"
        own = [f"{name}-{number}" for number in range(len(flavors))]
        self._flavors: list[str] = beside._flavors if beside else own
        self._made: list[str] = []
        cloud.create_namespace(self.namespace)
        for flavor, accelerator in zip(self._flavors, flavors, strict=not beside):
            topology = {TOPOLOGY: "2x4"} if shaped else {}
            nodes = {ACCELERATOR: accelerator, LIFE: name} | topology
            self.make("resourceflavors", "ResourceFlavor", flavor, {"nodeLabels": nodes})
        spec: Json = {
            "namespaceSelector": {},
            "stopPolicy": HOLD if stopped else GO,
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": self._groups(*[chips] * len(self._flavors)),
        }
        if check:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check}]}
        if beside:
            shared = {"cohortName": beside.name, "preemption": spec["preemption"] | {"reclaimWithinCohort": "Any"}}
            cloud.patch(f"{API}/clusterqueues/{beside.name}", {"spec": shared})
            spec |= shared
        self.make("clusterqueues", "ClusterQueue", name, spec)
        self.make(f"namespaces/{self.namespace}/localqueues", "LocalQueue", name, {"clusterQueue": name})
        LIVED.append(self)

    # --- what happens ---

    def make(self, plural: str, kind: str, name: str, spec: Json) -> None:
        """Create one of Kueue's own objects."""
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}}
        self.cloud.create(f"{API}/{plural}", body | ({"spec": spec} if kind != "WorkloadPriorityClass" else spec))
        self._made.append(f"{API}/{plural}/{name}")

    def set_policy(self, policy: str) -> None:
        """Let the queue admit again, or nothing more."""
        self.cloud.patch(f"{API}/clusterqueues/{self.name}", {"spec": {"stopPolicy": policy}})

    def submit(self, kind: str, body: Json, *, priority: str = "") -> None:
        """Create a workload that names the queue; all workloads of a queue are of one kind."""
        self.kind = kind
        fields = {QUEUE_NAME: self.name} | ({PRIORITY: priority} if priority else {})
        body["metadata"].setdefault("labels", {}).update(fields)
        self.cloud.create(self._folder(kind), body)

    def evict(self) -> None:
        """End the workload's admission for now; it keeps its place in the queue until `readmit`."""
        self._activate(active=False)

    def readmit(self) -> None:
        """Let the workload that was evicted be admitted again."""
        self._activate(active=True)

    def delete(self, kind: str, name: str = "") -> None:
        self.cloud.delete(f"{self._folder(kind)}/{name or self.workload}")

    def wait_no_pools(self) -> None:
        """Return once its workloads have neither pools nor nodes."""
        wait_for(f"{self.name}: no pools", lambda: not self.pools())
        nodes = {"labelSelector": f"{LIFE}={self.name}"}
        wait_for(f"{self.name}: no nodes", lambda: not self.cloud.items("/api/v1/nodes", **nodes))

    def clear(self, *, pools: int | None = None) -> None:
        """Return once nothing is left of pools and nodes; the queue goes, too.

        `pools` is how many were made, and given back, in its whole life; None asks for no number.
        """
        self.wait_no_pools()
        for path in reversed(self._made):
            self.cloud.delete(path)
        if pools is not None:
            self.expect_given_back(pools)

    # --- what is seen ---

    @property
    def workload(self) -> str:
        """The name of the one workload of a queue that has one only."""
        return f"{self.name}-w"

    def workload_object(self, kind: str) -> Json:
        return self.cloud.get(f"{self._folder(kind)}/{self.workload}") or {}

    def is_suspended(self, kind: str) -> bool:
        return bool(self.workload_object(kind)["spec"].get("suspend"))

    def pods(self, beginning: str = "") -> list[Json]:
        found = self.cloud.items(f"/api/v1/namespaces/{self.namespace}/pods")
        return [pod for pod in found if pod["metadata"]["name"].startswith(beginning)]

    def gates(self, beginning: str = "") -> set[str]:
        """Return the gates of the pods, terminating ones too, once each of them has one."""
        found = [[gate["name"] for gate in pod["spec"].get("schedulingGates", ())] for pod in self.pods(beginning)]
        return {name for names in found for name in names} if found and all(found) else set()

    def wait_running(self, count: int, beginning: str = "") -> list[Json]:
        """Return the pods that ask for chips, once all of them run and are as many."""
        return wait_for(f"{self.name}: {count} running pods", lambda: self._running(count, beginning))

    def wait_no_pods(self, beginning: str = "") -> None:
        wait_for(f"{self.name}: no pods", lambda: not self.pods(beginning))

    def wait_word(self, condition: str) -> None:
        """Return once Kueue has set this condition, for example that there is no quota yet."""
        wait_for(f"{self.name}: {condition}", lambda: self.conditions(self.workload).get(condition))

    def conditions(self, workload: str) -> dict[str, str]:
        """Return the reasons of the conditions of the Workload that Kueue made for one of ours."""
        found = self._workload(workload).get("status", {}).get("conditions", ())
        return {each["type"]: f"{each['status']} {each['reason']}" for each in found}

    def check_state(self, workload: str) -> Json:
        """Return the state of the one check of a workload; empty before Kueue has written it."""
        found = self._workload(workload).get("status", {}).get("admissionChecks", ())
        return dict(found[0]) if found else {}

    def pools(self, beginning: str = "") -> set[str]:
        wanted = beginning or f"{self.name}-"
        return {name for name in self.cloud.pools() if name.startswith(wanted)}

    def accelerators_of(self, pods: list[Json]) -> set[str]:
        nodes = [self.cloud.get(f"/api/v1/nodes/{pod['spec']['nodeName']}") or {} for pod in pods]
        return {node["metadata"]["labels"][ACCELERATOR] for node in nodes}

    def describe_end(self) -> str:
        """Say what has become of the workloads."""
        return "live" if self.cloud.items(self._folder(self.kind)) else "gone"

    def _running(self, count: int, beginning: str) -> list[Json]:
        found = [pod for pod in self.pods(beginning) if _asks_for_chips(pod)]
        return found if len(found) == count and all(map(is_running, found)) else []

    def _groups(self, *chips: int) -> list[Json]:
        flavors = [
            {"name": flavor, "resources": [{"name": TPU, "nominalQuota": quota}]}
            for flavor, quota in zip(self._flavors, chips, strict=True)
        ]
        return [{"coveredResources": [TPU], "flavors": flavors}]

    def _folder(self, kind: str) -> str:
        return "/apis/" + PATHS[kind].format(f"namespaces/{self.namespace}")

    def _workload(self, name: str) -> Json:
        found = self.cloud.items(f"{API}/namespaces/{self.namespace}/workloads")
        mine = [each for each in found if each["metadata"]["ownerReferences"][0]["name"] == name]
        return mine[0] if mine else {}

    def _activate(self, *, active: bool) -> None:
        name = self._workload(self.workload)["metadata"]["name"]
        path = f"{API}/namespaces/{self.namespace}/workloads/{name}"
        self.cloud.patch(path, {"spec": {"active": active}})


def _asks_for_chips(pod: Json) -> bool:
    return any(TPU in each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"])


# --- bodies: one slice of 2x4 each, without any selector, unless a topology is given --------------


def a_template(topology: str = "", **fields: Any) -> Json:
    """Return a pod that asks for a host's chips."""
    container = {"name": "worker", "image": "worker", "resources": {"limits": {TPU: "4"}}}
    selector = {TOPOLOGY: topology} if topology else {}
    spec = {"containers": [container], "nodeSelector": selector, "terminationGracePeriodSeconds": 1} | fields
    return {"metadata": {"annotations": dict(LONG)}, "spec": spec}


def a_jobset(name: str, topology: str = "") -> Json:
    body = jobset(name, Job(topology=topology or "2x4", does=LONG))
    pod = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["nodeSelector"] = {TOPOLOGY: topology} if topology else {}
    return body


def a_job(name: str, *, labels: dict[str, str] | None = None, **fields: Any) -> Json:
    template = a_template(restartPolicy="Never", **fields)
    template["metadata"]["labels"] = labels or {}
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimit": 0}
    return {"metadata": {"name": name}, "spec": spec | {"template": template}}


def a_raycluster(name: str) -> Json:
    """Return a cluster whose one replica shares its pool with no other, as by GKE's Ray webhook."""
    group = {"groupName": "g", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "numOfHosts": HOSTS["2x4"]}
    head = {"metadata": {"annotations": dict(LONG)}, "spec": {"containers": [{"name": "head", "image": "ray"}]}}
    spec = {
        "headGroupSpec": {"rayStartParams": {}, "template": head},
        "workerGroupSpecs": [group | {"rayStartParams": {}, "template": a_template()}],
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}


def a_leaderworkerset(name: str, topology: str = "") -> Json:
    template = {"size": HOSTS[topology or "2x4"], "workerTemplate": a_template(topology)}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "leaderWorkerTemplate": template},
    }


BODIES = {"JobSet": a_jobset, "RayCluster": a_raycluster, "LeaderWorkerSet": a_leaderworkerset, "Job": a_job}


def a_pinned_job(name: str, life: str, **fields: Any) -> Json:
    """Return a Job that names no queue and selects its slice itself."""
    return a_job(name, nodeSelector=select("2x4") | {LIFE: life}, **fields)
