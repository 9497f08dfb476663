"""The deployed manifests give exporter and functions what they need and nothing else.

Each part does all that it ever asks of the API with a token of its own account. Then each verb of
each rule is taken away in turn: something must fail each time, so no right is idle.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cli.access.kubeconfig import connection_from_kubeconfig
from exporter.exporter_settings import ExporterSettings
from exporter.lease import LeaseLock
from exporter.observed_objects import list_watched
from exporter.watch import open_watch
from shared.edges.kubernetes import KubernetesApi, Stored
from shared.engine.outside import Cluster
from shared.kinds.table import KINDS
from shared.model.decisions import Notice
from shared.model.errors import Denied, KindAbsent, NotFound, ProvisionerError, StaleView
from shared.model.workloads import Parent
from shared.settings import ClusterSettings, Credentials, Settings
from shared.wiring import build_ports
from standins.controlplane.chart import read_local_chart
from standins.controlplane.plane import ControlPlane
from standins.controlplane.tests.controlplane_worlds import World, jobset, wait_for
from standins.kit.kubernetes import MERGE, apply, exists
from tests.claimed_disks import CLASSES, VOLUMES, list_bound, list_unbound

pytestmark = pytest.mark.cluster

CHART = Path(__file__).resolve().parents[2] / "infra/helm"
NAMESPACE = "tpu-provisioner"
EXPORTER = "tpu-provisioner-exporter"
FUNCTIONS = tuple(f"tpu-provisioner-{name}" for name in ("provision", "collect"))
LEASE = ExporterSettings(cluster="c", topic="t").lease_name
BINDING = "tpu-provisioner-functions"
POOL = "rights"
VIOLATION = "403: .*violates PodSecurity .{1,2}restricted"


def objects() -> list[dict[str, Any]]:
    return read_local_chart(CHART)


def roles(account: str) -> list[dict[str, Any]]:
    name = BINDING if account in FUNCTIONS else account
    return [each for each in objects() if each["kind"].endswith("Role") and each["metadata"]["name"] == name]


def single_verbs(account: str) -> list[tuple[str, int, str]]:
    """Every right of an account: kind of role, index of the rule, verb."""
    return [
        (role["kind"], index, verb)
        for role in roles(account)
        for index, rule in enumerate(role["rules"])
        for verb in rule["verbs"]
    ]


def without(account: str, kind: str, index: int, verb: str) -> dict[str, Any]:
    (role,) = [copy.deepcopy(each) for each in roles(account) if each["kind"] == kind]
    role["rules"][index]["verbs"].remove(verb)
    if not role["rules"][index]["verbs"]:
        del role["rules"][index]
    return role


@dataclass
class Account:
    """One part of the product under its own account, and everything that it asks of the API."""

    plane: ControlPlane
    name: str
    api: KubernetesApi
    world: World
    token: Path

    def act(self) -> None:
        (self.act_as_exporter if self.name == EXPORTER else self.act_as_function)()

    def act_as_exporter(self) -> None:
        for kind in list_watched(KINDS):
            # Kubernetes checks the right first, so NotFound of a kind not installed is fine.
            with contextlib.suppress(NotFound):
                list(self.api.list_pages(kind.path, kind.shape, kind.params))
            with contextlib.suppress(NotFound):
                open_watch(self.api, kind.path, kind.params | {"timeoutSeconds": "1"}, kind.shape).close()
        self.plane.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}")
        lock = LeaseLock(self.api, namespace=NAMESPACE, name=LEASE, identity="me", lease_seconds=15)
        assert lock.try_acquire()
        lock.renew()
        if not lock.release():
            raise Denied("the lease could not be given back")
        assert lock.try_acquire()

    def act_as_function(self) -> None:
        cluster = self.wired()
        self.find_disks(cluster)
        found = cluster.get_workload("JobSet", self.world.namespace, "train")
        assert found is not None
        assert [pod for pod in cluster.list_accelerator_pods() if pod.namespace == self.world.namespace]
        assert cluster.list_workload_pods(found)
        for kind in KINDS:
            with contextlib.suppress(KindAbsent):  # the kind is not installed: the right was there to learn it
                cluster.get_workload(kind.name, self.world.namespace, "train")
            if kind.watched:
                cluster.list_workloads(kind.name, {(self.world.namespace, "train")})
            for each in kind.parents:
                parent = Parent(kind=each.name, namespace=self.world.namespace, name="train", uid="")
                assert cluster.get_parent(parent) is None
        for name in (NAMESPACE, "kube-system", self.world.namespace):
            assert cluster.get_namespace(name) is not None
        (node,) = cluster.list_nodes([f"{self.world.namespace}-{POOL}"])
        cluster.list_bound_pods(node.name)
        self.mark_node(cluster, node.name, 1.0)
        self.mark_node(cluster, node.name, None)
        notice = Notice(
            kind="JobSet",
            namespace=self.world.namespace,
            name="train",
            uid=found.uid,
            reason="Tested",
            message="whether Events can be written",
            warning=False,
        )
        for path in self.list_notices():
            self.plane.api.delete(path)
        cluster.write_notice(notice)
        for path in self.list_notices():  # only one that was written long ago is counted up
            self.plane.api.patch(path, json={"lastTimestamp": "2026-01-01T00:00:00Z"}, headers=MERGE)
        self.wired().write_notice(notice)  # by another instance: this one remembers what it has written

    def find_disks(self, cluster: Cluster) -> None:
        """Read the zones of a disk that exists, and of one that a class will make."""
        found = [cluster.find_disk(self.world.namespace, name) for name in ("bound", "later")]
        if unread := [each.unbound for each in found if each and each.unbound]:
            raise Denied("; ".join(unread))  # its pods wait, and their owner is told
        assert [each.zones for each in found if each] == [("us-east5-a",), ("us-east5-c",)]

    def mark_node(self, cluster: Cluster, node: str, since: float | None) -> None:
        """Mark a node. Kubernetes writes to it too, so this may need several tries."""
        for _ in range(20):
            with contextlib.suppress(StaleView):
                cluster.mark_idle(node, since)
                return
        raise AssertionError(f"{node} is written by others all the time")

    def wired(self) -> Cluster:
        """The cluster as the functions are configured for it: address, authority and token file."""
        settings = ClusterSettings(
            endpoint=self.plane.url, ca_file=str(self.plane.layout.authority), token_file=str(self.token)
        )
        name = "projects/p/locations/l/clusters/c"
        return build_ports(Settings(clusters={name: settings}, credentials=Credentials.ANONYMOUS)).clusters[name]

    def list_notices(self) -> list[str]:
        folder = f"/api/v1/namespaces/{self.world.namespace}/events"
        found = self.plane.api.get(folder).json()["items"]
        return [f"{folder}/{event['metadata']['name']}" for event in found if event["reason"] == "Tested"]

    def make_disks(self) -> None:
        space = self.world.namespace
        made = list_bound(space, "bound", space, "us-east5-a") + list_unbound(space, "later", space, "us-east5-c")
        for path, body in made:
            if not exists(self.plane.api, f"{path}/{body['metadata']['name']}"):
                self.plane.api.post(path, json=body)

    def is_denied(self) -> str:
        """Whether something fails for want of a right; what, in the API server's words."""
        try:
            self.act()
        except Denied as error:
            return str(error)
        return ""

    def prepare(self) -> None:
        """Make what the actions begin by finding."""
        self.make_disks()
        lease = {"metadata": {"name": LEASE, "namespace": NAMESPACE}}
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        if not exists(self.plane.api, f"{path}/{LEASE}"):
            self.plane.api.post(path, json=lease)


