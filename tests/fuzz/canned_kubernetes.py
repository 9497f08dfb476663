"""A Kubernetes API without a server: one scene's objects and a steady neighbour's, as bytes."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from shared.edges.connection import Connection
from shared.edges.kubernetes import KubernetesApi
from tests.fuzz.canned_http import Canned, CannedHttp
from tests.fuzz.scenes import Scene

NODE = (
    b'{"metadata": {"name": "node-0", "uid": "uid-of-node-0", "resourceVersion": "9",'
    b' "labels": {"cloud.google.com/gke-nodepool": "POOL"}},'
    b' "spec": {"taints": [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]}}'
)
NAMESPACE = b'{"metadata": {"name": "default", "uid": "uid-of-default", "labels": {"team": "a"}}}'
NOT_FOUND = b'{"kind": "Status", "code": 404, "reason": "NotFound", "message": "jobsets \\"x\\" not found"}'


@dataclass(slots=True)
class CannedKubernetes:
    """Answers by path. A part of an object's answer may be spoilt before."""

    scene: Scene
    workload: bytes
    pod: bytes
    steady: Scene
    node: bytes = NODE
    namespace: bytes = NAMESPACE
    notice: bytes = b"{}"
    page_metadata: bytes = b'{"resourceVersion": "100"}'
    pool_name: str = "POOL"
    """What the node says of its pool."""
    on_nodes: tuple[bytes, ...] = ()
    """The pods that run on the pool's node."""
    events_exist: bool = False

    def open(self) -> KubernetesApi:
        """Return a client of this API."""
        connection = Connection(url="http://canned")
        pool: Any = CannedHttp(self._answer)
        connection.pool = pool
        return KubernetesApi(connection)

    def _answer(self, method: str, url: str) -> Canned:
        parts = urlsplit(url)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if method != "GET":
            return Canned(self.notice, 409 if self.events_exist and method == "POST" else 200)
        if parts.path == "/api/v1/pods":
            return Canned(self._page(*self._select(query)))
        if parts.path == "/api/v1/nodes":
            return Canned(self._page(self.node.replace(b"POOL", self.pool_name.encode())))
        if parts.path.startswith("/api/v1/namespaces/"):
            return self._find_in_namespace(parts.path.split("/")[4:])
        return self._find_workload(parts.path)

    def _select(self, query: dict[str, str]) -> list[bytes]:
        """Return the pods of a node, or those that wait."""
        of_a_node = "spec.nodeName=" in query.get("fieldSelector", "")
        return list(self.on_nodes) if of_a_node else [self.pod, self.steady.pod]

    def _find_in_namespace(self, rest: list[str]) -> Canned:
        if len(rest) == 1:
            return Canned(self.namespace)
        if rest[1] == "events":
            return Canned(self.notice)
        if rest[1:] == ["pods"]:
            return Canned(self._page(self.pod, self.steady.pod))
        if self.scene.kind.name == "Pod" and rest[-1] == self.scene.name:
            return Canned(self.workload)
        return Canned(self.steady.pod if f'"{rest[-1]}"'.encode() in self.steady.pod else self.pod)

    def _find_workload(self, path: str) -> Canned:
        for scene, body in ((self.scene, self.workload), (self.steady, self.steady.workload)):
            if path in (scene.kind.path_of("default", scene.name), scene.kind.path):
                listed = path == scene.kind.path
                return Canned(self._page(body) if listed else body)
        return Canned(NOT_FOUND.replace(b"x", path.rpartition("/")[2].encode()), 404)

    def _page(self, *items: bytes) -> bytes:
        return b'{"metadata": ' + self.page_metadata + b', "items": [' + b", ".join(items) + b"]}"
