"""The implementations of the port `NodePools`, each with what a suite arranges around it."""

import dataclasses
from typing import Protocol

from shared.engine.outside import NodePools
from shared.model.errors import ClusterNotFound, NoCapacity, Unavailable
from shared.model.pools import PoolStatus
from tests.builders import CLUSTER
from tests.component.fakes import FakeNodePools
from tests.contract.gke_world import NO_CLUSTER, Gke
from tests.contract.stand_ins import ask

STOCKOUT = "GCE_STOCKOUT: no capacity in this zone"


class PoolsWorld(Protocol):
    """One implementation, and the situations that its callers can meet."""

    @property
    def port(self) -> NodePools: ...

    def end_operations(self) -> None:
        """Let time pass until every operation has ended."""

    def let_creation_fail(self) -> None:
        """Let pools that are created from here on end for want of machines."""

    def upgrade_cluster(self) -> None:
        """Let GKE itself work on the cluster."""

    def lose_reply(self) -> None:
        """Perform the next create and lose its answer."""

    def exhaust_quota(self) -> None:
        """Refuse the next create for want of quota."""

    def list_node_names(self, pool: str) -> list[str]:
        """Return the names of a pool's nodes."""


class EdgeWorld:
    """The product's edge over the REST API of the fake GKE."""

    def __init__(self, gke: Gke) -> None:
        self._gke = gke
        self.port: NodePools = gke.edge

    def end_operations(self) -> None:
        self._gke.advance(5000)

    def let_creation_fail(self) -> None:
        self._gke.fault("outcome", kind="stockout")

    def upgrade_cluster(self) -> None:
        self._gke.fault("cluster_busy", seconds=60)

    def lose_reply(self) -> None:
        self._gke.fault("lose_reply", how="drop", method="*")

    def exhaust_quota(self) -> None:
        text = "Insufficient regional quota to satisfy request"
        self._gke.fault("fail_sync", code="PERMISSION_DENIED", text=text, reason="INSUFFICIENT_QUOTA_REGIONAL")

    def list_node_names(self, pool: str) -> list[str]:
        found = ask("GET", f"{self._gke.url}/admin/pools")["pools"]
        return [str(name) for each in found if each["pool"] == pool for name in each["node_names"]]


class FakeWorld:
    """The fake of the component tests."""

    def __init__(self) -> None:
        self.port = self._pools = FakeNodePools()
        self._pools.down_clusters[NO_CLUSTER] = ClusterNotFound(f"Not found: {NO_CLUSTER}.")
        self._fails = False

    def end_operations(self) -> None:
        self._pools.busy_clusters.clear()
        for (cluster, name), pool in list(self._pools.pools.items()):
            if pool.status == PoolStatus.STOPPING:
                self._pools.move(cluster, name, "gone")
            elif pool.status == PoolStatus.PROVISIONING and self._fails:
                failed = dataclasses.replace(pool, status=PoolStatus.ERROR, error=STOCKOUT)
                self._pools.add(cluster, failed)
            elif pool.status in (PoolStatus.PROVISIONING, PoolStatus.RECONCILING):
                self._pools.move(cluster, name, "RUNNING")

    def let_creation_fail(self) -> None:
        self._fails = True

    def upgrade_cluster(self) -> None:
        self._pools.busy_clusters.add(CLUSTER)

    def lose_reply(self) -> None:
        self._pools.fail_next("create", Unavailable("the connection broke"), performed=True)

    def exhaust_quota(self) -> None:
        self._pools.fail_next("create", NoCapacity("Insufficient regional quota to satisfy request"))

    def list_node_names(self, pool: str) -> list[str]:
        (found,) = [each for each in self._pools.pools.values() if each.name == pool]
        return [f"{pool}-{number}" for number in range(self._pools.sizes.get(pool, found.node_count))]
