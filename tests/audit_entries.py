"""Entries of the audit log about node pool operations, as the stand-in's log sink writes them."""

from typing import Any

import msgspec

from shared.model.messages import Message
from shared.model.names import build_name
from standins.google.gke.log_sink import build_entry
from standins.google.gke.names import ClusterName
from standins.google.gke.nodes import OperationMoved
from tests.builders import CLUSTER, a_claim

STOCKOUT = {"code": 8, "message": "Google Compute Engine: The zone does not have enough resources available"}
AT = "2027-01-15T08:00:00.5Z"


def an_entry(
    act: str = "Create",
    *,
    pool: str | None = None,
    cluster: str = CLUSTER,
    status: dict[str, Any] | None = None,
    last: bool = True,
) -> dict[str, Any]:
    """One entry about the plain case's pool: the last, of a success, unless said otherwise."""
    _, project, _, location, _, name = cluster.split("/")
    operation = OperationMoved(
        cluster=ClusterName(project, location, name),
        pool=build_name(a_claim(), 0) if pool is None else pool,
        operation="operation-1798761600000-5e7d3a52",
        kind=f"{act.upper()}_NODE_POOL",
        at=AT,
        ended=last,
        code=(status or {}).get("code", 0),
        text=(status or {}).get("message", ""),
    )
    return build_entry(operation, "1tq4f0ve2q7k0")


def as_message(entry: object) -> Message:
    """The message of an entry, or of any JSON in its place."""
    return Message(msgspec.json.encode(entry), {"logging.googleapis.com/timestamp": AT})
