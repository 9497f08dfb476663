"""The messages of the autoscaler's external gRPC provider, and of Kubernetes' Node within them.

Described here by names and numbers, as far as they are used:
https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/externalgrpc/protos
and https://github.com/kubernetes/api/blob/master/core/v1/generated.proto. Fields that are not named
are skipped where they are read. The classes are `Any` to the type checker because they are built at
run time.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider"
_PACKAGE = "upstream_autoscaler"
_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "double": _FIELD.TYPE_DOUBLE,
    "bool": _FIELD.TYPE_BOOL,
}
_ID = {"id": (1, "string")}
_SIZED = {"delta": (1, "int32"), "id": (2, "string")}
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Empty": {},
    "NodeGroup": {"id": (1, "string"), "minSize": (2, "int32"), "maxSize": (3, "int32"), "debug": (4, "string")},
    "ExternalGrpcNode": {"providerID": (1, "string"), "name": (2, "string")},
    "NodeGroupsResponse": {"nodeGroups": (1, "NodeGroup*")},
    "NodeGroupForNodeRequest": {"node": (1, "ExternalGrpcNode")},
    "NodeGroupForNodeResponse": {"nodeGroup": (1, "NodeGroup")},
    "GPULabelResponse": {"label": (1, "string")},
    "OfGroup": _ID,
    "TargetSizeResponse": {"targetSize": (1, "int32")},
    "ChangeSizeRequest": _SIZED,
    "DeleteNodesRequest": {"nodes": (1, "ExternalGrpcNode*"), "id": (2, "string")},
    "InstanceErrorInfo": {
        "errorCode": (1, "string"),
        "errorMessage": (2, "string"),
        "instanceErrorClass": (3, "int32"),
    },
    "InstanceStatus": {"instanceState": (1, "int32"), "errorInfo": (2, "InstanceErrorInfo")},
    "Instance": {"id": (1, "string"), "status": (2, "InstanceStatus")},
    "NodesResponse": {"instances": (1, "Instance*")},
    "Duration": {"duration": (1, "int64")},
    "Options": {
        "scaleDownUtilizationThreshold": (1, "double"),
        "scaleDownGpuUtilizationThreshold": (2, "double"),
        "scaleDownUnneededTime": (3, "Duration"),
        "scaleDownUnreadyTime": (4, "Duration"),
        "MaxNodeProvisionTime": (5, "Duration"),
        "zeroOrMaxNodeScaling": (6, "bool"),
        "ignoreDaemonSetsUtilization": (7, "bool"),
    },
    "OptionsRequest": {"id": (1, "string"), "defaults": (2, "Options")},
    "OptionsResponse": {"nodeGroupAutoscalingOptions": (1, "Options")},
    "TemplateResponse": {"nodeInfo": (1, "Node")},
    "Node": {"metadata": (1, "ObjectMeta"), "spec": (2, "NodeSpec"), "status": (3, "NodeStatus")},
    "ObjectMeta": {"name": (1, "string"), "labels": (11, "{string}"), "annotations": (12, "{string}")},
    "NodeSpec": {"providerID": (3, "string"), "taints": (5, "Taint*")},
    "Taint": {"key": (1, "string"), "value": (2, "string"), "effect": (3, "string")},
    "NodeStatus": {
        "capacity": (1, "{Quantity}"),
        "allocatable": (2, "{Quantity}"),
        "conditions": (4, "NodeCondition*"),
    },
    "Quantity": {"string": (1, "string")},
    "NodeCondition": {"type": (1, "string"), "status": (2, "string")},
}
"""Each message's fields: number and type. ``*``: a list; braces: a map from strings."""


def _describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add(message, field, number, kind)
    return file


def _add(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> None:
    added = message.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
    if kind.startswith("{"):
        entry = message.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
        entry.options.map_entry = True
        _add(entry, "key", 1, "string")
        _add(entry, "value", 2, kind.strip("{}"))
        added.label, added.type = _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE
        added.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"
        return
    if kind.endswith("*"):
        added.label = _FIELD.LABEL_REPEATED
    kind = kind.rstrip("*")
    if kind in _SCALARS:
        added.type = _SCALARS[kind]
    else:
        added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_describe())  # type: ignore[no-untyped-call, unused-ignore]
CLASSES: dict[str, Any] = {
    name: message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
}
"""The class of each message, by its name here."""
