"""The in-process skin: the verbs of the official client as plain methods, without a network.

Arguments and answers are those of `google.cloud.container_v1.ClusterManagerClient`; refusals are
`GkeError`, a lost reply is `LostReply`. For tests that want speed and a clock of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from google.cloud.container_v1.types import cluster_service as types

if TYPE_CHECKING:
    from standins.fakegke.model.fake_gke import FakeGke


T = TypeVar("T")


class InProcessGke:
    """The client's verbs on a model.

    Each takes a `request` (message or mapping) or the fields by keyword.
    """

    def __init__(self, gke: FakeGke) -> None:
        self.gke = gke

    def create_node_pool(self, request: Any = None, **fields: Any) -> types.Operation:
        """Submit the creation of a pool and return its operation."""
        return self._call("CreateNodePool", types.Operation, request, fields)

    def delete_node_pool(self, request: Any = None, **fields: Any) -> types.Operation:
        """Submit the deletion of a pool and return its operation."""
        return self._call("DeleteNodePool", types.Operation, request, fields)

    def get_node_pool(self, request: Any = None, **fields: Any) -> types.NodePool:
        """Return a pool."""
        return self._call("GetNodePool", types.NodePool, request, fields)

    def list_node_pools(self, request: Any = None, **fields: Any) -> types.ListNodePoolsResponse:
        """Return all pools of a cluster."""
        return self._call("ListNodePools", types.ListNodePoolsResponse, request, fields)

    def update_node_pool(self, request: Any = None, **fields: Any) -> types.Operation:
        """Submit a change of labels, resource labels, taints or tags and return its operation."""
        return self._call("UpdateNodePool", types.Operation, request, fields)

    def set_node_pool_size(self, request: Any = None, **fields: Any) -> types.Operation:
        """Submit a new size and return its operation."""
        return self._call("SetNodePoolSize", types.Operation, request, fields)

    def set_node_pool_autoscaling(self, request: Any = None, **fields: Any) -> types.Operation:
        """Submit new autoscaling bounds and return the operation."""
        return self._call("SetNodePoolAutoscaling", types.Operation, request, fields)

    def set_node_pool_management(self, request: Any = None, **fields: Any) -> types.Operation:
        """Submit new upgrade and repair settings and return the operation."""
        return self._call("SetNodePoolManagement", types.Operation, request, fields)

    def get_operation(self, request: Any = None, **fields: Any) -> types.Operation:
        """Return an operation."""
        return self._call("GetOperation", types.Operation, request, fields)

    def list_operations(self, request: Any = None, **fields: Any) -> types.ListOperationsResponse:
        """Return the operations of a location."""
        return self._call("ListOperations", types.ListOperationsResponse, request, fields)

    def cancel_operation(self, request: Any = None, **fields: Any) -> None:
        """Abort an upgrade."""
        self._answer("CancelOperation", request, fields)

    def get_cluster(self, request: Any = None, **fields: Any) -> types.Cluster:
        """Return a cluster with its pools."""
        return self._call("GetCluster", types.Cluster, request, fields)

    def list_clusters(self, request: Any = None, **fields: Any) -> types.ListClustersResponse:
        """Return the clusters of a location."""
        return self._call("ListClusters", types.ListClustersResponse, request, fields)

    def get_server_config(self, request: Any = None, **fields: Any) -> types.ServerConfig:
        """Return which versions and images there are."""
        return self._call("GetServerConfig", types.ServerConfig, request, fields)

    def _call(self, method: str, kind: type[T], request: Any, fields: dict[str, Any]) -> T:
        wrapper: Any = kind
        wrapped: T = wrapper.wrap(self._answer(method, request, fields))
        return wrapped

    def _answer(self, method: str, request: Any, fields: dict[str, Any]) -> Any:
        wrapper: Any = getattr(types, f"{method}Request")
        message = wrapper(request) if request is not None else wrapper(**fields)
        return self.gke.call(method, wrapper.pb(message))
