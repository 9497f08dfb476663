"""Verifies through the stand-ins' public APIs that nothing is left, stuck or lost.

Each check yields the problems that it sees; a problem that may only be late (a node on its way out,
a message about to be acknowledged) is looked at again within a bound.
"""

import time
from collections import Counter
from collections.abc import Iterator

import httpx

from demo.settings import CLUSTER_PATH, DEAD_LETTER_SUBSCRIPTION, Addresses
from shared.model import labels
from standins.kit.addresses import STAND_IN
from standins.kit.kubernetes import open_client

SETTLE_SECONDS = 30.0
"""How long something may be late; a good end is noticed at once. On a busy machine a function that
was killed takes ten seconds to start, and its messages wait for the end of their back-off."""
_POLL_SECONDS = 0.2
_CALL_SECONDS_MAX = 10.0
_EXPORTER_METRICS = ("tpu_provisioner_exporter_buffered", "tpu_provisioner_exporter_objects_unreadable_total")
"""Of the exporter, zero at the end of a good run: no event unsent, no object skipped."""
_CHANGES = ("Create", "Delete", "Set", "Update")


def verify(addresses: Addresses, *, settle_seconds: float = SETTLE_SECONDS) -> list[str]:
    """Return what is wrong with the end state, after giving late things some time to settle."""
    deadline = time.monotonic() + settle_seconds
    while True:
        problems: list[str] = []
        for check in (_check_gke, _check_nodes, _check_pubsub, _check_exporter):
            try:
                problems += check(addresses)
            except httpx.HTTPError as error:
                problems.append(f"no answer: {error!r}")
        if not problems or time.monotonic() > deadline:
            return problems
        time.sleep(_POLL_SECONDS)


def count_changes(addresses: Addresses, *, since: float) -> dict[str, int]:
    """Return how many accepted calls of GKE changed something, by method, since then."""
    calls = _get(f"{addresses.google_rest}/admin/calls").json()["calls"]
    accepted = (each for each in calls if each["skin"] != STAND_IN and each["code"] == "OK")
    methods = (str(each["method"]) for each in accepted if float(each["at"]) >= since)
    return dict(Counter(method for method in methods if method.startswith(_CHANGES)))


def _get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=_CALL_SECONDS_MAX, trust_env=False).raise_for_status()


def _check_gke(addresses: Addresses) -> Iterator[str]:
    pools = _get(f"{addresses.google_rest}/v1/{CLUSTER_PATH}/nodePools").json().get("nodePools", [])
    for pool in pools:
        if pool.get("config", {}).get("labels", {}).get(labels.MANAGER) == labels.MANAGER_VALUE:
            yield f"node pool {pool['name']} is left in GKE ({pool.get('status', '')})"


def _check_nodes(addresses: Addresses) -> Iterator[str]:
    with open_client(addresses.kubeconfig) as client:
        answer = client.get("/api/v1/nodes", params={"labelSelector": labels.ACCELERATOR}).raise_for_status()
    yield from (f"node {each['metadata']['name']} is left" for each in answer.json()["items"])


def _check_pubsub(addresses: Addresses) -> Iterator[str]:
    for each in _get(f"{addresses.google_rest}/admin/subscriptions").json()["subscriptions"]:
        waiting = int(each.get("backlog") or 0) + int(each.get("outstanding") or 0)
        if waiting and each["name"] != DEAD_LETTER_SUBSCRIPTION:
            yield f"subscription {each['name']} has {waiting} undelivered messages"
    url = f"{addresses.google_rest}/v1/{DEAD_LETTER_SUBSCRIPTION}:pull"
    body = {"maxMessages": 10, "returnImmediately": True}
    pulled = httpx.post(url, json=body, timeout=_CALL_SECONDS_MAX, trust_env=False).raise_for_status().json()
    for each in pulled.get("receivedMessages", []):
        yield f"message {each['message']['messageId']} is a dead letter"


def _check_exporter(addresses: Addresses) -> Iterator[str]:
    _get(f"{addresses.exporter}/readyz")
    metrics = _get(f"{addresses.exporter}/metrics").text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in metrics if line.startswith(_EXPORTER_METRICS))
    yield from (
        f"the exporter's metric {name} is {value} and not 0" for name, value in values.items() if float(value)
    )
