"""A Kubernetes API and a GKE API in one small server: one waiting slice, a record of every call.

For tests of whole processes only. The tests in tests/contract show what the real APIs do.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from shared.core import labels
from shared.core.kinds import jobset as jobset_keys
from tests.builders import JOBSET_UID, POD_UID

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPLATE: dict[str, Any] = {
    "nodeSelector": {labels.ACCELERATOR: "tpu-v6e-slice", labels.TOPOLOGY: "4x4"},
    "containers": [{"name": "c", "resources": {"limits": {labels.TPU_RESOURCE: "4"}}}],
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "namespace": "default",
        "name": "train-workers-0-0-abcde",
        "uid": POD_UID,
        "labels": {jobset_keys.JOBSET_NAME_ON_POD: "train", labels.COMPLETION_INDEX: "0"},
        "ownerReferences": [{"kind": "Job", "name": "train-workers-0", "controller": True}],
    },
    "spec": TEMPLATE,
    "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
}
JOBSET = {
    "metadata": {"namespace": "default", "name": "train", "uid": JOBSET_UID},
    "spec": {
        "replicatedJobs": [
            {
                "name": "workers",
                "replicas": 2,
                "template": {"spec": {"parallelism": 4, "template": {"spec": TEMPLATE}}},
            }
        ]
    },
}
GETS = {
    "/api/v1/namespaces/default/pods/train-workers-0-0-abcde": POD,
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/train": JOBSET,
    "/api/v1/namespaces/default": {"metadata": {"name": "default", "uid": "of-default"}},
    "/api/v1/namespaces/kube-system": {"metadata": {"name": "kube-system", "uid": "of-the-cluster"}},
    "/api/v1/namespaces/tpu-provisioner": {"metadata": {"name": "tpu-provisioner", "uid": "of-ours"}},
    "/api/v1/pods": {"metadata": {}, "items": [POD]},
}


class CannedCloud(ThreadingHTTPServer):
    """Answers reads from `GETS`, an empty list for node pools, and 200 to every write."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def created_pools(self) -> list[dict[str, Any]]:
        return [
            body["nodePool"]
            for method, path, body in self.asked
            if path.endswith("/nodePools") and method == "POST"
        ]


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CannedCloud

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.partition("?")[0]
        self.server.asked.append((self.command, path, sent))
        found = {} if self.command == "POST" or path.endswith("/nodePools") else GETS.get(path)
        body = json.dumps(found or {}).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 -- the names that http.server calls

    def log_message(self, *_args: object) -> None:
        """Say nothing on standard error."""


@contextmanager
def canned_cloud() -> Iterator[CannedCloud]:
    """Serve until the block ends."""
    server = CannedCloud()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
