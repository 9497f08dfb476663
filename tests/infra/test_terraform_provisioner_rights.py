"""The calls of the functions need exactly what the module grants and docs/rights.md says.

The calls are recorded by the fake GKE, whose log names them as GKE's own audit log does, while the
functions' own code goes through every kind of situation.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest

from shared.capacity_lists import read_policies
from shared.core.decide.demands import decide_demand
from shared.core.demand.demand import Demand
from shared.core.identity.names import build_pool_name
from shared.core.messages import Message
from shared.core.ports import Ports
from shared.deliver import deliver, deliver_sweep
from tests.audit_entries import an_entry, as_message
from tests.builders import CLUSTER, a_demand_event, a_jobset, a_pod, a_push, an_over_event, settings
from tests.component.fakes import FakeCluster, FakeDeadLetters, StepClock
from tests.contract.gke_world import open_edge
from tests.contract.stand_ins import ask, stand_in
from tests.infra.terraform_cli import ROOT, TERRAFORM
from tests.infra.terraform_text import Configuration, read_configuration
from tests.unit.test_elastic import a_gpu_body, a_gpu_job
from tests.unit.test_kind_job import a_pod as a_job_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = ROOT / "docs/rights.md"
MODULE = TERRAFORM / "modules/provisioner"
NOW = 1_800_000_000.0
PERMISSIONS = {
    # What each call is refused without; for changes, GKE's audit log names the permission
    # (https://cloud.google.com/kubernetes-engine/docs/how-to/iam).
    "CreateNodePool": "container.clusters.update",
    "DeleteNodePool": "container.clusters.update",
    "GetNodePool": "container.clusters.get",
    "ListNodePools": "container.clusters.get",
    "ListOperations": "container.operations.list",
    "SetNodePoolSize": "container.clusters.update",
    # https://cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers
    "compute.instanceGroupManagers.get": "compute.instanceGroupManagers.get",
    "compute.instanceGroupManagers.listManagedInstances": "compute.instanceGroupManagers.get",
    "compute.instanceGroupManagers.listErrors": "compute.instanceGroupManagers.get",
    "compute.instanceGroupManagers.deleteInstances": "compute.instanceGroupManagers.update",
    # https://cloud.google.com/kubernetes-engine/docs/concepts/network-isolation: the DNS endpoint
    "Kubernetes": "container.clusters.connect",
}
GOOGLE_CALLS = {
    ("shared/edges/gke.py", "a client", "create_node_pool"),
    ("shared/edges/gke.py", "a client", "get_node_pool"),
    ("shared/edges/gke.py", "a client", "list_node_pools"),
    ("shared/edges/gke.py", "a client", "list_operations"),
    ("shared/edges/gke.py", "a client", "delete_node_pool"),
    ("shared/edges/gke.py", "a client", "set_node_pool_size"),
    ("shared/edges/instance_groups.py", "GET", "compute/v1/{}"),
    ("shared/edges/instance_groups.py", "GET", "compute/v1/{}/listErrors"),
    ("shared/edges/instance_groups.py", "POST", "compute/v1/{}/deleteInstances"),
    ("shared/edges/instance_groups.py", "POST", "compute/v1/{}/listManagedInstances"),
    ("shared/edges/pubsub_topic.py", "a client", "publish"),
}
"""Every call of a Google API in the deployed code. A new one needs a permission, a row here and one
there."""


class RecordingCluster(FakeCluster):
    """Says whether anything was asked of it."""

    asked = False

    def begin(self, method: str) -> None:
        self.asked = True
        super().begin(method)


class Run:
    """One function on the fake GKE, in a world of its own."""

    def __init__(self, url: str, job: str) -> None:
        self.url, self.job = url, job
        self.cluster, self.kept, self.clock = RecordingCluster(), FakeDeadLetters(), StepClock(NOW)
        self.pools = open_edge(url)
        self.pod, self.jobset = a_pod(jobset=job, unschedulable_since=NOW - 3600), a_jobset(name=job)
        self.workload = self.jobset
        self.cluster.add(self.pod, self.workload)

    def ports(self, **overrides: Any) -> Ports:
        return Ports(
            settings=settings(**overrides),
            pools=self.pools,
            clusters={CLUSTER: self.cluster},
            clock=self.clock,
            dead_letters=self.kept,
        )

    def provision(self, **overrides: Any) -> None:
        deliver("provision", a_push(a_demand_event(self.pod)), self.ports(**overrides), {})

    def collect(self) -> None:
        deliver("collect", a_push(an_over_event(name=self.job)), self.ports(), {})

    def settle(self, act: str, **overrides: Any) -> None:
        demand = decide_demand(CLUSTER, self.pod, self.workload, settings())
        assert isinstance(demand, Demand)
        entry = an_entry(act, pool=build_pool_name(demand.claim))
        deliver("settle", a_push(as_message(entry)), self.ports(**overrides), {})

    def sweep(self, **overrides: Any) -> None:
        deliver_sweep(self.ports(**overrides), {})

    def want(self, pods: int) -> None:
        """Let a Job want so many pods with a GPU each, of which one waits."""
        job = a_gpu_job(parallelism=pods, completions=pods)
        waiting = dataclasses.replace(
            a_job_pod(None, template=a_gpu_body()), name=f"{self.job}-x", unschedulable=True
        )
        self.pod = dataclasses.replace(
            waiting, uid=self.job, controller_name=self.job, unschedulable_since=NOW - 60
        )
        self.workload = dataclasses.replace(job, name=self.job)
        self.cluster.add(self.workload, self.pod)

    def let_nodes_come(self) -> None:
        """Show the cluster the nodes of each pool of the fake; the waiting pod can use none."""
        for pool in ask("GET", f"{self.url}/admin/pools")["pools"]:
            self.cluster.nodes[pool["pool"]] = pool["node_names"]
        self.cluster.pods.clear()

    def pass_time(self) -> None:
        ask("POST", f"{self.url}/admin/clock", {"advance_seconds": 3000})

    def starve(self) -> None:
        """Let GKE find no capacity for a pool of a sweep, so that the next one reads the groups."""
        ask("POST", f"{self.url}/admin/faults", {"switch": "outcome", "kind": "stockout"})
        self.sweep()
        ask("POST", f"{self.url}/admin/clock", {"advance_seconds": 120})
        self.clock.advance(120)
        self.sweep()
        ask("DELETE", f"{self.url}/admin/faults")
        self.pass_time()

    def end_workload(self) -> None:
        self.cluster.pods.clear()
        self.cluster.add(dataclasses.replace(self.jobset, terminal="Completed", terminal_since=NOW))


def record_provision(run: Run) -> None:
    """Create; find the own pool; count chips; retry after a failed pool; grow an elastic pool."""
    ask("POST", f"{run.url}/admin/faults", {"switch": "outcome", "kind": "stockout"})
    run.provision(limit_chips=1000)
    run.pass_time()
    ask("DELETE", f"{run.url}/admin/faults")
    run.clock.advance(3000)
    run.provision()
    for pods in (1, 3):
        run.want(pods)
        run.provision()
        run.pass_time()


def record_collect(run: Run) -> None:
    """Give a pool back."""
    run.end_workload()
    run.collect()


def record_sweep(run: Run) -> None:
    """Create for leaders past the grace; delete for ended workloads; remove nodes; grow a pool.
    The elastic pool has a list of capacity, so it gives up nodes that GKE has not made.
    """
    zones = read_policies("[{priorities: [{location: {zones: [us-east5-b, us-east5-a]}}]}]")
    listed = {"capacity_policies": zones}
    run.starve()
    run.want(3)
    run.sweep(**listed)
    run.pass_time()
    run.want(1)
    run.cluster.pods.clear()
    run.sweep(**listed)
    run.let_nodes_come()
    for _ in range(3):
        run.sweep(grace_seconds=0, **listed)
    run.pod = a_pod(jobset=run.job)
    run.cluster.add(run.pod)
    run.sweep()
    run.pass_time()
    run.end_workload()
    run.sweep()
    for pods in (1, 3):
        run.want(pods)
        run.sweep()
        run.pass_time()


def prepare_settle(run: Run) -> None:
    """Let the creation of a slice's pool fail, and an elastic pool run."""
    pod, workload = run.pod, run.workload
    ask("POST", f"{run.url}/admin/faults", {"switch": "outcome", "kind": "stockout"})
    run.provision()
    run.pass_time()
    ask("DELETE", f"{run.url}/admin/faults")
    run.want(1)
    run.provision()
    run.pod, run.workload = pod, workload
    run.clock.advance(3000)