@pytest.fixture
def account(
    plane: ControlPlane, world: World, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Account]:
    plane.apply(objects())
    # A node to ask for pods of, and none that takes any: the leader waits.
    world.add_pool(POOL, hosts=1, cordoned=True)
    world.submit(jobset("train", slices=1, pods=1))
    wait_for("the leader", world.pods)
    kubeconfig = tmp_path / "kubeconfig"
    plane.write_account_kubeconfig(kubeconfig, NAMESPACE, request.param)
    api = KubernetesApi(connection_from_kubeconfig(kubeconfig))
    token = tmp_path / "token"
    plane.write_account_token(token, NAMESPACE, request.param)
    found = Account(plane, request.param, api, world, token)
    found.prepare()
    wait_for("the rights to be known", lambda: not _prepared_denial(found))
    yield found
    plane.apply(objects())
    for path in (VOLUMES, CLASSES):  # which no namespace takes with it
        plane.api.delete(f"{path}/{world.namespace}")
    # Whoever leads next in this control plane need not wait for it to run out.
    if exists(plane.api, f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"):
        plane.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}")
    api.close()


def _prepared_denial(account: Account) -> str:
    account.prepare()
    return account.is_denied()


@pytest.mark.parametrize(
    ("account", "kind", "index", "verb"),
    [(name, *right) for name in (EXPORTER, *FUNCTIONS) for right in single_verbs(name)],
    indirect=["account"],
)
def test_without_this_right_something_fails(account: Account, kind: str, index: int, verb: str) -> None:
    apply(account.plane.api, [without(account.name, kind, index, verb)])

    denial = wait_for("a denial", lambda: _prepared_denial(account))
    assert f"cannot {verb} resource" in denial or "could not be given back" in denial


def read(path: str) -> Callable[[KubernetesApi, str], object]:
    return lambda api, namespace: api.get(path.format(namespace), msgspec.Raw)


def create(path: str, body: dict[str, Any]) -> Callable[[KubernetesApi, str], object]:
    return lambda api, namespace: api.create(path.format(namespace), body, Stored)


def delete(path: str) -> Callable[[KubernetesApi, str], object]:
    # The product deletes no object, so its client has no method for it.
    return lambda api, namespace: api._send("DELETE", path.format(namespace))


