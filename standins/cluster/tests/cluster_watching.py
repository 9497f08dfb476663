"""Requests about pods that nobody schedules, and watches of them, as plain HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import httpx

from standins.cluster.tests.cluster_objects import pod

Json = dict[str, Any]

GATED = [{"name": "hold"}]


def make_namespace(http: httpx.Client, name: str) -> None:
    """Create a namespace with its account, without which the real cluster admits no pod."""
    http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
    path = f"/api/v1/namespaces/{name}/serviceaccounts"
    assert http.post(path, json={"metadata": {"name": "default"}}).status_code in {201, 409}


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def create(http: httpx.Client, namespace: str, name: str, **labels: str) -> Json:
    body = pod(name, schedulingGates=GATED)
    body["metadata"]["labels"] = labels
    answer = http.post(pods_path(namespace), json=body)
    answer.raise_for_status()
    return dict(answer.json())


def version_now(http: httpx.Client, namespace: str) -> str:
    return str(http.get(pods_path(namespace)).json()["metadata"]["resourceVersion"])


def watch(http: httpx.Client, namespace: str, *, count: int, **query: str) -> list[Json]:
    """Return the first events of a watch; fewer, if the server ends it before."""
    events: list[Json] = []
    query = {"watch": "true", "timeoutSeconds": "30"} | query
    with http.stream("GET", pods_path(namespace), params=query) as answer:
        answer.raise_for_status()
        lines: Iterator[str] = answer.iter_lines()
        for line in lines:
            events.append(json.loads(line))
            if len(events) == count:
                break
    return events


def shown(events: list[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]
