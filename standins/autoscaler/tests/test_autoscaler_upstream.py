"""What upstream's autoscaler does with groups and pods, on the real control plane.

The stand-in plays the same table in `test_autoscaler_model.py`. Here the cluster is a namespace of
the real control plane, and the cloud the fake GKE in a process. Time is short: so many virtual
seconds pass in a real one. What a kubelet does for pods is done here.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import httpx
import pytest
from google.cloud import container_v1

from standins.autoscaler.model import Times
from standins.autoscaler.node_groups import NodeGroups
from standins.autoscaler.tests.autoscaler_scenarios import UPSTREAM, Row, list_rows
from standins.autoscaler.tests.autoscaler_world import POOL, AutoscalerWorld, PodEvent, build_pool, build_template
from standins.autoscaler.upstream import running_upstream
from standins.controlplane.building import find_build
from standins.controlplane.plane import ControlPlane
from standins.controlplane.programs import read_products
from standins.google.tests.fakegke_worlds import fake_process, open_transport
from standins.kit.kubernetes import MERGE
from tests.loop.cloud import wait_for
from tests.loop.plane_worlds import AT_ONCE, World

NAME = "autoscaler-1.33"
pytestmark = [pytest.mark.cluster, pytest.mark.controller(NAME), pytest.mark.timeout(1500)]
CLUSTER = "projects/demo/locations/us-east5/clusters/alpha"
KEPT = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
FAST, SLOW = 60.0, 20.0
PLANES = 4
"""So many control planes run side by side, because a scenario mostly waits for virtual minutes. An
autoscaler sees its whole cluster, so each has its own."""


class ScaledJobs(World):
    """A namespace for Jobs."""

    LIST: ClassVar = "/apis/batch/v1/namespaces/{}/jobs"


class RealWorld(AutoscalerWorld):
    """The real autoscaler on the real control plane, used as a context manager."""

    def __init__(
        self, plane: ControlPlane, program: Path, folder: Path, *, speed: float = FAST, threshold: float = 0.5
    ) -> None:
        self._plane, self._program, self._folder = plane, program, folder
        self._speed, self._threshold = speed, threshold
        self._pools: list[str] = []
        self.STEP, self.LEAST_WAIT = speed / 2, 90 * speed  # type: ignore[misc]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._remove_nodes)
            options = ("--speed", str(self._speed), "--kubernetes", str(self._plane.kubeconfig))
            fake = stack.enter_context(fake_process(self._folder, *options))
            self._rest = stack.enter_context(httpx.Client(base_url=fake.addresses["rest"], trust_env=False))
            client = container_v1.ClusterManagerClient(transport=open_transport(fake.addresses["rest"]))
            self._gke = stack.enter_context(client)
            self._groups = NodeGroups(self._rest, CLUSTER)
            self._jobs = stack.enter_context(ScaledJobs(self._plane))
            times = Times(
                loop=1,
                unneeded=600 / self._speed,
                delay_after_add=600 / self._speed,
                backoff_first=300 / self._speed,
                backoff_longest=1800 / self._speed,
                provision_max=900 / self._speed,
                utilization=self._threshold,
            )
            kubeconfig = self._plane.kubeconfig
            stack.enter_context(running_upstream(self._program, kubeconfig, self._groups, self._folder, times))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def now(self) -> float:
        return time.monotonic() * self._speed

    def add_pool(self, name: str, *, hosts: int = 4, **changes: Any) -> None:
        self._pools.append(name)
        self._gke.create_node_pool(parent=CLUSTER, node_pool=build_pool(name, hosts, changes))
        running = container_v1.NodePool.Status.RUNNING
        wait_for(f"pool {name}", lambda: self._read_pool(name).status == running)

    def add_pod(self, name: str, **changes: Any) -> None:
        job = {"parallelism": 1, "completions": 1, "template": build_template(changes)}
        self._jobs.submit({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": job})

    def end_pod(self, name: str) -> None:
        for pod in self._list_pods(name):
            self._jobs.finish(pod, "Succeeded")

    def add_fault(self, **fault: Any) -> None:
        self._rest.post("/admin/faults", json=fault).raise_for_status()

    def clear_faults(self) -> None:
        self._rest.delete("/admin/faults").raise_for_status()

    def keep_node(self, node: str, *, kept: bool = True) -> None:
        body = {"metadata": {"annotations": {KEPT: "true" if kept else None}}}
        self._plane.api.patch(f"/api/v1/nodes/{node}", json=body, headers=MERGE)

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            for pod in self._jobs.pods():
                self._do_as_kubelet(pod)
            time.sleep(max(0.0, min(0.3, (until - self.now) / self._speed)))

    def list_nodes(self, pool: str) -> list[str]:
        found = self._jobs.read_all(f"/api/v1/nodes?labelSelector={POOL}={pool}")
        return [each["metadata"]["name"] for each in found]

    def read_target(self, pool: str) -> int:
        (group,) = (each for each in self._groups.read() if each.pool == pool)
        return group.target

    def find_node_of(self, pod: str) -> str:
        return next((str(each["spec"].get("nodeName", "")) for each in self._list_pods(pod)), "")

    def list_events(self, pod: str, reason: str) -> list[PodEvent]:
        found = self._jobs.read_all(f"/api/v1/namespaces/{self._jobs.namespace}/events")
        return [
            PodEvent(0.0, reason, each["message"], each["type"])
            for each in found
            if each["reason"] == reason and each["involvedObject"]["name"].rpartition("-")[0] == pod
        ]

    def _read_pool(self, name: str) -> container_v1.NodePool:
        return self._gke.get_node_pool(name=f"{CLUSTER}/nodePools/{name}")

    def _list_pods(self, job: str) -> list[dict[str, Any]]:
        """Return the pods of a Job that nothing ends."""
        return [
            pod
            for pod in self._jobs.pods()
            if pod["metadata"]["labels"]["job-name"] == job
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"]["phase"] in ("Pending", "Running")
        ]

    def _do_as_kubelet(self, pod: dict[str, Any]) -> None:
        """Let a pod that has a node run, and one that ends be gone."""
        path = f"/api/v1/namespaces/{self._jobs.namespace}/pods/{pod['metadata']['name']}"
        if "deletionTimestamp" in pod["metadata"]:
            try:
                self._plane.api.request("DELETE", path, json=AT_ONCE)
            except httpx.HTTPStatusError as error:
                if error.response.status_code != HTTPStatus.NOT_FOUND:  # its node has gone, with its pods
                    raise
        elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
            self._jobs.finish(pod, "Running")

    def _remove_nodes(self) -> None:
        for pool in self._pools:
            for node in self.list_nodes(pool):
                self._plane.api.delete(f"/api/v1/nodes/{node}")


@pytest.fixture(scope="module")
def errors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, BaseException]:
    """What went wrong with the rows that a person has chosen, by the scenario's name."""
    chosen = [each.callspec.params.get("row") for each in request.session.items if hasattr(each, "callspec")]
    rows = [row for row in list_rows(UPSTREAM) if row in chosen]
    program = find_build(read_products()[NAME]).binary(NAME)
    errors: dict[str, BaseException] = {}

    def play(some: list[Row]) -> None:
        with ControlPlane() as plane:
            for row in some:
                speed = SLOW if row.slow else FAST
                folder = tmp_path_factory.mktemp("row")
                try:
                    with RealWorld(plane, program, folder, speed=speed, threshold=row.threshold) as world:
                        row.play(world)
                except BaseException as error:  # noqa: BLE001 -- the test of this very row raises it
                    errors[row.play.__name__] = error

    with ThreadPoolExecutor(PLANES) as threads:
        list(threads.map(play, [rows[place::PLANES] for place in range(min(PLANES, len(rows)))]))
    return errors


@pytest.mark.parametrize("row", list_rows(UPSTREAM), ids=lambda row: row.play.__name__)
def test_upstream_does_what_an_autoscaler_does(row: Row, errors: dict[str, BaseException]) -> None:
    if row.play.__name__ in errors:
        raise errors[row.play.__name__]
