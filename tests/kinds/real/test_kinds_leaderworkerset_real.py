"""LeaderWorkerSets under their own controller, from first leader to last pool: the whole loop."""

from typing import Any

import pytest

from demo.stack import Stack
from tests.field.local_run import LocalRun, Row
from tests.kinds.controllers import with_controllers
from tests.kinds.living import LONG, POOL, Life, is_running
from tests.kinds.plain import a_gpu_pod
from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import HOSTS, LIFE, RUN_SECONDS, select

LWS = "lws-0.7"
pytestmark = with_controllers(LWS)

Json = dict[str, Any]
_PREFIX = "leaderworkerset.sigs.k8s.io/"
BY_GROUP = {f"{_PREFIX}exclusive-topology": POOL}
BY_SUBGROUP = {f"{_PREFIX}subgroup-exclusive-topology": POOL}
TOPOLOGY = "2x4"
ROLL_SECONDS = 400.0
"""Real ones: three groups, one after the other, each with its pods' end and beginning."""


class Set(Life):
    """One LeaderWorkerSet of groups of two hosts, unless their size is given."""

    prefix = "sets"

    def __init__(self, cloud: Cloud, name: str) -> None:
        super().__init__(cloud, name, "LeaderWorkerSet")

    def template(self, *, chips: int = 4, on_slice: bool = True) -> Json:
        """A pod; without chips it tolerates what pods with chips are made to tolerate."""
        container: Json = {"name": "server", "image": "server"}
        if chips:
            container["resources"] = {"limits": {"google.com/tpu": chips}}
        pod: Json = {"containers": [container]}
        if on_slice:
            pod["nodeSelector"] = select(TOPOLOGY) | {LIFE: self.name}
            pod["tolerations"] = [{"key": "google.com/tpu", "operator": "Exists"}]
        return {"metadata": {"annotations": {RUN_SECONDS: str(LONG)}}, "spec": pod}

    def submit(
        self,
        *,
        replicas: int = 1,
        annotations: dict[str, str] | None = None,
        leader: Json | None = None,
        **fields: Any,
    ) -> None:
        template = {"size": HOSTS[TOPOLOGY], "workerTemplate": self.template()} | fields
        if leader is not None:
            template["leaderTemplate"] = leader
        body = {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": self.name, "annotations": annotations or {}},
            "spec": {"replicas": replicas, "leaderWorkerTemplate": template},
        }
        self.create(body)

    def update(self, replicas: int, *, surge: int) -> None:
        """Change the pods' template, which begins a rolling update."""
        rollout = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": surge}}
        template = {"metadata": {"labels": {"revision": "second"}}}
        changed = {"leaderWorkerTemplate": {"workerTemplate": template}, "rolloutStrategy": rollout}
        self.change(replicas=replicas, **changed)

    def lose(self, pod: str) -> None:
        """Delete a pod, and return once there is another one of its name."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}"
        before = (self.cloud.get(path) or {})["metadata"]["uid"]
        self.cloud.delete(path)
        wait_for(
            f"another {pod}", lambda: (self.cloud.get(path) or {}).get("metadata", {}).get("uid", before) != before
        )

    def wait_pools(self, count: int) -> list[str]:
        wait_for(f"{self.name}: {count} pools", lambda: len(self.pools()) == count)
        return self.pools()

    def revisions(self) -> dict[str, set[str]]:
        """Return the revisions of the pods of each group, by its index."""
        found: dict[str, set[str]] = {}
        for pod in self.pods():
            answer = pod["metadata"]["labels"]
            found.setdefault(answer[f"{_PREFIX}group-index"], set()).add(answer.get("revision", "first"))
        return found

    def _running(self, count: int) -> list[Json]:
        """Return the pods once so many run, and none of the others is to stay."""
        found = [pod for pod in self.pods() if not pod["metadata"].get("deletionTimestamp")]
        return found if len(found) == count and all(map(is_running, found)) else []


def test_each_group_has_a_pool_and_a_group_that_leaves_gives_one_back(cloud: Cloud) -> None:
    life = Set(cloud, "groups")
    life.submit(replicas=2, annotations=BY_GROUP)
    pods = life.wait_running(4)
    assert len(life.pools()) == 2
    assert life.pools_of(pods) == set(life.pools())
    life.change(replicas=3)
    life.wait_running(6)
    assert len(life.pools()) == 3
    life.change(replicas=1)
    # Groups of equal shape may have swapped pools, so only the pool that is in use has to stay.
    (pool,) = life.wait_pools(1)
    assert life.pools_of(life.wait_running(2)) == {pool}
    life.end(pools=3)


def test_a_chipless_leader_is_the_leader_of_its_slice_before_its_workers_exist(cloud: Cloud) -> None:
    life = Set(cloud, "chipless")
    life.submit(size=3, annotations=BY_GROUP, leader=life.template(chips=0))
    pods = life.wait_running(3)
    assert len(life.pools()) == 1
    assert life.pools_of(pods) == set(life.pools())
    life.end()
    assert life.accepted("CreateNodePool") == 1


@pytest.mark.parametrize(
    ("name", "policy", "size"),
    [("parts", "LeaderWorker", 4), ("beside", "LeaderExcluded", 5)],
    ids=["with the leader in the first one", "beside an excluded leader on a CPU node"],
)
def test_each_sub_group_has_a_pool_of_its_own(cloud: Cloud, name: str, policy: str, size: int) -> None:
    life = Set(cloud, name)
    leader = life.template(chips=0, on_slice=False) if policy == "LeaderExcluded" else None
    groups = {"subGroupPolicyType": policy, "subGroupSize": 2}
    life.submit(size=size, subGroupPolicy=groups, annotations=BY_SUBGROUP, leader=leader)
    pods = life.wait_running(size)
    assert len(life.pools()) == 2
    for index in ("0", "1"):
        mine = [pod for pod in pods if pod["metadata"]["labels"].get(f"{_PREFIX}subgroup-index") == index]
        assert len(mine) == 2
        assert len(life.pools_of(mine)) == 1
    life.end()
    assert life.accepted("CreateNodePool") == 2


@pytest.mark.parametrize("policy", ["RecreateGroupOnPodRestart", "None"])
def test_a_group_that_lost_a_pod_comes_again_on_the_same_pool(cloud: Cloud, policy: str) -> None:
    """These are the restart policies of 0.7; later versions add RecreateGroupAfterStart."""
    life = Set(cloud, f"lost-{policy[:2].lower()}")
    life.submit(annotations=BY_GROUP, restartPolicy=policy)
    pools = life.pools_of(life.wait_running(2))
    leader = next(pod for pod in life.wait_running(2) if pod["metadata"]["name"] == f"{life.name}-0")
    life.lose(f"{life.name}-0-1")
    if policy != "None":
        # The controller may see the loss once the new worker runs already, beside the old leader.
        was = leader["metadata"]["uid"]
        wait_for("another leader", lambda: was not in {pod["metadata"]["uid"] for pod in life.pods()})
    pods = life.wait_running(2)
    assert life.pools_of(pods) == pools
    again = next(pod for pod in pods if pod["metadata"]["name"] == f"{life.name}-0")
    assert (again["metadata"]["uid"] == leader["metadata"]["uid"]) == (policy == "None")
    life.end(pools=1)


def test_the_surplus_group_of_a_rolling_update_has_a_pool_until_the_update_ends(cloud: Cloud) -> None:
    life = Set(cloud, "rolled")
    life.submit(replicas=2, annotations=BY_GROUP)
    life.wait_running(4)
    life.update(2, surge=1)
    wait_for("a pool for the surplus group", lambda: len(life.pools()) == 3, seconds=ROLL_SECONDS)
    after = {"0": {"second"}, "1": {"second"}}
    wait_for("the end of the update", lambda: life.revisions() == after, seconds=ROLL_SECONDS)
    pods = life.wait_running(4)
    life.wait_pools(2)
    assert life.pools_of(pods) == set(life.pools())
    life.end(pools=3)


def a_pair(life: str, workers: str) -> Json:
    """A leader with an L4, and workers with another GPU: two shapes, so two elastic pools."""
    other = {"cloud.google.com/gke-accelerator": workers}
    return {"leaderTemplate": a_gpu_pod(life), "workerTemplate": a_gpu_pod(life, selector=other)}


def test_a_leader_and_its_workers_with_another_gpu_get_both_pools(cloud: Cloud) -> None:
    life = Set(cloud, "pair")
    life.submit(size=3, **a_pair("pair", "nvidia-tesla-t4"))
    pods = life.wait_running(3)
    assert life.pools_of(pods) == set(life.pools())
    assert len(life.pools()) == 2
    life.end(pools=2)


def test_subgroups_of_one_that_this_version_cannot_make_are_refused(cloud: Cloud, stack: Stack) -> None:
    """Before v0.10.0 the leader and its first worker are in one: kubernetes-sigs/lws#917.

    Only a worker's label shows that. So a leader that is seen alone may have got its own pool.
    """
    told = "LeaderWorkerSet slice_unknown"
    run, row = LocalRun(cloud, stack), Row(file="subgroups-of-one.yaml", workload="prefill", told=told)
    answer = run.play([row])["prefill"]

    assert answer.pods == 3
    assert len(answer.pools) <= 1
    assert "older than v0.10.0" in answer.told[told]
    run.end([row])
