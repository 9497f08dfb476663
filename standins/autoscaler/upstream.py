"""Upstream's cluster autoscaler as a plain process, with the groups of a fake GKE as its cloud.

The program asks over its external gRPC provider's protocol which groups there are, how many
machines each has, and why one cannot be made. Nothing here decides anything. No TLS: both ends are
on this machine. Flags: https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md;
protocol: https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/externalgrpc.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx

from standins.autoscaler.messages import CLASSES, SERVICE
from standins.autoscaler.model import Times
from standins.autoscaler.node_groups import NodeGroups
from standins.autoscaler.picture import Group, Instance
from standins.kit.addresses import HOST, draw_ports
from standins.kit.fitting import Node
from standins.kit.processes import Command, running

GPU_LABEL = "cloud.google.com/gke-accelerator"
_RUNNING, _CREATING, _DELETING = 1, 2, 3
_OUT_OF_RESOURCES, _OTHER = 1, 99
_SHORTAGES = ("RESOURCE_POOL_EXHAUSTED", "QUOTA", "STOCKOUT", "INSUFFICIENT")
"""What is in the codes of errors that say: not enough, of machines or of the right to have them."""


@contextmanager
def running_upstream(
    program: Path, kubeconfig: Path, groups: NodeGroups, folder: Path, times: Times
) -> Iterator[None]:
    """Run upstream's program, built with the tag ``externalgrpc``, while the block runs.

    Its log and configuration are in `folder`. Raises NotStarted: it ended, or never answered.
    """
    (port,) = draw_ports(1)
    health = f"{HOST}:{port}"
    with serving_groups(groups) as address:
        settings = folder / "external-grpc.yaml"
        settings.write_text(f"address: {address}\n", encoding="utf-8")
        arguments = (
            str(program),
            "--cloud-provider=externalgrpc",
            f"--cloud-config={settings}",
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            f"--address={health}",
            "--v=4",
            f"--scan-interval={times.loop:g}s",
            f"--unremovable-node-recheck-timeout={times.loop:g}s",
            f"--scale-down-unneeded-time={times.unneeded:g}s",
            f"--scale-down-delay-after-add={times.delay_after_add:g}s",
            f"--initial-node-group-backoff-duration={times.backoff_first:g}s",
            f"--max-node-group-backoff-duration={times.backoff_longest:g}s",
            f"--max-node-provision-time={times.provision_max:g}s",
            f"--scale-down-gpu-utilization-threshold={times.utilization:g}",
        )
        command = Command(name="cluster-autoscaler", arguments=arguments, folder=folder)
        with running(command, folder, lambda: _answers(f"http://{health}/health-check")):
            yield


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1.0, trust_env=False).is_success
    except httpx.HTTPError:
        return False


@contextmanager
def serving_groups(groups: NodeGroups) -> Iterator[str]:
    """Serve groups over the provider's protocol; gives the address on 127.0.0.1."""
    server: Any = grpc.server(ThreadPoolExecutor(max_workers=4))
    handlers = {name: _handler(*call) for name, call in _Calls(groups).table().items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    address = f"{HOST}:{server.add_insecure_port(f'{HOST}:0')}"
    server.start()
    try:
        yield address
    finally:
        server.stop(None).wait()


def _handler(request_class: Any, answer: Callable[[Any], Any]) -> Any:
    def call(request: Any, context: Any) -> Any:
        try:
            return answer(request)
        except (httpx.HTTPError, LookupError, ValueError) as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, repr(error))

    return grpc.unary_unary_rpc_method_handler(
        call,
        request_deserializer=request_class.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


class _Calls:
    """The calls of the protocol."""

    def __init__(self, groups: NodeGroups) -> None:
        self._groups = groups

    def table(self) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
        """Return the class of each call's request, and what answers it."""
        empty, of_group, sized = (CLASSES[name] for name in ("Empty", "OfGroup", "ChangeSizeRequest"))
        return {
            "NodeGroups": (empty, self._list),
            "NodeGroupForNode": (CLASSES["NodeGroupForNodeRequest"], self._find_by_node),
            "GPULabel": (empty, lambda _: CLASSES["GPULabelResponse"](label=GPU_LABEL)),
            "GetAvailableGPUTypes": (empty, lambda _: empty()),
            "Cleanup": (empty, lambda _: empty()),
            "Refresh": (empty, lambda _: empty()),
            "NodeGroupTargetSize": (of_group, self._read_target),
            "NodeGroupIncreaseSize": (sized, self._change_size),
            "NodeGroupDecreaseTargetSize": (sized, self._change_size),
            "NodeGroupDeleteNodes": (CLASSES["DeleteNodesRequest"], self._delete_nodes),
            "NodeGroupNodes": (of_group, self._list_instances),
            "NodeGroupTemplateNodeInfo": (of_group, self._read_template),
            "NodeGroupGetOptions": (CLASSES["OptionsRequest"], self._read_options),
        }

    def _find(self, group_id: str) -> Group:
        for group in self._groups.read():
            if group.id == group_id:
                return group
        raise LookupError(f"no group {group_id!r}")

    def _list(self, _request: Any) -> Any:
        return CLASSES["NodeGroupsResponse"](nodeGroups=map(_describe, self._groups.read()))

    def _find_by_node(self, request: Any) -> Any:
        for group in self._groups.read():
            if request.node.providerID in (_name_at_provider(group, each.name) for each in group.instances):
                return CLASSES["NodeGroupForNodeResponse"](nodeGroup=_describe(group))
        # An empty name means that the node is nobody's.
        return CLASSES["NodeGroupForNodeResponse"](nodeGroup=CLASSES["NodeGroup"]())

    def _read_target(self, request: Any) -> Any:
        return CLASSES["TargetSizeResponse"](targetSize=self._find(request.id).target)

    def _change_size(self, request: Any) -> Any:
        """Grow a group, or give up machines that it has not made yet; then `delta` is negative."""
        group = self._find(request.id)
        self._groups.resize(group, group.target + request.delta)
        return CLASSES["Empty"]()

    def _delete_nodes(self, request: Any) -> Any:
        names = tuple(node.providerID.rpartition("/")[2] for node in request.nodes)
        self._groups.delete(self._find(request.id), names)
        return CLASSES["Empty"]()

    def _list_instances(self, request: Any) -> Any:
        group = self._find(request.id)
        return CLASSES["NodesResponse"](instances=[_render_instance(group, each) for each in group.instances])

    def _read_template(self, request: Any) -> Any:
        return CLASSES["TemplateResponse"](nodeInfo=_render_node(self._find(request.id).template))

    def _read_options(self, request: Any) -> Any:
        options = request.defaults
        options.zeroOrMaxNodeScaling = self._find(request.id).all_or_none
        return CLASSES["OptionsResponse"](nodeGroupAutoscalingOptions=options)


def _name_at_provider(group: Group, instance: str) -> str:
    """Return what a node has in ``spec.providerID``."""
    project = group.id.partition("/projects/")[2].partition("/")[0]
    return f"gce://{project}/{group.zone}/{instance}"


def _describe(group: Group) -> Any:
    return CLASSES["NodeGroup"](id=group.id, minSize=group.smallest, maxSize=group.largest, debug=group.id)


def _render_instance(group: Group, instance: Instance) -> Any:
    message = CLASSES["Instance"](id=_name_at_provider(group, instance.name))
    state = _CREATING if instance.creating else _DELETING if instance.deleting else _RUNNING
    message.status.instanceState = state
    if instance.error is not None:
        short = any(word in instance.error.code for word in _SHORTAGES)
        message.status.errorInfo.errorCode = instance.error.code
        message.status.errorInfo.errorMessage = instance.error.message
        message.status.errorInfo.instanceErrorClass = _OUT_OF_RESOURCES if short else _OTHER
    return message


def _render_node(node: Node) -> Any:
    """Return the message of a Node object: what decides which pods fit on it."""
    message = CLASSES["Node"]()
    message.metadata.name = f"{node.name}-new"
    message.metadata.labels.update(node.labels)
    for taint in node.taints:
        message.spec.taints.add(key=taint.key, value=taint.value, effect=taint.effect)
    for amounts in (message.status.capacity, message.status.allocatable):
        amounts["pods"].string = str(node.pods_max)
        for resource, thousandths in node.allocatable.items():
            amounts[resource].string = f"{thousandths}m"
    message.status.conditions.add(type="Ready", status="True")
    return message
