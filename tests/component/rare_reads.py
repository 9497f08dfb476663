"""What few tests ask of the fakes: nodes that GKE tries to make, a channel, disks, Events."""

from collections.abc import Sequence

from shared.core.identity.pools import PoolSnapshot, PoolStatus
from shared.core.ports import FillError, Machines
from shared.core.workloads import Disk, PodView
from tests.component.plans import Plans


class RarePoolReads(Plans):
    """The part of the fake node pools that lists missing nodes; removed ones do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self.removed: list[str] = []
        self.without_channel: set[str] = set()
        """The clusters that no release channel upgrades."""
        self.missing: dict[str, list[str]] = {}
        """By pool."""
        self.machines: dict[str, Machines] = {}
        """By pool; a test sets what its instance groups report."""

    def find_channel(self, cluster: str) -> str:
        self.begin("find_channel")
        return "" if cluster in self.without_channel else "REGULAR"

    def read_machines(self, pool: PoolSnapshot) -> Machines:
        self.calls.append(("read_machines", pool.name))
        self.begin("read_machines")
        runs = pool.status == PoolStatus.RUNNING and not pool.autoscaled
        return self.machines.get(pool.name, Machines(made=pool.node_count if runs else 0))

    def list_missing(self, pool: PoolSnapshot) -> Sequence[str]:
        self.calls.append(("list_missing", pool.name))
        return [each for each in self.missing.get(pool.name, ()) if each not in self.removed]


class RareClusterReads(Plans):
    """The part of the fake cluster that has zones of disks, and Events of GKE's autoscaler."""

    def __init__(self) -> None:
        super().__init__()
        self.disks: dict[tuple[str, str], Disk] = {}
        """By namespace and claim."""
        self.scale_ups: dict[str, list[FillError]] = {}
        """By the UID of the pod."""

    def find_disk(self, namespace: str, claim: str) -> Disk | None:
        self.begin("find_disk")
        return self.disks.get((namespace, claim))

    def list_scale_ups(self, pod: PodView) -> Sequence[FillError]:
        self.begin("list_scale_ups")
        return self.scale_ups.get(pod.uid, [])
