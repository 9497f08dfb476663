"""Serves the groups of a cloud to the autoscaler, over its external gRPC provider's protocol.

https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/externalgrpc.
No TLS: both ends are on this machine.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import grpc

from standins.autoscaler_real.messages import CLASSES, SERVICE, render_node
from standins.autoscaler_real.node_groups import Group, Instance, NodeGroups, Refused
from standins.kit.addresses import HOST

GPU_LABEL = "cloud.google.com/gke-accelerator"
_OUT_OF_RESOURCES, _OTHER = 1, 99
_SHORTAGES = ("RESOURCE_POOL_EXHAUSTED", "QUOTA", "STOCKOUT", "INSUFFICIENT")
"""What is in the codes of errors that say: not enough, of machines or of the right to have them."""


class Provider:
    """A gRPC server on a free port of 127.0.0.1, used as a context manager."""

    def __init__(self, groups: NodeGroups) -> None:
        self._groups = groups
        self._server: Any = grpc.server(ThreadPoolExecutor(max_workers=4))
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, self._handlers()),))
        self.address = f"{HOST}:{self._server.add_insecure_port(f'{HOST}:0')}"
        """For the autoscaler's ``--cloud-config``."""

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()

    def _handlers(self) -> dict[str, Any]:
        empty, of_group = CLASSES["Empty"], CLASSES["OfGroup"]
        calls: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "NodeGroups": (empty, self._node_groups),
            "NodeGroupForNode": (CLASSES["NodeGroupForNodeRequest"], self._group_for_node),
            "GPULabel": (empty, lambda _: CLASSES["GPULabelResponse"](label=GPU_LABEL)),
            "GetAvailableGPUTypes": (empty, lambda _: empty()),
            "Cleanup": (empty, lambda _: empty()),
            "Refresh": (empty, lambda _: empty()),
            "NodeGroupTargetSize": (of_group, self._target_size),
            "NodeGroupIncreaseSize": (CLASSES["ChangeSizeRequest"], self._change_size),
            "NodeGroupDecreaseTargetSize": (CLASSES["ChangeSizeRequest"], self._change_size),
            "NodeGroupDeleteNodes": (CLASSES["DeleteNodesRequest"], self._delete_nodes),
            "NodeGroupNodes": (of_group, self._nodes),
            "NodeGroupTemplateNodeInfo": (of_group, self._template),
            "NodeGroupGetOptions": (CLASSES["OptionsRequest"], self._options),
        }
        return {name: _handler(request, answer) for name, (request, answer) in calls.items()}

    def _node_groups(self, _request: Any) -> Any:
        return CLASSES["NodeGroupsResponse"](nodeGroups=[_describe(each) for each in self._groups.list_groups()])

    def _group_for_node(self, request: Any) -> Any:
        for group in self._groups.list_groups():
            held = (each.provider_id for each in self._groups.list_instances(group.name))
            if request.node.providerID in held:
                return CLASSES["NodeGroupForNodeResponse"](nodeGroup=_describe(group))
        # An empty name means that the node is nobody's.
        return CLASSES["NodeGroupForNodeResponse"](nodeGroup=CLASSES["NodeGroup"]())

    def _target_size(self, request: Any) -> Any:
        return CLASSES["TargetSizeResponse"](targetSize=self._groups.target_size(request.id))

    def _change_size(self, request: Any) -> Any:
        """Grow a group, or give up machines that it has not made yet; then `delta` is negative."""
        self._groups.resize(request.id, self._groups.target_size(request.id) + request.delta)
        return CLASSES["Empty"]()

    def _delete_nodes(self, request: Any) -> Any:
        self._groups.delete_instances(request.id, [node.providerID for node in request.nodes])
        return CLASSES["Empty"]()

    def _nodes(self, request: Any) -> Any:
        instances = [_render(each) for each in self._groups.list_instances(request.id)]
        return CLASSES["NodesResponse"](instances=instances)

    def _template(self, request: Any) -> Any:
        return CLASSES["TemplateResponse"](nodeInfo=render_node(self._find(request.id).template))

    def _options(self, request: Any) -> Any:
        options = request.defaults
        options.zeroOrMaxNodeScaling = self._find(request.id).all_or_nothing
        return CLASSES["OptionsResponse"](nodeGroupAutoscalingOptions=options)

    def _find(self, name: str) -> Group:
        for group in self._groups.list_groups():
            if group.name == name:
                return group
        raise Refused(f"no group {name!r}")


def _handler(request_class: Any, answer: Callable[[Any], Any]) -> Any:
    def call(request: Any, context: Any) -> Any:
        try:
            return answer(request)
        except Refused as refused:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))

    return grpc.unary_unary_rpc_method_handler(
        call,
        request_deserializer=request_class.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


def _describe(group: Group) -> Any:
    return CLASSES["NodeGroup"](id=group.name, minSize=group.minimum, maxSize=group.maximum, debug=group.name)


def _render(instance: Instance) -> Any:
    made = CLASSES["Instance"](id=instance.provider_id)
    made.status.instanceState = instance.state
    if instance.code:
        short = any(word in instance.code for word in _SHORTAGES)
        made.status.errorInfo.errorCode = instance.code
        made.status.errorInfo.errorMessage = instance.message
        made.status.errorInfo.instanceErrorClass = _OUT_OF_RESOURCES if short else _OTHER
    return made
