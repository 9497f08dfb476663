"""JobSets as the PathwaysJob controller makes them, from head to last pool, on both clusters.

That controller is not run here: the bodies are what it writes, field by field, as of
https://github.com/google/pathways-job/blob/c0cc7594c9d03a1d96a89110008a0f2d3c9ef189/internal/controller/pathwaysjob_controller.go.
"""

from typing import Any

import pytest

from tests.kinds.living import LONG, Life
from tests.lives.cloud import Cloud
from tests.lives.jobset_bodies import EXCLUSIVE, GRACE_SECONDS, HOSTS, LIFE, RUN_SECONDS, select

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

Json = dict[str, Any]
TOPOLOGY = "2x4"
ON_CPU = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname"}


class Pathways(Life):
    """The JobSet of one PathwaysJob: a head, and slices of workers that come once it runs."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        super().__init__(cloud, name, "JobSet")

    def submit(self, *, slices: int, colocated: bool, priority_class: str = "") -> None:
        nodes = select(TOPOLOGY) | {LIFE: self.name}
        head: Json = {"containers": [{"name": "pathways-rm", "image": "server"}]}
        if colocated:
            # The toleration is the user's: nothing adds it to a pod that asks for no chips.
            head |= {"nodeSelector": nodes, "tolerations": [{"key": "google.com/tpu", "operator": "Exists"}]}
        chips = {"limits": {"google.com/tpu": 4}}
        workers: Json = {
            "nodeSelector": nodes,
            "containers": [{"name": "pathways-worker", "image": "server", "resources": chips}],
        }
        if priority_class:
            workers["priorityClassName"] = priority_class
            body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 100}
            path = "/apis/scheduling.k8s.io/v1/priorityclasses"
            self.cloud.create(path, body | {"metadata": {"name": priority_class}})
        count = HOSTS[TOPOLOGY]
        jobs = [
            self._job("pathways-head", head, {} if colocated else ON_CPU, pods=1),
            self._job("worker", workers, EXCLUSIVE, pods=count, replicas=slices, backoff_limit=count * 4),
        ]
        spec = {
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["pathways-head"]},
            "coordinator": {"replicatedJob": "pathways-head", "jobIndex": 0, "podIndex": 0},
            "replicatedJobs": jobs,
        }
        fields = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": self.name}}
        self.create(fields | {"spec": spec})

    def end_well(self) -> None:
        """Let the head succeed, which is the end of the whole, and return once nothing is left."""
        self.succeed(*self.heads_and_workers(self.pods())[0])
        self.wait_condition("Completed")
        self.wait_nothing_left()

    def heads_and_workers(self, pods: list[Json]) -> tuple[list[Json], list[Json]]:
        heads = [pod for pod in pods if "-pathways-head-" in pod["metadata"]["name"]]
        return heads, [pod for pod in pods if pod not in heads]

    def _job(
        self, name: str, pod: Json, annotations: Json, *, pods: int, replicas: int = 1, backoff_limit: int = 0
    ) -> Json:
        """A replicated job with annotations on the pods, as by the PathwaysJob controller."""
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE_SECONDS} | pod
        fields = annotations | {RUN_SECONDS: str(LONG)}
        job = {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": backoff_limit,
            "template": {"metadata": {"annotations": fields}, "spec": spec},
        }
        return {"name": name, "replicas": replicas, "template": {"spec": job}}


def test_a_head_on_the_nodes_of_its_workers_shares_the_pool_of_one_of_their_slices(cloud: Cloud) -> None:
    life = Pathways(cloud, "colocated")
    life.submit(slices=2, colocated=True, priority_class="colocated-workers")
    pods = life.wait_running(1 + 2 * HOSTS[TOPOLOGY])
    (head,), workers = life.heads_and_workers(pods)
    assert life.pool_of(head) in {life.pool_of(pod) for pod in workers}
    assert {life.pool_of(pod) for pod in workers} == set(life.pools())
    # Workers of either slice may have taken the head's pool first; the other has one of its own.
    assert life.slices() in (["colocated-worker-0"] * 2, ["colocated-worker-0", "colocated-worker-1"])
    assert life.accepted("CreateNodePool") == 2
    life.end_well()


# The embedded scheduler counts pods per affinity term, the real one the pods that match all.


def test_a_head_on_a_cpu_node_has_no_pool_and_each_slice_of_its_workers_one(cloud: Cloud) -> None:
    life = Pathways(cloud, "on-cpu")
    life.submit(slices=2, colocated=False)
    (head,), workers = life.heads_and_workers(life.wait_running(1 + 2 * HOSTS[TOPOLOGY]))
    assert life.pool_of(head) not in life.pools()
    assert {life.pool_of(pod) for pod in workers} == set(life.pools())
    assert life.slices() == ["on-cpu-worker-0", "on-cpu-worker-1"]
    life.end_well()
    life.expect_given_back(2)
