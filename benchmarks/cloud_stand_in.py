"""What a function talks to: metadata server, GKE, Kubernetes API; canned answers, counted.

It judges nothing: the stand-ins under ``standins/`` do. Here an answer must only cost as little as
possible.
"""

import json
import re
import threading
from collections import Counter
from datetime import UTC, datetime

from benchmarks.sample_objects import CLUSTER, SINCE, running_jobset, waiting_leader
from standins.processes.local_answers import Answer, Asked, LocalAnswers

_NUMBER = re.compile(r"\b(\d{9})\b")
"""In the name of each object: which one it is."""
_OPERATION = {"name": "operation-1", "operationType": "CREATE_NODE_POOL", "status": "RUNNING"}
_NAMED = {
    "namespaces": b'{"metadata": {"name": "NAME", "uid": "of-default"}}',
    "clusters": b'{"name": "NAME", "releaseChannel": {"channel": "REGULAR"}}',
}
"""Objects of which only the name matters, by their kind."""
_TOKEN = {"access_token": "bench", "expires_in": 3599, "token_type": "Bearer"}
_METADATA: dict[str, bytes] = {
    "/": b"computeMetadata/\n",
    "/computeMetadata/v1/project/project-id": b'"bench-project"',
    "/computeMetadata/v1/universe/universe-domain": b'"googleapis.com"',
    "/computeMetadata/v1/instance/service-accounts/default/": json.dumps(
        {"aliases": ["default"], "email": "functions@bench-project.iam.gserviceaccount.com", "scopes": []}
    ).encode(),
    "/computeMetadata/v1/instance/service-accounts/default/token": json.dumps(_TOKEN).encode(),
}


class CloudStandIn(LocalAnswers):
    """All of it on two ports of 127.0.0.1 while its ``with`` block runs."""

    def __init__(self) -> None:
        self._leader, self._jobset = waiting_leader(), running_jobset()
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        super().__init__(self._answer)

    def environment(self) -> dict[str, str]:
        """Return the variables by which a function finds all this.

        As on the platform, the function has a Google account.
        """
        clusters = {CLUSTER: {"endpoint": self.url, "zone": "us-east5-b"}}
        return {
            "TPU_PROVISIONER_CLUSTERS": json.dumps(clusters),
            "TPU_PROVISIONER_GKE_ENDPOINT": self.url,
            "TPU_PROVISIONER_CREDENTIALS": "google",
            "GCE_METADATA_HOST": self.address,
            "GCE_METADATA_IP": self.address,
            # No configuration of this machine's user may answer first.
            "CLOUDSDK_CONFIG": "/nonexistent",
        }

    def take_counts(self) -> Counter[str]:
        """Return how often each thing was asked for since the last time, and begin anew."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return counts

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def _answer(self, asked: Asked) -> Answer:
        numbers, path, method = _NUMBER.findall(asked.path), asked.path.partition("?")[0], asked.method
        number = int(numbers[-1]) if numbers else 0
        if path in _METADATA:
            self._count("metadata")
            return Answer(200, _METADATA[path])
        if method == "POST" and path.endswith("/nodePools"):
            self._count("create")
            return Answer(200, json.dumps(_OPERATION).encode())
        if method == "POST" and path.endswith("/events"):
            self._count("event")
            return Answer(201, asked.body)
        if path.endswith("/pods"):
            self._count("list")
            # A plain demand is that of a young pod: an older one lets GKE's operations be read too.
            now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            leader = self._leader.make(number).replace(SINCE.encode(), now.encode())
            return Answer(200, b'{"metadata": {}, "items": [%s]}' % leader)
        if path.endswith(("/nodePools", "/operations")):
            self._count("list")
            return Answer(200, b"{}")
        kind, name = path.split("/")[-2:]
        named = _NAMED.get(kind, b"").replace(b"NAME", name.encode())
        found = self._jobset.make(number) if kind == "jobsets" else named
        self._count("get" if found else f"unknown {method} {path}")
        return Answer(200, found) if found else Answer(404, b'{"error": {"message": "no such object"}}')
