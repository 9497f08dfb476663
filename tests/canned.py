"""Google's APIs and Kubernetes without a server: answers in place of connections."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
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
_NODE = (
    b'{"metadata": {"name": "node-0", "uid": "uid-of-node-0", "resourceVersion": "9",'
    b' "labels": {"cloud.google.com/gke-nodepool": "POOL"}},'
    b' "spec": {"taints": [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]}}'
)
SHARED = {
    "node": _NODE,
    "namespace": b'{"metadata": {"name": "default", "uid": "uid-of-default", "labels": {"team": "a"}}}',
    "metadata": b'{"resourceVersion": "100", "continue": ""}',
}
"""What the neighbour needs too: nothing of it can be read or told without."""
_NAMESPACES = ("default", "kube-system", "tpu-provisioner")
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
    sent: list[tuple[str, str, Mapping[str, str], bytes]] = field(default_factory=list)
    """The method, the URL or path, the headers and the body of each request."""

    def urlopen(self, method: str, url: str, **options: Any) -> Any:
        """Answer as `urllib3.PoolManager` does."""
        self.sent.append((method, url, options.get("headers") or {}, options.get("body") or b""))
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
    transport: Any = pools._client.transport
    for session in (transport._session, pools._compute.session, pools._gke.session):
        session.mount("https://", once)
    return pools


def open_api(http: CannedHttp) -> KubernetesApi:
    """Return a client of Kubernetes over canned answers."""
    connection, pool = Connection(url="http://canned"), cast("urllib3.PoolManager", http)
    connection.pool = pool
    return KubernetesApi(connection)


@dataclass(frozen=True, slots=True)
class Scene:
    """A real workload that waits for its first pool, with its first pod, as the API shows them."""

    kind: Kind
    name: str
    workload: bytes
    pod: bytes
    pod_name: str


def open_kubernetes(scene: Scene, steady: Scene, parts: Mapping[str, bytes], pool: str) -> KubernetesApi:
    """Return a client of an API with a scene and a steady neighbour, where parts have other texts.

    There is one node, of that pool. The part `bound` is a pod that runs on it.
    """
    text = {"workload": scene.workload, "pod": scene.pod, "bound": b"", **SHARED, **parts}
    pods = {each.pod_name: body for each, body in ((scene, text["pod"]), (steady, steady.pod))}
    workloads = {scene: text["workload"], steady: steady.workload}
    objects = {f"/api/v1/namespaces/{name}": text["namespace"] for name in _NAMESPACES}
    objects |= {f"/api/v1/namespaces/default/pods/{name}": pod for name, pod in pods.items()}
    objects |= {each.kind.path_of("default", each.name): body for each, body in workloads.items()}
    lists = {each.kind.path: [body] for each, body in workloads.items()}
    lists["/api/v1/pods"] = lists["/api/v1/namespaces/default/pods"] = list(pods.values())
    lists["/api/v1/nodes"] = [text["node"].replace(b"POOL", pool.encode())]

    def answer(method: str, url: str) -> Canned:
        parts = urlsplit(url)
        items = lists.get(parts.path)
        if "spec.nodeName=" in parse_qs(parts.query).get("fieldSelector", [""])[0]:
            items = [text["bound"]] * bool(text["bound"])
        if method != "GET":
            return Canned()
        if items is not None:
            return Canned(b'{"metadata": %b, "items": [%b]}' % (text["metadata"], b", ".join(items)))
        missing = _NOT_FOUND.replace(b"x", parts.path.rpartition("/")[2].encode())
        return Canned(objects[parts.path]) if parts.path in objects else Canned(missing, 404)

    return open_api(CannedHttp(answer))
