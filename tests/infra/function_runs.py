"""Runs of both functions on the fake GKE that go through every kind of situation.

The fake's log of calls shows what each function needs.
"""

from typing import Any

from msgspec import structs

from shared.capacity_texts import read_policies
from shared.deliver import deliver, deliver_tick
from shared.edges.gke import GkeAdds, GkeTakes
from shared.edges.google import GoogleAccount
from shared.edges.pods import read_template
from shared.engine.reconcile import Role
from shared.kinds.job import JOB, JOB_NAME_ON_POD
from shared.model import labels
from shared.model.names import build_name
from shared.model.pools import PoolNode
from shared.model.workloads import PodView, WorkloadView
from shared.settings import Credentials
from tests.audit_entries import STOCKOUT, an_entry, as_message
from tests.builders import CLUSTER, NOW, a_claim, a_demand_event, a_push, an_over_event
from tests.contract.stand_ins import ask
from tests.engine.world import World

ZONES = "[{priorities: [{location: {zones: [us-east5-b, us-east5-a]}}]}]"
GPU_BODY = {
    "spec": {
        "nodeSelector": {labels.GPU_ACCELERATOR: "nvidia-l4"},
        "containers": [{"name": "c", "resources": {"limits": {labels.GPU_RESOURCE: 1}}}],
    }
}


class Run:
    """Both functions on the fake GKE, with one cluster that both read."""

    def __init__(self, url: str) -> None:
        self.url, self.world = url, World(limit_chips=1000, capacity_policies=read_policies(ZONES))
        account = GoogleAccount(Credentials.ANONYMOUS)
        adds, takes = GkeAdds(url, account), GkeTakes(url, account)
        self.ports = {
            Role.PROVISION: structs.replace(self.world.ports, pools=adds, adds=adds, takes=None),
            Role.COLLECT: structs.replace(self.world.ports, pools=takes, adds=None, takes=takes),
        }
        self.called: dict[Role, set[str]] = {role: set() for role in Role}

    def tick(self, role: Role) -> None:
        """Let a function look at all, and note its calls."""
        self._record(role, lambda: deliver_tick(role, CLUSTER, self.ports[role]))

    def push(self, role: Role, body: bytes) -> None:
        """Send a function a message, and note its calls."""
        self._record(role, lambda: deliver(role, body, self.ports[role]))

    def _record(self, role: Role, act: Any) -> None:
        known = len(self._list_calls())
        self.world.cluster.calls.clear()
        act()
        self.called[role] |= set(self._list_calls()[known:])
        if self.world.cluster.calls:
            self.called[role] |= {"Kubernetes", "GetCluster"}  # which says where the API is

    def _list_calls(self) -> list[str]:
        return [call["method"] for call in ask("GET", f"{self.url}/admin/calls")["calls"]]

    def pass_time(self, seconds: float = 3000) -> None:
        """Let the fake go on, and show the cluster the nodes of its pools."""
        ask("POST", f"{self.url}/admin/clock", {"advance_seconds": seconds})
        self.world.clock.time += seconds
        for pool in ask("GET", f"{self.url}/admin/pools")["pools"]:
            for name in pool["node_names"]:
                node = PoolNode(name=name, pool=pool["pool"], ready=True, ready_at=self.world.clock.time)
                self.world.cluster.nodes.setdefault(name, node)

    def want(self, pods: int) -> None:
        """Let a Job want so many pods with a GPU each, of which one waits."""
        job = a_job(pods)
        self.world.cluster.workloads["Job", "default", "sort"] = job
        template = read_template(GPU_BODY)
        own = structs.replace(template, labels={**template.labels, JOB_NAME_ON_POD: "sort"})
        pod = PodView(
            namespace="default",
            name="sort-x",
            uid="of-sort-x",
            template=own,
            controller_kind="Job",
            controller_name="sort",
            controller_uid=job.uid,
            controller_api_version="batch/v1",
            created_at=self.world.clock.time - 100,
            unschedulable=True,
        )
        self.world.cluster.pods[pod.name] = pod


def a_job(pods: int) -> WorkloadView:
    """A Job of so many pods, each of which runs on any node with a GPU."""
    body = {
        "metadata": {"namespace": "default", "name": "sort", "uid": "of-sort"},
        "spec": {"parallelism": pods, "completions": pods, "template": GPU_BODY},
        "status": {},
    }
    return JOB.read(body, read_template)


def run_all(url: str) -> dict[str, set[str]]:
    """Return what each function called, in GKE's words, through a day of two workloads."""
    run = Run(url)
    ask("POST", f"{url}/admin/faults", {"switch": "outcome", "kind": "stockout"})
    run.world.wait(0)
    run.push(Role.PROVISION, a_push(a_demand_event()))  # create
    run.pass_time(300)
    for role in Role:
        run.tick(role)  # what keeps it from its nodes, and the next way
    ask("DELETE", f"{url}/admin/faults")
    name = build_name(a_claim(), 0)
    for role, status in ((Role.PROVISION, None), (Role.COLLECT, STOCKOUT)):
        run.push(role, a_push(as_message(an_entry("Create", pool=name, status=status))))
    run.want(1)
    run.tick(Role.PROVISION)  # an elastic pool
    run.pass_time()
    run.want(3)
    run.tick(Role.PROVISION)  # raise its maximum
    run.world.cluster.pods.clear()
    run.world.cluster.workloads["Job", "default", "sort"] = a_job(1)
    for _ in range(3):
        run.pass_time(60)
        run.tick(Role.COLLECT)  # lower it again
    run.world.set_jobset(terminal="Completed", terminal_since=NOW)
    run.push(Role.COLLECT, a_push(an_over_event()))  # delete
    return {str(role): calls for role, calls in run.called.items()}
