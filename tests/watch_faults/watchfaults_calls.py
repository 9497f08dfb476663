"""Who asked the API server for lists and watches, by its own audit log and by its own counters."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from shared.core.kinds.jobset import JOBSET
from shared.core.kinds.table import select_pods
from tests.watch_faults.watchfaults_loop import sample

EXPORTER = "system:serviceaccount:tpu-provisioner:tpu-provisioner-exporter"
PROBE_LIMIT = "1"
"""The page size by which the exporter asks for nothing but the present version."""


@dataclass(frozen=True)
class Asked:
    """One request for a list or a watch."""

    user: str
    verb: str
    resource: str
    selector: str
    limit: str
    continued: bool
    at: float


def read_audit(lines: Iterable[dict[str, Any]]) -> list[Asked]:
    """Return the requests of an audit log, oldest first."""
    return [read_line(line) for line in lines]


def read_line(line: dict[str, Any]) -> Asked:
    query = parse_qs(urlsplit(line["requestURI"]).query)
    reference = line.get("objectRef", {})
    return Asked(
        user=line["user"]["username"],
        verb=line["verb"],
        resource=reference.get("resource", ""),
        selector=query.get("labelSelector", [""])[0],
        limit=query.get("limit", [""])[0],
        continued="continue" in query,
        at=datetime.fromisoformat(line["requestReceivedTimestamp"]).timestamp(),
    )


def of_exporter(asked: list[Asked], verb: str, resource: str) -> list[Asked]:
    """The exporter's requests for JobSets and their pods: first pages of lists only, no probes."""
    return [
        each
        for each in asked
        if (each.user, each.verb, each.resource) == (EXPORTER, verb, resource)
        and each.selector in ("", select_pods(JOBSET))
        and not each.continued
        and not (verb == "list" and each.limit == PROBE_LIMIT)
    ]


def counted_by_server(kubernetes: httpx.Client, verb: str, resource: str) -> int:
    """How many requests the API server has counted since it started."""
    text = kubernetes.get("/metrics").raise_for_status().text
    return int(sample(text, "apiserver_request_total", verb=verb, resource=resource))
