"""What the autoscaler is told over gRPC of groups that are read from Compute's REST API."""

from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest

from standins.autoscaler_real.compute_groups import ComputeGroups
from standins.autoscaler_real.messages import CLASSES, SERVICE
from standins.autoscaler_real.provider import Provider

Json = dict[str, Any]

CLUSTER = "projects/p/locations/us-east5/clusters/c"
ROOT = "https://www.googleapis.com/compute/v1/projects/p/zones/us-east5-b"
SLICE, ELASTIC = f"{ROOT}/instanceGroups/slice-grp", f"{ROOT}/instanceGroups/elastic-grp"
VARIABLES = (
    "os=linux;node_labels=zone=us-east5-b,team=a;node_taints=google.com/tpu=present:NoSchedule;"
    "extended_resources=google.com/tpu=4"
)
POOLS: list[Json] = [
    {
        "name": "slice",
        "status": "RUNNING",
        "autoscaling": {"enabled": True, "maxNodeCount": 4},
        "placementPolicy": {"tpuTopology": "4x4"},
        "instanceGroupUrls": [f"{ROOT}/instanceGroupManagers/slice-grp"],
    },
    {
        "name": "elastic",
        "status": "RUNNING",
        "autoscaling": {"enabled": True, "minNodeCount": 1, "maxNodeCount": 9},
        "instanceGroupUrls": [f"{ROOT}/instanceGroupManagers/elastic-grp"],
    },
    {"name": "fixed", "status": "RUNNING", "instanceGroupUrls": [f"{ROOT}/instanceGroupManagers/fixed-grp"]},
    {
        "name": "going",
        "status": "STOPPING",
        "autoscaling": {"enabled": True, "maxNodeCount": 4},
        "instanceGroupUrls": [f"{ROOT}/instanceGroupManagers/going-grp"],
    },
]
INSTANCES: list[Json] = [
    {"instance": f"{ROOT}/instances/up", "currentAction": "NONE", "instanceStatus": "RUNNING"},
    {
        "instance": f"{ROOT}/instances/late",
        "currentAction": "CREATING",
        "lastAttempt": {"errors": {"errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "none left"}]}},
    },
    {
        "instance": f"{ROOT}/instances/refused",
        "currentAction": "CREATING",
        "lastAttempt": {"errors": {"errors": [{"code": "PERMISSIONS_ERROR", "message": "not allowed"}]}},
    },
    {"instance": f"{ROOT}/instances/old", "currentAction": "DELETING"},
]


class Cloud:
    """Answers as GKE and Compute do, and remembers what changes were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/nodePools"):
            return httpx.Response(200, json={"nodePools": POOLS})
        if path.endswith("/listManagedInstances"):
            return httpx.Response(200, json={"managedInstances": INSTANCES if "slice" in path else []})
        if request.method == "GET":
            return httpx.Response(200, json=self._describe(path))
        self.asked.append((str(request.url).partition("/zones/")[2], request.read()))
        if "elastic" in path:
            return httpx.Response(403, json={"error": {"message": "no"}})
        return httpx.Response(200, json={"status": "DONE"})

    def _describe(self, path: str) -> Json:
        if "/machineTypes/" in path:
            return {"name": path.rsplit("/", 1)[-1], "guestCpus": 180, "memoryMb": 737_280}
        if "/instanceTemplates/" in path:
            items = [{"key": "kube-env", "value": f"OTHER: 1\nAUTOSCALER_ENV_VARS: {VARIABLES}\n"}]
            return {"name": "t", "properties": {"machineType": "ct6e-standard-4t", "metadata": {"items": items}}}
        template = "https://www.googleapis.com/compute/v1/projects/p/global/instanceTemplates/t"
        return {"name": path.rsplit("/", 1)[-1], "targetSize": 3, "instanceTemplate": template}


class Caller:
    """Calls a provider as the autoscaler does."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)

    def __call__(self, method: str, answer: str, request: Any) -> Any:
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=CLASSES[answer].FromString,
        )
        return call(request, timeout=20)

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def call(cloud: Cloud) -> Iterator[Caller]:
    groups = ComputeGroups("http://cloud", CLUSTER, transport=httpx.MockTransport(cloud.answer))
    with Provider(groups) as provider:
        caller = Caller(provider.address)
        yield caller
        caller.close()
    groups.close()


def of_group(name: str) -> Any:
    return CLASSES["OfGroup"](id=name)


def test_only_pools_with_autoscaling_that_stay_are_groups_within_their_bounds(call: Caller) -> None:
    found = call("NodeGroups", "NodeGroupsResponse", CLASSES["Empty"]()).nodeGroups
    assert [(each.id, each.minSize, each.maxSize) for each in found] == [(SLICE, 0, 4), (ELASTIC, 1, 9)]


def test_a_node_belongs_to_the_group_that_has_its_machine_or_to_nobody(call: Caller) -> None:
    def group_of(machine: str) -> str:
        node = CLASSES["ExternalGrpcNode"](providerID=f"gce://p/us-east5-b/{machine}")
        request = CLASSES["NodeGroupForNodeRequest"](node=node)
        return str(call("NodeGroupForNode", "NodeGroupForNodeResponse", request).nodeGroup.id)

    assert (group_of("up"), group_of("of-nobody")) == (SLICE, "")


def test_what_cannot_be_made_is_a_shortage_or_another_error_with_the_clouds_words(call: Caller) -> None:
    found = call("NodeGroupNodes", "NodesResponse", of_group(SLICE)).instances
    seen = [
        (
            each.id.rsplit("/", 1)[-1],
            each.status.instanceState,
            each.status.errorInfo.instanceErrorClass,
            each.status.errorInfo.errorCode,
            each.status.errorInfo.errorMessage,
        )
        for each in found
    ]
    assert seen == [
        ("up", 1, 0, "", ""),
        ("late", 2, 1, "ZONE_RESOURCE_POOL_EXHAUSTED", "none left"),
        ("refused", 2, 99, "PERMISSIONS_ERROR", "not allowed"),
        ("old", 3, 0, "", ""),
    ]


def test_a_slice_alone_grows_all_or_nothing_and_all_else_is_as_the_autoscaler_has_it(call: Caller) -> None:
    defaults = CLASSES["Options"](scaleDownUtilizationThreshold=0.5)
    defaults.scaleDownUnneededTime.duration = 600_000_000_000

    def options_of(name: str) -> Any:
        request = CLASSES["OptionsRequest"](id=name, defaults=defaults)
        return call("NodeGroupGetOptions", "OptionsResponse", request).nodeGroupAutoscalingOptions

    slices, elastic = options_of(SLICE), options_of(ELASTIC)
    assert (slices.zeroOrMaxNodeScaling, elastic.zeroOrMaxNodeScaling) == (True, False)
    assert elastic == defaults


def test_a_new_node_has_the_pools_labels_taints_and_resources(call: Caller) -> None:
    node = call("NodeGroupTemplateNodeInfo", "TemplateResponse", of_group(SLICE)).nodeInfo
    assert dict(node.metadata.labels) == {"zone": "us-east5-b", "team": "a"}
    assert [(each.key, each.value, each.effect) for each in node.spec.taints] == [
        ("google.com/tpu", "present", "NoSchedule")
    ]
    resources = {key: each.string for key, each in node.status.allocatable.items()}
    assert resources == {"cpu": "180", "memory": "737280Mi", "pods": "110", "google.com/tpu": "4"}


def test_sizes_change_from_what_the_group_is_asked_to_have(call: Caller, cloud: Cloud) -> None:
    assert call("NodeGroupTargetSize", "TargetSizeResponse", of_group(SLICE)).targetSize == 3
    call("NodeGroupIncreaseSize", "Empty", CLASSES["ChangeSizeRequest"](id=SLICE, delta=1))
    call("NodeGroupDecreaseTargetSize", "Empty", CLASSES["ChangeSizeRequest"](id=SLICE, delta=-2))
    node = CLASSES["ExternalGrpcNode"](providerID="gce://p/us-east5-b/up")
    call("NodeGroupDeleteNodes", "Empty", CLASSES["DeleteNodesRequest"](id=SLICE, nodes=[node]))
    manager = "us-east5-b/instanceGroupManagers/slice-grp"
    assert [path for path, _ in cloud.asked] == [
        f"{manager}/resize?size=4",
        f"{manager}/resize?size=1",
        f"{manager}/deleteInstances",
    ]
    assert f"{ROOT}/instances/up".encode() in cloud.asked[2][1]


def test_what_the_cloud_refuses_is_an_error_with_its_words(call: Caller) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        call("NodeGroupIncreaseSize", "Empty", CLASSES["ChangeSizeRequest"](id=ELASTIC, delta=1))
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "403" in refused.value.details()
