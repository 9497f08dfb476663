"""Requests about pods that nobody schedules, and watches of them, as plain HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cluster_objects import pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

Json = dict[str, Any]

GATED = [{"name": "hold"}]


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def create(http: httpx.Client, namespace: str, name: str, **labels: str) -> Json:
    body = pod(name, schedulingGates=GATED)
    body["metadata"]["labels"] = labels
    answer = http.post(pods_path(namespace), json=body)
    answer.raise_for_status()
    return answer.json()


def version_now(http: httpx.Client, namespace: str) -> str:
    return http.get(pods_path(namespace)).json()["metadata"]["resourceVersion"]


def watch(
    http: httpx.Client, namespace: str, *, count: int, accept: str = "application/json", **query: str
) -> list[Json]:
    """Return the first events of a watch; the server ends it when as many do not come, or as the query says."""
    events: list[Json] = []
    query = {"watch": "true", "timeoutSeconds": "30"} | query
    with http.stream("GET", pods_path(namespace), params=query, headers={"Accept": accept}) as answer:
        answer.raise_for_status()
        lines: Iterator[str] = answer.iter_lines()
        for line in lines:
            events.append(json.loads(line))
            if len(events) == count:
                break
    return events


def shown(events: list[Json]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]
