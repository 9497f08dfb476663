"""Google's APIs and Kubernetes without a server: answers in place of connections."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter

from shared.edges.connection import Connection
from shared.edges.gke import GkePools
from shared.edges.google import GoogleAccount, OnceInTime
from shared.edges.kubernetes import KubernetesApi
from shared.kinds.kind import Kind
from shared.settings import Credentials

Pools = TypeVar("Pools", bound=GkePools)
NODE = (
    b'{"metadata": {"name": "node-0", "uid": "uid-of-node-0", "resourceVersion": "9",'
    b' "labels": {"cloud.google.com/gke-nodepool": "POOL"}},'
    b' "spec": {"taints": [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]}}'
)
NAMESPACE = b'{"metadata": {"name": "default", "uid": "uid-of-default", "labels": {"team": "a"}}}'
_NOT_FOUND = b'{"kind": "Status", "code": 404, "reason": "NotFound", "message": "jobsets \\"x\\" not found"}'


@dataclass(frozen=True, slots=True)
class Canned:
    """One HTTP answer."""

    body: bytes = b"{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CannedHttp:
    """Stands for urllib3's pools: each request is answered by a function, and remembered."""

    answer: Callable[[str, str], Canned]  # takes the method and the URL or path
    sent: list[tuple[str, str]] = field(default_factory=list)

    def urlopen(self, method: str, url: str, **_options: Any) -> Any:
        """Answer as `urllib3.PoolManager` does."""
        self.sent.append((method, url))
        canned = self.answer(method, url)
        body, headers = io.BytesIO(canned.body), dict(canned.headers)
        return urllib3.HTTPResponse(body, status=canned.status, headers=headers, preload_content=False)


class _CannedAdapter(HTTPAdapter):
    http: CannedHttp

    def send(self, request: requests.PreparedRequest, *_positional: Any, **_options: Any) -> requests.Response:
        return self.build_response(request, self.http.urlopen(str(request.method), str(request.url)))


class _Once(OnceInTime, _CannedAdapter):
    """The deadline of the product over canned answers."""


def open_pools(http: CannedHttp, edge: type[Pools]) -> Pools:
    """Return an edge of GKE over canned answers."""
    pools, once = edge("https://canned", GoogleAccount(Credentials.ANONYMOUS)), _Once()
    once.http = http
    pools.open()
    transport: Any = pools._client.transport
    for session in (transport._session, pools._compute.session, pools._gke.session):
        session.mount("https://", once)
    return pools


@dataclass(frozen=True, slots=True)
class Scene:
    """A real workload that waits for its first pool, with its first pod, as the API shows them."""

    kind: Kind
    name: str
    workload: bytes
    pod: bytes


@dataclass(slots=True)
class CannedKubernetes:
    """A scene and a steady neighbour, answered by path; a part of an answer may be spoilt."""

    scene: Scene
    workload: bytes
    pod: bytes
    steady: Scene
    node: bytes = NODE
    namespace: bytes = NAMESPACE
    metadata: bytes = b'{"resourceVersion": "100"}'
    bound: bytes = b""  # the pod that runs on the pool's node
    pool_name: str = "POOL"  # what the node says of its pool

    def open(self) -> KubernetesApi:
        """Return a client of this API."""
        connection = Connection(url="http://canned")
        pool: Any = CannedHttp(self._answer)
        connection.pool = pool
        return KubernetesApi(connection)

    def _answer(self, method: str, url: str) -> Canned:
        parts = urlsplit(url)
        of_a_node = "spec.nodeName=" in parse_qs(parts.query).get("fieldSelector", [""])[0]
        if method != "GET":
            return Canned()
        lists = {
            self.steady.kind.path: [self.steady.workload],
            self.scene.kind.path: [self.workload],
            "/api/v1/pods": [self.bound] * bool(self.bound) if of_a_node else self._pods(),
            "/api/v1/nodes": [self.node.replace(b"POOL", self.pool_name.encode())],
        }
        if parts.path in lists:
            return self._list(*lists[parts.path])
        if parts.path.startswith("/api/v1/namespaces/"):
            return self._find_in_namespace(parts.path.split("/")[5:])
        for scene, body in ((self.scene, self.workload), (self.steady, self.steady.workload)):
            if parts.path == scene.kind.path_of("default", scene.name):
                return Canned(body)
        return Canned(_NOT_FOUND.replace(b"x", parts.path.rpartition("/")[2].encode()), 404)

    def _pods(self) -> list[bytes]:
        return [self.pod, self.steady.pod]

    def _find_in_namespace(self, rest: list[str]) -> Canned:
        if rest == ["pods"]:
            return self._list(*self._pods())
        if not rest:
            return Canned(self.namespace)
        if self.scene.kind.name == "Pod" and rest[-1] == self.scene.name:
            return Canned(self.workload)
        return Canned(self.steady.pod if f'"{rest[-1]}"'.encode() in self.steady.pod else self.pod)

    def _list(self, *items: bytes) -> Canned:
        return Canned(b'{"metadata": ' + self.metadata + b', "items": [' + b", ".join(items) + b"]}")
