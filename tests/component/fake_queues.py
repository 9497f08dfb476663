"""Kueue as a small world: Workloads with checks, and Kueue's own steps after an answer."""

import dataclasses

from shared.core.errors import StaleView
from shared.core.kueue import Check, CheckState, QueuedWorkload, format_active
from shared.core.workloads import WorkloadView
from tests.builders import CLUSTER, NOW
from tests.component.fakes import FakeCluster
from tests.component.plans import Plans
from tests.component.world import World

CHECK = "capacity"
JOBSET_API = "jobset.x-k8s.io/v1alpha2"


class FakeQueues(Plans):
    """Kueue in one cluster; its flavor adds nothing unless a test sets `added`."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self.checks = [Check(name=CHECK, active=False)]
        self.workloads: dict[str, QueuedWorkload] = {}
        """By the name of the owner."""
        self.retry_seconds: int | None = None
        self.writes = 0
        self.views = 0
        self.added: dict[str, str] = {}
        """Node labels of the flavor."""

    # --- Kueue's own steps ---

    def reserve(self, owner: WorkloadView, *, at: float, retries: int = 0, api: str = JOBSET_API) -> None:
        """Reserve quota for a suspended workload; its check is Pending."""
        self.workloads[owner.name] = QueuedWorkload(
            namespace=owner.namespace,
            name=f"of-{owner.name}",
            uid=f"uid-of-queued-{owner.name}",
            version="1",
            owner_api=api,
            owner_kind=owner.kind,
            owner_name=owner.name,
            owner_uid=owner.uid,
            flavors={"workers": ("flavor",)},
            checks=(CheckState(name=CHECK, state="Pending", since="2026-01-01T00:00:00Z", retries=retries),),
            reserved_at=at,
            holds_quota=True,
        )

    def follow(self, name: str) -> str:
        """Do what Kueue does after the answer to one workload; return that answer."""
        queued, state = self.workloads[name], self.state(name)
        if state.state in ("Retry", "Rejected"):
            count = state.retries + (state.state == "Retry")
            again = dataclasses.replace(state, state="Pending", retries=count)
            self.workloads[name] = dataclasses.replace(
                queued, holds_quota=False, checks=(again,), version=f"{queued.version}0"
            )
        elif state.state == "Ready":
            owner = self._cluster.workloads[queued.owner_kind, queued.namespace, name]
            self._cluster.add(dataclasses.replace(owner, suspended=False, suspended_since=None))
        return state.state

    def state(self, name: str) -> CheckState:
        return self.workloads[name].checks[0]

    # --- the port ---

    def list_checks(self) -> list[Check]:
        self.begin("list_checks")
        return list(self.checks)

    def mark_active(self, check: Check) -> None:
        self.begin("mark_active")
        (answer,) = format_active(check, "2027-01-15T08:00:00Z")["status"]["conditions"]
        told = dataclasses.replace(check, active=answer["status"] == "True", told=answer["message"])
        self.checks = [told if each.name == check.name else each for each in self.checks]

    def list_workloads(self) -> list[QueuedWorkload]:
        self.begin("list_workloads")
        return list(self.workloads.values())

    def list_owned(self, namespace: str, owner_uid: str) -> list[QueuedWorkload]:
        self.begin("list_owned")
        return [
            each for each in self.workloads.values() if (each.namespace, each.owner_uid) == (namespace, owner_uid)
        ]

    def view_admitted(self, workload: WorkloadView) -> WorkloadView | None:
        self.begin("view_admitted")
        queued = self.workloads.get(workload.name)
        return self.view_owner(queued) if queued and queued.holds_quota else None

    def view_owner(self, queued: QueuedWorkload) -> WorkloadView | None:
        self.begin("view_owner")
        self.views += 1
        owner = self._cluster.workloads.get((queued.owner_kind, queued.namespace, queued.owner_name))
        if owner is None or owner.uid != queued.owner_uid:
            return None
        added = self.added if queued.flavors else {}
        groups = tuple(
            dataclasses.replace(
                group,
                template=dataclasses.replace(group.template, node_selector=group.template.node_selector | added),
            )
            for group in owner.groups
        )
        return dataclasses.replace(owner, groups=groups, quota_reserved=True)

    def write_state(self, queued: QueuedWorkload, state: CheckState, *, retry_seconds: int | None = None) -> None:
        self.begin("write_state")
        known = self.workloads[queued.owner_name]
        if known.version != queued.version:
            raise StaleView("the Workload has changed")
        self.retry_seconds, self.writes = retry_seconds, self.writes + 1
        version, kept = str(int(known.version) + 1), state.state in ("Pending", "Ready")
        self.workloads[queued.owner_name] = dataclasses.replace(
            known, checks=(state,), version=version, holds_quota=kept
        )


def reserve_quota(world: World, owner: WorkloadView) -> FakeQueues:
    """Let a workload be suspended since an hour ago, and Kueue reserve quota for it now."""
    world.cluster.add(dataclasses.replace(owner, suspended_since=NOW - 3600))
    queues = FakeQueues(world.cluster)
    queues.reserve(owner, at=NOW)
    world.ports = dataclasses.replace(world.ports, queues={CLUSTER: queues})
    return queues


def run(world: World, *names: str) -> None:
    """Let pools run, each with a node."""
    for name in names:
        world.pools.move(CLUSTER, name, "RUNNING")
        world.cluster.nodes[name] = [f"{name}-node"]