def record_settle(run: Run) -> None:
    """Replace a failed pool; grow an elastic pool; give the place to a slice that waits for one."""
    run.settle("Create", limit_chips=1000)
    run.want(3)
    waits = a_pod(jobset=f"{run.job}-next", uid="of-next", unschedulable_since=NOW - 60)
    run.cluster.add(a_jobset(name=f"{run.job}-next"), waits)
    run.settle("Delete")


RUNS: dict[str, Callable[[Run], None]] = {
    "provision": record_provision,
    "collect": record_collect,
    "settle": record_settle,
    "sweep": record_sweep,
}
PREPARED: dict[str, Callable[[Run], None]] = {"collect": Run.provision, "settle": prepare_settle}
"""What somebody else does before, whose calls do not count."""


@pytest.fixture(scope="module")
def gke(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    command = ("standins.fakegke", "serve", "--project", "p", "--location", "us-east5", "--cluster", "c")
    with stand_in(tmp_path_factory.mktemp("gke"), *command, "--manual-clock") as ports:
        yield ports["rest"]


@pytest.fixture(scope="module")
def recorded(gke: str) -> dict[str, set[str]]:
    """What each function called, in GKE's words."""
    found: dict[str, set[str]] = {}
    for function, act in RUNS.items():
        run = Run(gke, f"of-{function}")
        if prepare := PREPARED.get(function):
            prepare(run)
            run.pass_time()
            run.cluster.asked = False
        before = len(ask("GET", f"{gke}/admin/calls")["calls"])
        act(run)
        calls = ask("GET", f"{gke}/admin/calls")["calls"][before:]
        found[function] = {call["method"] for call in calls}
        if run.cluster.asked:
            found[function].add("Kubernetes")
    return found


@pytest.fixture(scope="module")
def module() -> Configuration:
    return read_configuration(MODULE)


def test_every_google_call_in_the_deployed_code_is_known_here() -> None:
    found = {
        (str(path.relative_to(ROOT)), *call)
        for room in ("shared", "exporter", "functions")
        for path in (ROOT / room).rglob("*.py")
        for call in google_calls(path.read_text())
    }

    assert found == GOOGLE_CALLS


def test_the_role_grants_what_every_function_calls_and_nothing_else(
    recorded: dict[str, set[str]], module: Configuration
) -> None:
    roles = {each.address: each.body for each in module.of("resource", "google_project_iam_custom_role")}
    shared = set(roles["google_project_iam_custom_role.node_pools"]["permissions"])
    of_sizes = module.locals["size_permissions"]
    of_creations = roles["google_project_iam_custom_role.creations"]["permissions"]
    further = of_sizes | {name: [*of_sizes[name], *of_creations] for name in ("settle", "sweep")}

    assert {name: {PERMISSIONS[call] for call in calls} for name, calls in recorded.items()} == {
        name: shared | set(further.get(name, ())) for name in RUNS
    }


def test_the_page_names_every_permission_with_its_calls(recorded: dict[str, set[str]]) -> None:
    said = {(who, permission): set(calls.split(", ")) for who, permission, calls, _ in table("permission")}
    wanted = {
        (function, permission): {call for call in calls if PERMISSIONS[call] == permission}
        for function, calls in recorded.items()
        for permission in {PERMISSIONS[call] for call in calls}
    }

    assert said == wanted


def test_the_page_names_every_grant_of_the_module(module: Configuration) -> None:
    said = {address: (who, role) for who, role, _, _, address in table("role")}
    grants = {
        each.address: each.body["role"]
        for each in module.of("resource")
        if "_iam_" in each.type and "role" in each.body
    }

    assert said.keys() == grants.keys()
    assert {address: role for address, (_, role) in said.items() if role != "the custom role above"} == {
        address: role
        for address, role in grants.items()
        if not role.startswith("${google_project_iam_custom_role")
    }


def test_only_those_who_create_pools_may_use_the_accounts_of_nodes(
    recorded: dict[str, set[str]], module: Configuration
) -> None:
    (grant,) = [
        each
        for each in module.of("resource", "google_service_account_iam_member")
        if each.body["role"] == "roles/iam.serviceAccountUser"
    ]
    granted = set(re.findall(r'"(provision|collect|settle|sweep)"', grant.body["for_each"]))

    assert granted == {function for function, calls in recorded.items() if "CreateNodePool" in calls}


def test_pubsubs_agent_makes_tokens_of_the_push_account_only(module: Configuration) -> None:
    (grant,) = [
        each for each in module.of("resource") if each.body.get("role") == "roles/iam.serviceAccountTokenCreator"
    ]

    assert grant.body["service_account_id"] == '${google_service_account.this["push"].name}'
    assert grant.body["member"] == "${local.pubsub_agent}"


def test_only_those_who_keep_dead_letters_may_publish_them(gke: str, module: Configuration) -> None:
    keepers = set()
    for function in ("provision", "collect", "settle"):
        run = Run(gke, "unreadable")
        deliver(function, a_push(Message(data=b"?", attributes={})), run.ports(), {})
        if run.kept.kept:
            keepers.add(function)

    assert keepers == set(module.locals["filters"])
    (grant,) = [
        each for each in module.of("resource") if each.address == "google_pubsub_topic_iam_member.functions"
    ]
    assert grant.body["for_each"] == "${local.pushed}"


def test_every_grant_of_the_module_names_one_holder(module: Configuration) -> None:
    """Grants go only to our accounts and Google's agents, not to groups, domains or all users."""
    holders = [
        member
        for each in module.of("resource")
        if "_iam_" in each.type and "role" in each.body
        for member in [each.body.get("member"), *each.body.get("members", [])]
        if member is not None
    ]

    assert len(holders) > 8
    assert [
        each for each in holders if not re.search(r"google_service_account\.this|local\.|writer_identity", each)
    ] == []


def google_calls(source: str) -> Iterator[tuple[str, str]]:
    """Yield verb and path of each ``….call("VERB", f"path")``, what is filled in as ``{}``.

    Of a client's call, ``self._call("method", …)`` or ``….method(…, retry=…)``, yield the method.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "_call":
            assert isinstance(node.args[0], ast.Constant), "write out the method of a call"
            yield "a client", str(node.args[0].value)
        retried = isinstance(node, ast.Call) and any(each.arg == "retry" for each in node.keywords)
        if retried and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield "a client", node.func.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call":
            verb, path = node.args[0], node.args[1]
            assert isinstance(verb, ast.Constant), "a call whose verb is not written out cannot be judged"
            assert isinstance(path, ast.JoinedStr), "a call whose path is not written out cannot be judged"
            parts = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in path.values]
            yield str(verb.value), "".join(parts)


def table(second_column: str) -> list[list[str]]:
    """Return the rows of the page's table with that second column, back-quotes taken off."""
    for block in re.split(r"\n\n", PAGE.read_text()):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if line[0] == "|"
        ]
        if rows and rows[0][1] == second_column:
            return [[cell.replace("`", "") for cell in row] for row in rows[2:]]
    raise AssertionError(f"docs/rights.md has no table with the column {second_column!r}")
