"""The chart gives exporter and functions what they need and nothing else.

Each part does all that it ever asks of the API with a token of its own account. Then each right is
taken away in turn: something must fail each time, so no right is idle.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pytest

from cli.access.connections import connection_from_kubeconfig
from exporter.exporter_settings import ExporterSettings
from exporter.lease import LeaseLock
from exporter.observed_objects import list_observed
from shared.edges.cluster import KubernetesCluster
from shared.edges.kubernetes import KubernetesApi
from shared.edges.kueue import KueueQueues
from shared.kinds.table import KINDS, PARENT
from shared.model.errors import Denied, KindAbsent, NotFound, StaleView
from shared.model.names import ObjectName
from shared.model.workloads import Notice, WorkloadView
from standins.controlplane.chart import read_local_chart
from standins.controlplane.plane import ControlPlane
from standins.kit.kubernetes import exists, open_client
from tests.infra.chart import CHART, EXPORTER, NAMESPACE
from tests.loop.cloud import wait_for
from tests.loop.plane_worlds import World, jobset
from tests.loop.surroundings import API, OUR_CHECK, QUEUE, build, list_bound, list_queue, list_unbound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.engine.outside import Cluster
    from tests.loop.bodies import Json

KUEUE = "kueue-0.15"
pytestmark = [pytest.mark.cluster, pytest.mark.controller(KUEUE), pytest.mark.timeout(900)]
PROVISION, COLLECT = (f"tpu-provisioner-{name}" for name in ("provision", "collect"))
ACCOUNTS = (EXPORTER, PROVISION, COLLECT)
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE = ExporterSettings(cluster="c", topic="t").lease_name
CLUSTER = "projects/p/locations/l/clusters/c"
BRIEFLY = {"watch": "1", "timeoutSeconds": "1"}
OBJECTS = read_local_chart(CHART, {"kueue": True})


@dataclass
class Account:
    """One part of the product under its own account, and everything that it asks of the API."""

    plane: ControlPlane
    name: str
    world: World
    api: KubernetesApi

    def act(self) -> None:
        """Do all that this part ever does; raises Denied for want of a right."""
        self.act_as_exporter() if self.name == EXPORTER else self.act_as_function()

    def act_as_exporter(self) -> None:
        for kind in list_observed(CLUSTER, KINDS, queues=True):
            # Kubernetes checks the right first, so NotFound of a kind not installed is fine.
            with contextlib.suppress(NotFound):
                list(self.api.list_pages(kind.path, kind.params))
            with contextlib.suppress(NotFound):
                self.api.stream(kind.path, {**kind.params, **BRIEFLY}, silence_seconds=30).close()
        if exists(self.plane.api, f"{LEASES}/{LEASE}"):
            self.plane.api.delete(f"{LEASES}/{LEASE}")
        lock = LeaseLock(self.api, namespace=NAMESPACE, name=LEASE, identity="me", lease_seconds=15)
        assert lock.try_acquire()
        lock.renew()
        if not lock.release():
            raise Denied("leases could not be given back: update")
        assert lock.try_acquire()

    def act_as_function(self) -> None:
        cluster, space = KubernetesCluster(self.api), self.world.namespace
        disks = [cluster.find_disk(space, name) for name in ("bound", "later")]
        if unread := [each.unbound for each in disks if each and each.unbound]:
            raise Denied("; ".join(unread))  # its pods wait, and their owner is told
        workload = cluster.get_workload("JobSet", space, "train")
        assert workload
        assert cluster.list_workload_pods(workload)
        assert [pod for pod in cluster.list_accelerator_pods() if pod.namespace == space]
        for kind in KINDS:
            with contextlib.suppress(KindAbsent):  # not installed: the right was there to learn it
                cluster.get_workload(kind.name, space, "train")
            if kind.watched:
                cluster.list_workloads(kind.name, {(space, "train")})
        cluster.explain_parent(ObjectName(kind=PARENT.name, namespace=space, name="train", uid=""))
        assert cluster.get_namespace(space)
        (node,) = cluster.list_nodes([f"{space}-pool"])
        cluster.list_bound_pods(node.name)
        for since in (1.0, None):
            wait_for("the node's mark", lambda since=since: mark_node(cluster, node.name, since))  # type: ignore[misc]
        self.write_notices(workload)
        self.ask_kueue()

    def write_notices(self, workload: WorkloadView) -> None:
        """Write an Event, and again as another instance, which does not remember it."""
        folder = f"/api/v1/namespaces/{workload.namespace}/events"
        words = {"reason": "Tested", "message": "whether Events can be written"}
        notice = Notice(subject=workload, warning=False, **words)
        for event in self.plane.api.get(folder).json()["items"]:
            if event["reason"] == "Tested":
                self.plane.api.delete(f"{folder}/{event['metadata']['name']}")
        for _ in range(2):
            KubernetesCluster(self.api).write_notice(notice)

    def ask_kueue(self) -> None:
        """Read queued workloads with their flavors; `provision` answers their checks too."""
        queues = KueueQueues(self.api)
        (check,) = queues.list_checks()
        queued = next(each for each in queues.list_workloads() if each.owner.name == "queued")
        queues.view_owner(queued)
        if self.name == PROVISION:
            queues.mark_active(check)
            with contextlib.suppress(StaleView):  # Kueue has just written it, so the next look tells
                queues.write_state(queued, queued.checks[0])

    def find_denial(self) -> str:
        """Return what fails for want of a right, in the API server's words."""
        try:
            self.act()
        except Denied as error:
            return str(error)
        return ""


