"""GPUs from the first pod to the last pool: one elastic pool per workload and shape, whose size follows demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lives.cloud import Cloud, wait_for
from tests.lives.jobset_bodies import GRACE_SECONDS, LIFE, RUN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.stack.stack import Stack

pytestmark = [pytest.mark.timeout(400), pytest.mark.slow]

Json = dict[str, Any]
LONG = 36_000
"""Virtual seconds: until somebody ends the pods."""
CALLS_MAX = 16
"""Of GKE's API for one life of an elastic pool of six pods: as for any slice, and a look for each further pod. The
sweep reads the pool's size besides, once a minute, which is no call of GKE's."""


@pytest.fixture(scope="module")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack) as cloud:
        yield cloud


class Life:
    """One Job in a namespace of its own; its pools are told from others' by its name."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.cloud, self.name, self.namespace = cloud, name, f"gpu-{name}"
        cloud.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        if cloud.is_real:  # without its account a namespace can have no pods
            account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
            wait_for("the namespace's default account", lambda: cloud.get(account))

    @property
    def path(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{self.name}"

    def submit(
        self, pods: int, *, gpus: int = 1, selector: dict[str, str] | None = None, at_once: int | None = None
    ) -> None:
        """Create a Job of so many pods without indexes, each with so many GPUs."""
        resources = {"requests": {"cpu": "2"}, "limits": {"nvidia.com/gpu": gpus}}
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "nodeSelector": (selector or {"cloud.google.com/gke-accelerator": "nvidia-l4"}) | {LIFE: self.name},
            # GKE's API server adds this to pods that ask for GPUs; not every stand-in does.
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [{"name": "worker", "image": "worker", "resources": resources}],
        }
        template = {"metadata": {"annotations": {RUN_SECONDS: str(LONG)}}, "spec": pod}
        spec = {
            "parallelism": pods if at_once is None else at_once,
            "completions": pods,
            "backoffLimit": 100,
            "template": template,
        }
        self.cloud.create(self.path.rpartition("/")[0], {"metadata": {"name": self.name}, "spec": spec})

    def scale(self, pods: int) -> None:
        self.cloud.patch(self.path, {"spec": {"parallelism": pods}})

    def pods(self) -> list[Json]:
        return self.cloud.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def wait_running(self, count: int) -> list[Json]:
        return wait_for(f"{self.name}: {count} running pods", lambda: self._running(count))

    def wait_nodes(self, count: int) -> None:
        wait_for(f"{self.name}: {count} nodes", lambda: len(self.nodes()) == count)

    def wait_nothing_left(self) -> None:
        wait_for(f"{self.name}: no pools", lambda: not self.pools())
        self.wait_nodes(0)

    def nodes(self) -> list[str]:
        found = self.cloud.items("/api/v1/nodes", labelSelector=f"{LIFE}={self.name}")
        return sorted(each["metadata"]["name"] for each in found)

    def pools(self) -> list[str]:
        return sorted(name for name in self.cloud.pools() if name.startswith(f"{self.name}-"))

    def messages(self, reason: str) -> list[str]:
        found = self.cloud.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [each["message"] for each in found if each["reason"] == reason]

    def calls(self, method: str = "") -> list[Json]:
        mine = [each for each in self.cloud.calls() if each["pool"].startswith(f"{self.name}-")]
        return [each for each in mine if method in ("", each["method"])]

    def accepted(self, method: str) -> int:
        return sum(each["code"] == "OK" for each in self.calls(method))

    def _running(self, count: int) -> list[Json]:
        found = [
            pod
            for pod in self.pods()
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]
        return found if len(found) == count else []


@pytest.mark.proves("Job", "pods that speak", on=("embedded",))
@pytest.mark.proves("Job", "slice", on=("embedded",))
def test_the_pods_of_a_job_share_one_pool_that_goes_when_the_job_is_over(cloud: Cloud) -> None:
    life = Life(cloud, "six")
    life.submit(6)
    pods = life.wait_running(6)
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 6
    assert len(life.pools()) == 1
    assert len(life.nodes()) == 6
    cloud.delete(life.path)
    life.wait_nothing_left()
    assert (life.accepted("CreateNodePool"), life.accepted("DeleteNodePool")) == (1, 1)
    assert life.accepted("SetNodePoolSize") == 0
    assert len([each for each in life.calls() if not each["method"].startswith("compute.")]) <= CALLS_MAX


@pytest.mark.proves("Job", "released when", on=("embedded",))
def test_a_pool_grows_with_its_job_and_gives_back_only_nodes_that_are_empty(cloud: Cloud) -> None:
    life = Life(cloud, "waves")
    life.submit(5, at_once=1)
    life.wait_running(1)
    life.scale(5)
    before = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in life.wait_running(5)}
    assert len(life.pools()) == 1
    assert len(life.nodes()) == 5
    life.scale(2)
    stay = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in life.wait_running(2)}
    life.wait_nodes(2)
    assert {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in life.wait_running(2)} == stay
    assert stay.items() <= before.items()
    assert set(life.nodes()) == set(stay.values())
    assert any("pool_shrinks" in message for message in life.messages("NodePoolResizeStarted"))
    life.scale(0)
    life.wait_nothing_left()
    assert (life.accepted("CreateNodePool"), life.accepted("DeleteNodePool")) == (1, 1)
    assert life.accepted("SetNodePoolSize") <= 1


def test_several_pods_share_the_gpus_of_a_larger_machine(cloud: Cloud) -> None:
    life = Life(cloud, "packed")
    life.submit(
        4,
        selector={
            "cloud.google.com/gke-accelerator": "nvidia-l4",
            "node.kubernetes.io/instance-type": "g2-standard-24",
        },
    )
    pods = life.wait_running(4)
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    assert len(life.nodes()) == 2
    cloud.delete(life.path)
    life.wait_nothing_left()


@pytest.mark.proves("Job", "refused", on=("embedded",))
@pytest.mark.parametrize(
    ("name", "gpus", "kind", "reason"),
    [("unknown", 1, "nvidia-l5", "gpu_unknown"), ("toomany", 9, "nvidia-l4", "shape_unsupported")],
)
def test_gpus_that_no_machine_has_are_refused_where_their_owner_looks(
    cloud: Cloud, name: str, gpus: int, kind: str, reason: str
) -> None:
    life = Life(cloud, name)
    life.submit(2, gpus=gpus, selector={"cloud.google.com/gke-accelerator": kind})
    (message, *_) = wait_for("a refusal", lambda: life.messages("NodePoolRefused"))
    assert reason in message
    assert life.calls() == []
    cloud.delete(life.path)
