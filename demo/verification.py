"""Verifies through the stand-ins' public APIs that nothing is left, stuck or lost.

Each check returns the problems it sees; a problem that may only be late (a node on its way out, a
message about to be acknowledged) is looked at again within a bound.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Self

import httpx

from demo.settings import CLUSTER_PATH, DEAD_LETTER_SUBSCRIPTION, Addresses
from shared.model import labels
from standins.kit.addresses import STAND_IN
from standins.kit.kubernetes import open_client

SETTLE_SECONDS = 30.0
"""How long something may be late; a good end is noticed at once. On a busy machine a function that
was killed takes ten seconds to start, and its messages wait for the end of their back-off."""
_POLL_SECONDS = 0.2
_EXPORTER_METRICS = ("tpu_provisioner_exporter_buffered", "tpu_provisioner_exporter_objects_unreadable_total")
"""Metrics of the exporter that are zero at the end of a good run: no event unsent, no object
skipped."""
_CHANGES = ("Create", "Delete", "Set", "Update")


class Verifier:
    """Looks at a stack from outside; used as a context manager."""

    def __init__(self, addresses: Addresses) -> None:
        self._gke = httpx.Client(base_url=addresses.gke_rest, timeout=10)
        self._kubernetes = open_client(addresses.kubeconfig)
        self._pubsub = httpx.Client(base_url=addresses.pubsub_rest, timeout=10)
        self._exporter = httpx.Client(base_url=addresses.exporter, timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in (self._gke, self._kubernetes, self._pubsub, self._exporter):
            client.close()

    def verify(self, *, settle_seconds: float = SETTLE_SECONDS) -> list[str]:
        """Return what is wrong with the end state, after giving late things some time to settle."""
        deadline = time.monotonic() + settle_seconds
        while True:
            problems = self._look()
            if not problems or time.monotonic() > deadline:
                return problems
            time.sleep(_POLL_SECONDS)

    def count_changes(self, *, since: float) -> dict[str, int]:
        """Return how many accepted calls of GKE changed something, by method, since then."""
        calls = self._gke.get("/admin/calls").raise_for_status().json()["calls"]
        methods = (
            str(each["method"])
            for each in calls
            if each["skin"] != STAND_IN and each["code"] == "OK" and float(each["at"]) >= since
        )
        return dict(Counter(method for method in methods if method.startswith(_CHANGES)))

    def _look(self) -> list[str]:
        checks: dict[str, Callable[[], list[str]]] = {
            "GKE": self._check_gke,
            "nodes": self._check_nodes,
            "Pub/Sub": self._check_pubsub,
            "the exporter": self._check_exporter,
        }
        problems: list[str] = []
        for name, check in checks.items():
            try:
                problems += check()
            except httpx.HTTPError as error:
                problems.append(f"{name}: no answer: {error!r}")
        return problems

    def _check_gke(self) -> list[str]:
        answer = self._gke.get(f"/v1/{CLUSTER_PATH}/nodePools").raise_for_status().json()
        ours = [
            pool
            for pool in answer.get("nodePools", [])
            if pool.get("config", {}).get("labels", {}).get(labels.MANAGER) == labels.MANAGER_VALUE
        ]
        return [f"node pool {each['name']} is left in GKE ({each.get('status', '')})" for each in ours]

    def _check_nodes(self) -> list[str]:
        answer = self._kubernetes.get("/api/v1/nodes", params={"labelSelector": labels.ACCELERATOR})
        return [f"node {each['metadata']['name']} is left" for each in answer.raise_for_status().json()["items"]]

    def _check_pubsub(self) -> list[str]:
        problems = []
        for each in self._pubsub.get("/admin/subscriptions").raise_for_status().json()["subscriptions"]:
            waiting = int(each.get("backlog") or 0) + int(each.get("outstanding") or 0)
            if waiting and each["name"] != DEAD_LETTER_SUBSCRIPTION:
                problems.append(f"subscription {each['name']} has {waiting} undelivered messages")
        pulled = self._pubsub.post(
            f"/v1/{DEAD_LETTER_SUBSCRIPTION}:pull", json={"maxMessages": 10, "returnImmediately": True}
        )
        dead = pulled.raise_for_status().json().get("receivedMessages", [])
        problems += [f"message {each['message']['messageId']} is a dead letter" for each in dead]
        return problems

    def _check_exporter(self) -> list[str]:
        answer = self._exporter.get("/readyz")
        if answer.is_error:
            return [f"the exporter is not ready: {answer.text.strip()[:200]}"]
        metrics = self._exporter.get("/metrics").raise_for_status().text.splitlines()
        values = dict(line.rsplit(" ", 1) for line in metrics if line.startswith(_EXPORTER_METRICS))
        return [
            f"the exporter's metric {name} is {value} and not 0" for name, value in values.items() if float(value)
        ]