def mark_node(cluster: Cluster, node: str, since: float | None) -> bool:
    """Mark a node; Kubernetes writes to it too, so this may need several tries."""
    with contextlib.suppress(StaleView):
        cluster.mark_idle(node, since)
        return True
    return False


def list_roles(account: str) -> list[Json]:
    """Return the roles that a binding of the chart gives to an account."""
    names = {
        each["roleRef"]["name"]
        for each in OBJECTS
        if each["kind"].endswith("RoleBinding")
        and account in {subject["name"].rpartition(":")[2] for subject in each["subjects"]}
    }
    return [each for each in OBJECTS if each["kind"].endswith("Role") and each["metadata"]["name"] in names]


def list_lesser(role: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield verb and resource of each right of a role, and the role without it."""
    rights = [
        rule | {"resources": [resource], "verbs": [verb]}
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    for place, right in enumerate(rights):
        lesser = role | {"rules": rights[:place] + rights[place + 1 :]}
        yield right["verbs"][0], right["resources"][0], lesser


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane with Kueue, for all tests of this module; they keep it whole."""
    with ControlPlane(KUEUE) as plane:
        plane.apply(OBJECTS)
        yield plane


@pytest.fixture
def account(plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Account]:
    """A part of the product beside a waiting JobSet, a queued one, a node and two claims."""
    plane.write_account_kubeconfig(tmp_path / "kubeconfig", NAMESPACE, request.param)
    api = KubernetesApi(connection_from_kubeconfig(tmp_path / "kubeconfig"))
    with World(plane) as world:
        space = world.namespace
        disks = list_bound(space, "bound", space, "us-east5-a") + list_unbound(space, "later", space, "us-east5-c")
        queue = [build(*OUR_CHECK), *list_queue(space, space, {"chips": 64, "check": True})]
        for path, body in [*disks, *queue]:
            plane.api.post(path, json=body)
        world.add_pool("pool", hosts=1, cordoned=True)  # a node to ask for pods of, and to mark
        world.submit(jobset("train", slices=1, pods=1))
        queued = jobset("queued", slices=1, pods=1)
        queued["metadata"]["labels"] = {QUEUE: space}
        world.submit(queued)
        wait_for("the leader", world.pods)
        activate_checks(plane)
        wait_for("its check", lambda: has_check(world))
        yield Account(plane, request.param, world, api)
    plane.apply(OBJECTS)
    for path, body in [*disks, *queue]:
        if "/namespaces/" not in path:
            plane.api.delete(f"{path}/{body['metadata']['name']}")


def activate_checks(plane: ControlPlane) -> None:
    """Mark our checks active, as `provision` does; without that Kueue reserves no quota."""
    api = KubernetesApi(connection_from_kubeconfig(plane.kubeconfig))
    queues = KueueQueues(api)
    for check in queues.list_checks():
        queues.mark_active(check)


def has_check(world: World) -> bool:
    """Return whether Kueue has asked for our check of a workload in the namespace."""
    queued = world.read_all(f"{API}/namespaces/{world.namespace}/workloads")
    return any(each.get("status", {}).get("admissionChecks") for each in queued)


@pytest.mark.parametrize("account", ACCOUNTS, indirect=True)
def test_without_any_one_right_something_fails(account: Account) -> None:
    wait_for("the rights to be enough", lambda: not account.find_denial())
    for role in list_roles(account.name):
        for verb, resource, lesser in list_lesser(role):
            account.plane.apply([lesser])
            denial = wait_for(f"{verb} {resource} is missed", account.find_denial)
            assert f"cannot {verb} resource" in denial or "given back" in denial
            assert resource.partition("/")[0] in denial
            account.plane.apply([role])
            wait_for("the rights to be enough", lambda: not account.find_denial())


@pytest.mark.parametrize("account", [EXPORTER], indirect=True)
def test_the_exporter_reaches_its_own_lease_only(account: Account, tmp_path: Path) -> None:
    """The one right with a scope; a right that is too much would be idle above."""
    elsewhere = LEASES.replace(NAMESPACE, account.world.namespace)
    with open_client(tmp_path / "kubeconfig") as client:
        for method, path in (("GET", f"{LEASES}/other"), ("GET", f"{elsewhere}/{LEASE}"), ("POST", elsewhere)):
            answer = client.request(method, path, json={"metadata": {"name": "x"}})
            assert answer.status_code == httpx.codes.FORBIDDEN, path
