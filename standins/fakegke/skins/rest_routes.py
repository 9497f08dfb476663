"""Which HTTP method and path means which RPC.

From the HTTP rules of `google.container.v1`
(https://cloud.google.com/kubernetes-engine/docs/reference/rest). Matching only; bodies and answers
are in `rest_skin`.
"""

import re
from dataclasses import dataclass

_LOCATION = r"projects/[^/]+/locations/[^/:]+"
_CLUSTER = rf"{_LOCATION}/clusters/[^/:]+"
_POOL = rf"{_CLUSTER}/nodePools/[^/:]+"
_OPERATION = rf"{_LOCATION}/operations/[^/:]+"


@dataclass(frozen=True)
class Match:
    """What a path stands for: the RPC and the request fields that the path itself fills."""

    method: str
    fields: dict[str, str]


def _rule(verb: str, pattern: str, method: str) -> tuple[str, re.Pattern[str], str]:
    return verb, re.compile(rf"/v1/{pattern}"), method


_RULES = [
    _rule("POST", rf"(?P<parent>{_CLUSTER})/nodePools", "CreateNodePool"),
    _rule("GET", rf"(?P<parent>{_CLUSTER})/nodePools", "ListNodePools"),
    _rule("GET", rf"(?P<name>{_POOL})", "GetNodePool"),
    _rule("PUT", rf"(?P<name>{_POOL})", "UpdateNodePool"),
    _rule("DELETE", rf"(?P<name>{_POOL})", "DeleteNodePool"),
    _rule("POST", rf"(?P<name>{_POOL}):setSize", "SetNodePoolSize"),
    _rule("POST", rf"(?P<name>{_POOL}):setAutoscaling", "SetNodePoolAutoscaling"),
    _rule("POST", rf"(?P<name>{_POOL}):setManagement", "SetNodePoolManagement"),
    _rule("POST", rf"(?P<name>{_POOL}):rollback", "RollbackNodePoolUpgrade"),
    _rule("POST", rf"(?P<name>{_POOL}):completeUpgrade", "CompleteNodePoolUpgrade"),
    _rule("GET", rf"(?P<name>{_OPERATION})", "GetOperation"),
    _rule("POST", rf"(?P<name>{_OPERATION}):cancel", "CancelOperation"),
    _rule("GET", rf"(?P<parent>{_LOCATION})/operations", "ListOperations"),
    _rule("GET", rf"(?P<name>{_CLUSTER})", "GetCluster"),
    _rule("PUT", rf"(?P<name>{_CLUSTER})", "UpdateCluster"),
    _rule("DELETE", rf"(?P<name>{_CLUSTER})", "DeleteCluster"),
    _rule("GET", rf"(?P<parent>{_LOCATION})/clusters", "ListClusters"),
    _rule("POST", rf"(?P<parent>{_LOCATION})/clusters", "CreateCluster"),
    _rule("GET", rf"(?P<name>{_LOCATION})/serverConfig", "GetServerConfig"),
]
METHODS = sorted({method for _, _, method in _RULES})
"""Every RPC that the fake knows, those included that it refuses by name."""


def match_route(verb: str, path: str) -> Match | None:
    """Return what a request means, None when the API has no such path."""
    for wanted, pattern, method in _RULES:
        match = pattern.fullmatch(path) if verb == wanted else None
        if match is not None:
            return Match(method, match.groupdict())
    return None
