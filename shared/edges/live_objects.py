"""Reads one cluster's live objects over the Kubernetes API, as `shared.engine.outside.Cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.edges.clock import SYSTEM_CLOCK
from shared.edges.kubernetes_cluster import KubernetesCluster, holds_node, read_bound
from shared.edges.node_taints import Node, read_surplus
from shared.edges.workload_objects import Pod, view_pod
from shared.kinds.table import KINDS, find_kind_of_pod, select_pods
from shared.model import labels
from shared.model.readings import PoolNode
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.edges.kubernetes_api import KubernetesApi
    from shared.kinds.kind import Kind
    from shared.model.readings import BoundPod
    from shared.model.times import Clock
    from shared.model.workloads import PodView

POOLS_PER_LIST = 100
"""Names of at most 40 characters each: well below the length that HTTP servers accept of a URL."""
_OURS = f"{labels.MANAGER}={labels.MANAGER_VALUE}"


class LiveObjects(KubernetesCluster):
    """The objects of one cluster over HTTPS."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        kinds: Sequence[Kind] = KINDS,
        component: str = "tpu-provisioner",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(api, kinds=kinds, component=component, clock=clock)
        self._client, self._served = api, kinds

    def list_accelerator_pods(self, *, unbound: bool) -> Iterator[PodView]:
        """Yield all accelerator pods of the cluster, kind by kind and page by page."""
        seen: set[str] = set()
        for kind in self._served:
            query = {"labelSelector": select_pods(kind)} | (
                {"fieldSelector": "spec.nodeName="} if unbound else {}
            )
            for page in self._client.list_pages("/api/v1/pods", Pod, query):
                for each in page.items:
                    pod = view_pod(each)
                    if (
                        pod.template.wants_accelerator
                        and pod.uid not in seen
                        and find_kind_of_pod(pod)
                    ):
                        seen.add(pod.uid)
                        yield pod

    def list_nodes(self, pools: Sequence[str] = ()) -> list[PoolNode]:
        """Return the nodes of these pools, or of all pools of ours; one list for 100 pools."""
        parts = [
            pools[start : start + POOLS_PER_LIST] for start in range(0, len(pools), POOLS_PER_LIST)
        ]
        selectors = [f"{labels.NODE_POOL} in ({','.join(part)})" for part in parts] or [_OURS]
        return [
            view_pool_node(node)
            for selector in selectors
            for page in self._client.list_pages("/api/v1/nodes", Node, {"labelSelector": selector})
            for node in page.items
        ]

    def list_bound_pods(self, node: str) -> list[BoundPod]:
        """Return the unfinished pods on a node.

        Only an exact ``spec.nodeName`` is indexed, and listing every pod of a large cluster would
        move hundreds of megabytes.
        """
        query = {"fieldSelector": f"spec.nodeName={node}"}
        pages = self._client.list_pages("/api/v1/pods", Pod, query)
        return [read_bound(pod) for page in pages for pod in page.items if holds_node(pod)]

    def mark_idle(self, node: str, since: float | None, *, closed: bool = False) -> None:
        """Put our taint on a node, in place of an earlier one, or take it off."""
        self.mark_surplus(node, since, closed=closed)


def view_pool_node(node: Node) -> PoolNode:
    """Return a node as the plan needs it."""
    mark = read_surplus(node)
    ready = next((each for each in node.status.conditions or () if each.type == "Ready"), None)
    is_ready = ready is not None and ready.status == "True"
    return PoolNode(
        name=node.metadata.name,
        pool=(node.metadata.labels or {}).get(labels.NODE_POOL, ""),
        ready=is_ready,
        ready_at=parse_time(ready.last_transition_time) if is_ready and ready else None,
        idle_since=mark.since if mark else None,
        closed=mark.closed if mark else False,
    )