FORBIDDEN_TO_ALL = {
    "read secrets": read("/api/v1/namespaces/{}/secrets"),
    "read secrets of its own namespace": read(f"/api/v1/namespaces/{NAMESPACE}/secrets"),
    "read all secrets": read("/api/v1/secrets"),
    "read configuration": read("/api/v1/namespaces/{}/configmaps"),
    "write configuration": create("/api/v1/namespaces/{}/configmaps", {"metadata": {"name": "x"}}),
    "read other configuration of its own namespace": read(f"/api/v1/namespaces/{NAMESPACE}/configmaps/other"),
    "delete a pod": delete("/api/v1/namespaces/{}/pods/x"),
    "create a pod": create("/api/v1/namespaces/{}/pods", {"metadata": {"name": "x"}}),
    "evict a pod": create("/api/v1/namespaces/{}/pods/x/eviction", {"metadata": {"name": "x"}}),
    "run in a pod": create("/api/v1/namespaces/{}/pods/x/exec", {}),
    "bind a pod": create("/api/v1/namespaces/{}/pods/x/binding", {"metadata": {"name": "x"}}),
    "delete a node": delete("/api/v1/nodes/x"),
    "delete a JobSet": delete("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets/train"),
    "delete a Job": delete("/apis/batch/v1/namespaces/{}/jobs/train-slice-0"),
    "take another namespace's lease": create(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases", {"metadata": {"name": LEASE}}
    ),
    "read another namespace's lease": read(f"/apis/coordination.k8s.io/v1/namespaces/{{}}/leases/{LEASE}"),
    "read another lease of its own namespace": read(
        f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/other"
    ),
    "delete its own lease": delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"),
    "list all leases": read("/apis/coordination.k8s.io/v1/leases"),
    "give itself rights": create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "x"}}
    ),
    "ask for tokens": create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{EXPORTER}/token", {}),
    "impersonate": create("/apis/authorization.k8s.io/v1/subjectaccessreviews", {}),
}
FORBIDDEN_TO_FUNCTIONS = {
    "list all RayJobs": read("/apis/ray.io/v1/rayjobs"),
    "list all CronJobs": read("/apis/batch/v1/cronjobs"),
    "list Events": read("/api/v1/namespaces/{}/events"),
    "read one node": read("/api/v1/nodes/x"),
    "delete Events": delete("/api/v1/namespaces/{}/events/x"),
    "lead": create(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", {"metadata": {"name": LEASE}}),
}
FORBIDDEN_TO_ONE = {
    EXPORTER: {
        "read one pod": read("/api/v1/namespaces/{}/pods/x"),
        "list nodes": read("/api/v1/nodes"),
        "read one JobSet": read("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets/train"),
        "write Events": create("/api/v1/namespaces/{}/events", {"metadata": {"name": "x"}}),
    },
    **dict.fromkeys(FUNCTIONS, FORBIDDEN_TO_FUNCTIONS),
}


@pytest.mark.parametrize("account", FORBIDDEN_TO_ONE, indirect=True)
def test_what_nobody_gave_them_is_refused(account: Account) -> None:
    attempts = FORBIDDEN_TO_ALL | FORBIDDEN_TO_ONE[account.name]
    allowed = []
    for what, attempt in attempts.items():
        try:
            attempt(account.api, account.world.namespace)
        except Denied:
            continue
        except ProvisionerError as error:
            allowed.append(f"{what}: {error}")
        else:
            allowed.append(what)

    assert allowed == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_functions_google_account_is_bound_to_its_role(plane: ControlPlane, name: str) -> None:
    emails = {role: f"tpu-provisioner-{role}@project.iam.gserviceaccount.com" for role in ("provision", "collect")}
    plane.apply(read_local_chart(CHART, {"accounts": emails}))
    user = f"{name}@project.iam.gserviceaccount.com"

    def review(verb: str, resource: str) -> bool:
        spec = {"user": user, "resourceAttributes": {"verb": verb, "resource": resource}}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = plane.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=body).json()
        return bool(answer["status"]["allowed"])

    wait_for("the binding to be known", lambda: review("list", "pods"))
    assert review("get", "pods")
    assert not review("delete", "pods")
    assert not review("list", "secrets")
    plane.apply(objects())


def test_the_namespace_admits_only_restricted_pods(plane: ControlPlane) -> None:
    plane.apply(objects())
    wait_for("the default account", lambda: _has_account(plane))
    loose = {"containers": [{"name": "c", "image": "c"}]}
    strict = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "c",
                "image": "c",
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All"

    with pytest.raises(httpx.HTTPStatusError, match=VIOLATION):
        plane.api.post(path, json={"metadata": {"name": "loose"}, "spec": loose})
    plane.api.post(path, json={"metadata": {"name": "strict"}, "spec": strict})


def _has_account(plane: ControlPlane) -> bool:
    found = plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts").json()["items"]
    return any(each["metadata"]["name"] == "default" for each in found)
