"""Joins the log records of one event, from the exporter through Pub/Sub to the function.

W3C Trace Context (https://www.w3.org/TR/trace-context/) in CloudEvents' attribute ``traceparent``
(https://github.com/cloudevents/spec/blob/main/cloudevents/extensions/distributed-tracing.md). The
trace has the id of its event: a redelivery, a replay and another exporter's report of the same
observation have the same trace.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from shared.core.messages import ATTRIBUTE_PREFIX, Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.core.messages import Event

TRACE_ATTRIBUTE = f"{ATTRIBUTE_PREFIX}traceparent"
LOG_FIELD = "logging.googleapis.com/trace"  # assumes: log-fields
"""https://cloud.google.com/logging/docs/structured-logging#structured_logging_special_fields"""
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def add_trace(message: Message, event: Event) -> Message:
    """Return the message with its event's trace among the attributes."""
    span = hashlib.sha256(event.id.encode()).hexdigest()[:16]
    return Message(message.data, {**message.attributes, TRACE_ATTRIBUTE: f"00-{event.id}-{span}-01"})


def read_trace_id(attributes: Mapping[str, str]) -> str:
    """Return the trace id of a message, 32 hexadecimal digits, or an empty text."""
    found = _TRACEPARENT.fullmatch(attributes.get(TRACE_ATTRIBUTE, ""))
    return found.group(1) if found else ""


def build_log_field(cluster: str, trace_id: str) -> dict[str, str]:
    """Return the field by which Cloud Logging groups records.

    Args:
        cluster: ``projects/P/locations/L/clusters/C``; the trace counts as one of its project.
        trace_id: as `read_trace_id` returns it; empty for no trace.
    """
    return {LOG_FIELD: f"projects/{cluster.split('/')[1]}/traces/{trace_id}"} if trace_id else {}
