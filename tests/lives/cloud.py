"""One running stack as the lives see it: Kubernetes as administrator, GKE by the fake's admin API.

What lives here: calls and bounded waiting. What is done with them is in the scripts of the lives.
"""

import base64
import json
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

import httpx

from demo.settings import ClusterKind
from demo.stack import Stack
from shared.model.errors import Rejected
from shared.model.messages import parse_message
from standins.kit.kubernetes import open_client

Json = dict[str, Any]
T = TypeVar("T")

WAIT_SECONDS = 240.0
"""Generous: several of these tests may share two cores with others."""
_POLL_SECONDS = 0.1
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


def wait_for(what: str, look: Callable[[], T | None], *, seconds: float = WAIT_SECONDS) -> T:
    """Return what `look` finds as soon as that is something."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(_POLL_SECONDS)
    return found


class Cloud:
    """Clients of one stack; used as a context manager, by several threads at once."""

    def __init__(self, stack: Stack) -> None:
        addresses = stack.addresses
        self.is_real = stack.settings.cluster is ClusterKind.REAL
        self.controller_speed = 1.0 if self.is_real else stack.settings.speed
        """Virtual seconds per real second of the controllers; real ones have no virtual time."""
        self.kubernetes = open_client(addresses.kubeconfig, timeout_seconds=30)
        self._gke = httpx.Client(base_url=addresses.gke_rest, timeout=30)
        self._pubsub = httpx.Client(base_url=addresses.pubsub_rest, timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in (self.kubernetes, self._gke, self._pubsub):
            client.close()

    def get(self, path: str, **params: str) -> Json | None:
        """Return an object or a list of the Kubernetes API; None for what is not there."""
        answer = self.kubernetes.get(path, params=params)
        return None if answer.status_code == httpx.codes.NOT_FOUND else _body(answer)

    def items(self, path: str, **params: str) -> list[Json]:
        """Return the items of a list."""
        found: list[Json] = (self.get(path, **params) or {}).get("items", [])
        return found

    def create(self, path: str, body: Json) -> Json:
        """Create an object and return what was stored."""
        return _body(self.kubernetes.post(path, json=body))

    def create_namespace(self, name: str) -> None:
        """Create a namespace, and return once it can have pods."""
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        if self.is_real:  # without its account it can have none
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            wait_for("the namespace's default account", lambda: self.get(account))

    def patch(self, path: str, body: Any, headers: dict[str, str] = MERGE) -> Json:
        """Change an object and return it."""
        return _body(self.kubernetes.patch(path, content=json.dumps(body), headers=headers))

    def delete(self, path: str, propagation: str = "Background") -> None:
        """Delete an object as kubectl does; one that is gone is fine."""
        answer = self.kubernetes.delete(path, params={"propagationPolicy": propagation})
        if answer.status_code != httpx.codes.NOT_FOUND:
            _body(answer)

    def succeed(self, namespace: str, pod: str) -> None:
        """Report that a pod has succeeded, as its kubelet would; one that is gone is fine."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/status"
        found_answer = json.dumps({"status": {"phase": "Succeeded"}})
        answer = self.kubernetes.patch(path, content=found_answer, headers=MERGE)
        if answer.status_code != httpx.codes.NOT_FOUND:
            _body(answer)

    def pools(self) -> dict[str, str]:
        """Return name and status of every node pool; no call that GKE would count."""
        found = _body(self._gke.get("/admin/pools"))["pools"]
        return {str(each["pool"]): str(each["status"]) for each in found}

    def calls(self) -> list[Json]:
        """Return every call that GKE was sent, oldest first."""
        calls: list[Json] = _body(self._gke.get("/admin/calls"))["calls"]
        return calls

    def add_fault(self, switch: str, **fields: Any) -> int:
        """Put a fault of the fake GKE in force and return its number."""
        added = _body(self._gke.post("/admin/faults", json={"switch": switch} | fields))["added"]
        return int(added[0]["number"])

    def clear_fault(self, number: int) -> None:
        """Take one fault back."""
        _body(self._gke.delete("/admin/faults", params={"number": str(number)}))

    def messages(self, topic: str) -> list[Json]:
        """Return the data of every event that was published to a topic, with its attributes.

        Other tests of the same stack publish what is no event, on purpose; that is left out.
        """
        found = _body(self._pubsub.get("/admin/messages", params={"topic": topic}))["messages"]
        return [
            json.loads(data) | {"attributes": each["attributes"]}
            for each in found
            if _is_event(data := base64.b64decode(each["data"]), each["attributes"])
        ]


def _is_event(data: bytes, attributes: dict[str, str]) -> bool:
    try:
        parse_message(data, attributes)
    except Rejected:
        return False
    return True


def _body(answer: httpx.Response) -> Json:
    assert answer.is_success, (
        f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:800]}"
    )
    body: Json = answer.json()
    return body
