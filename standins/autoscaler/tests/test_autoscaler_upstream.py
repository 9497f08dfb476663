"""The groups of the fake GKE as upstream's program asks for them, call by call over gRPC."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
from google.cloud import container_v1

from standins.autoscaler.messages import CLASSES, SERVICE
from standins.autoscaler.node_groups import NodeGroups
from standins.autoscaler.tests.autoscaler_world import build_pool
from standins.autoscaler.upstream import serving_groups
from standins.google.tests.fakegke_worlds import fake_process, open_transport
from standins.kit.processes import wait_until

CLUSTER = "projects/demo/locations/us-east5/clusters/alpha"


def test_a_group_is_described_grown_and_given_up(tmp_path: Path) -> None:
    with (
        fake_process(tmp_path, "--speed", "600") as fake,
        httpx.Client(base_url=fake.addresses["rest"], trust_env=False) as client,
        container_v1.ClusterManagerClient(transport=open_transport(fake.addresses["rest"])) as gke,
        serving_groups(NodeGroups(client, CLUSTER)) as address,
        grpc.insecure_channel(address) as channel,
    ):

        def ask(call: str, answer: str, request: Any) -> Any:
            serialize: Callable[[Any], bytes] = type(request).SerializeToString
            method = channel.unary_unary(f"/{SERVICE}/{call}", serialize, CLASSES[answer].FromString)
            return method(request, timeout=30)

        def list_groups() -> list[Any]:
            return list(ask("NodeGroups", "NodeGroupsResponse", CLASSES["Empty"]()).nodeGroups)

        def list_instances() -> list[Any]:
            return list(ask("NodeGroupNodes", "NodesResponse", of_group).instances)

        gke.create_node_pool(parent=CLUSTER, node_pool=build_pool("slice", 4, {}))
        (group,) = wait_until(list_groups)
        of_group = CLASSES["OfGroup"](id=group.id)
        node = ask("NodeGroupTemplateNodeInfo", "TemplateResponse", of_group).nodeInfo
        options = CLASSES["OptionsRequest"](id=group.id)
        assert (group.minSize, group.maxSize) == (0, 4)
        assert ask(
            "NodeGroupGetOptions", "OptionsResponse", options
        ).nodeGroupAutoscalingOptions.zeroOrMaxNodeScaling
        assert node.metadata.labels["cloud.google.com/gke-nodepool"] == "slice"
        assert [taint.key for taint in node.spec.taints] == ["google.com/tpu"]
        assert node.status.allocatable["google.com/tpu"].string == "4000m"

        ask("NodeGroupIncreaseSize", "Empty", CLASSES["ChangeSizeRequest"](id=group.id, delta=4))
        assert ask("NodeGroupTargetSize", "TargetSizeResponse", of_group).targetSize == 4
        first, *others = wait_until(list_instances)
        assert first.id.startswith("gce://demo/")
        assert len(others) == 3
        wait_until(lambda: all(each.status.instanceState == 1 for each in list_instances()))
        of_node = CLASSES["NodeGroupForNodeRequest"](node=CLASSES["ExternalGrpcNode"](providerID=first.id))
        assert ask("NodeGroupForNode", "NodeGroupForNodeResponse", of_node).nodeGroup.id == group.id

        nodes = [CLASSES["ExternalGrpcNode"](providerID=each.id) for each in list_instances()]
        ask("NodeGroupDeleteNodes", "Empty", CLASSES["DeleteNodesRequest"](id=group.id, nodes=nodes))
        wait_until(lambda: not list_instances())
        assert ask("NodeGroupTargetSize", "TargetSizeResponse", of_group).targetSize == 0
