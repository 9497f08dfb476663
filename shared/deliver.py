"""One delivery from body to answer: parse, check, dispatch, log, keep what can never succeed. No framework."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from shared.answer import Answer, answer_decision, answer_error
from shared.core.decisions import Verdict
from shared.core.errors import ProvisionerError, Rejected, UnknownCluster
from shared.core.events import Event, EventType, Message, parse_message
from shared.perform.collect import collect
from shared.perform.provision import provision
from shared.perform.sweep import sweep
from shared.push import Push, parse_push
from shared.traces import LOG_FIELD, build_log_field, read_trace_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.perform.outcome import Outcome, Ports

_LOG = logging.getLogger("functions")
REASON_ATTRIBUTE = "tpu-provisioner-reason"
ERROR_ATTRIBUTE = "tpu-provisioner-error"
FUNCTION_ATTRIBUTE = "tpu-provisioner-function"
MESSAGE_ID_ATTRIBUTE = "tpu-provisioner-message-id"
_ATTRIBUTE_BYTES_MAX = 1024
_ATTRIBUTES_MAX = 90
"""Pub/Sub takes 100 per message: https://cloud.google.com/pubsub/quotas#resource_limits."""

Trace = dict[str, str]


def deliver(function: str, body: bytes, ports: Ports, trace: Trace) -> Answer:
    """Answer one push to ``provision`` or ``collect``; every path logs what was decided and why."""
    push: Push | None = None
    try:
        push = parse_push(body)
        event = parse_message(push.message.data, push.message.attributes)
        if event.cluster not in ports.clusters:
            raise UnknownCluster(
                "this deployment does not serve the cluster",
                field="ce-source",
                value=event.cluster,
                valid=", ".join(ports.clusters),
            )
        trace = _join_trace(push, event, trace)
        outcomes = _ANSWERING[event.type](event, ports)
    except Rejected as error:
        kept = push.message if push else Message(body[:_RAW_BYTES_MAX], {})
        return _keep(function, error, kept, push, ports, trace)
    except ProvisionerError as error:
        answer = answer_error(error)
        _log(answer.severity, str(error), function, push, trace, {"reason": error.reason, "decision": "none"})
        return answer
    for outcome in outcomes:
        _log_outcome(function, outcome, push, trace)
    return answer_decision(outcomes[0].decision.verdict)


def deliver_sweep(ports: Ports, trace: Trace) -> tuple[Answer, dict[str, int]]:
    """Answer one call of the scheduler: sweep, log what was done, and return the counts by decision."""
    report = sweep(ports)
    counts = Counter(str(outcome.decision.verdict) for outcome in report.outcomes)
    reasons = Counter(str(outcome.decision.reason) for outcome in report.outcomes)
    for outcome in report.outcomes:
        # A pool that stays is no news: hundreds of them, every minute, would bury what is.
        if outcome.decision.verdict not in (Verdict.KEEP, Verdict.NOTHING):
            _log_outcome("sweep", outcome, None, trace)
    for about, error in report.errors:
        answer = answer_error(error)
        _log(
            answer.severity,
            f"{about}: {error}",
            "sweep",
            None,
            trace,
            {"reason": error.reason, "decision": "none"},
        )
    if report.over_cap:
        message = "more deletions were due than sweep_deletions_max allows: nothing was deleted"
        _log(logging.CRITICAL, message, "sweep", None, trace, {"reason": "sweep_over_cap", "decision": "keep"})
    counts["errors"] = len(report.errors)
    _log(logging.INFO, "swept", "sweep", None, trace, {"counts": dict(counts), "reasons": dict(reasons)})
    worst = max((answer_error(error).status for _, error in report.errors), default=200)
    return Answer(200 if worst < 500 else worst, logging.INFO), dict(counts)  # noqa: PLR2004 -- HTTP


def _join_trace(push: Push, event: Event, request: Trace) -> Trace:
    """Return the log fields of the event's trace, which began at the exporter, and this request's beside."""
    joined = build_log_field(event.cluster, read_trace_id(push.message.attributes))
    return {**joined, "request_trace": request.get(LOG_FIELD, "")} if joined else request


def _provision(event: Event, ports: Ports) -> Sequence[Outcome]:
    return [provision(event, ports)]


_ANSWERING: Mapping[EventType, Callable[[Event, Ports], Sequence[Outcome]]] = {
    EventType.DEMAND: _provision,
    EventType.WORKLOAD_OVER: collect,
}
"""By the event's own type, so that a wrongly routed message is still answered rightly."""

_RAW_BYTES_MAX = 1_000_000


def _keep(
    function: str, error: Rejected, message: Message, push: Push | None, ports: Ports, trace: Trace
) -> Answer:
    """Keep a message that can never succeed, with its reason; hand it back if it cannot be kept."""
    fields = {"reason": error.reason, "decision": "reject", "field": error.field, "valid": error.valid}
    answer = answer_error(error)
    if ports.dead_letters is None:
        # Pub/Sub's own dead-letter policy keeps it, after its attempts.
        answer = Answer(500, answer.severity)
    else:
        attributes = dict(list(message.attributes.items())[:_ATTRIBUTES_MAX])
        attributes[REASON_ATTRIBUTE] = error.reason
        attributes[ERROR_ATTRIBUTE] = _cut(str(error))
        attributes[FUNCTION_ATTRIBUTE] = function
        if push and push.message_id:
            attributes[MESSAGE_ID_ATTRIBUTE] = _cut(push.message_id)
        try:
            ports.dead_letters.keep(Message(message.data, attributes))
        except ProvisionerError as failure:
            answer = answer_error(failure)
            fields["not_kept"] = str(failure)
    _log(answer.severity, str(error), function, push, trace, fields)
    return answer


def _cut(text: str) -> str:
    return text.encode()[:_ATTRIBUTE_BYTES_MAX].decode(errors="ignore")


def _log_outcome(function: str, outcome: Outcome, push: Push | None, trace: Trace) -> None:
    decision = outcome.decision
    fields = {
        "decision": str(decision.verdict),
        "reason": str(decision.reason),
        "pool": outcome.pool,
        "subject": outcome.subject,
        "cluster": outcome.cluster,
        **outcome.facts,
    }
    _log(answer_decision(decision.verdict).severity, decision.message, function, push, trace, fields)


def _log(
    severity: int, message: str, function: str, push: Push | None, trace: Trace, fields: Mapping[str, Any]
) -> None:
    event = {}
    if push:
        event = {
            "event_id": push.message.attributes.get("ce-id", ""),
            "event_type": push.message.attributes.get("ce-type", ""),
            "message_id": push.message_id,
            "delivery_attempt": push.delivery_attempt,
        }
    # Nobody outside writes our log fields by format strings: the message is data.
    _LOG.log(severity, "%s", message, extra={"function": function, **event, **trace, **fields})
