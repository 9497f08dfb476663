"""One delivery from body to answer: parse, check, dispatch, log."""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any

from shared.answer import Answer, answer_decision, answer_error
from shared.core.decisions import Reason, Verdict
from shared.core.errors import Broken, KindAbsent, NoPlace, ProvisionerError, Rejected, UnknownCluster
from shared.core.identity.names import parse_pool_name
from shared.core.messages import Event, EventType, parse_message
from shared.core.operations import parse_entry
from shared.edges.google_errors import find_request
from shared.engine.entries.answer_waiting import provision
from shared.engine.entries.settle import settle
from shared.engine.entries.sweep import sweep
from shared.engine.looks.limited_ports import bound_ports
from shared.engine.steps.release_pools import collect
from shared.engine.tell import Outcome, name_error
from shared.push import Push, parse_push

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from shared.core.operations import EndedOperation
    from shared.core.ports import Ports

_LOG = logging.getLogger("functions")
SETTLE = "settle"
"""The function that is sent entries of the audit log; all others are sent events."""
CHARTED: Mapping[str, int] = dict.fromkeys(
    map(
        str,
        (
            Reason.OWNER_LIVE,
            Reason.POOL_IN_PROGRESS,
            Reason.GRACE_NOT_OVER,
            Reason.PODS_STILL_BOUND,
            Reason.POOL_FAILED,
        ),
    ),
    0,
)
"""Reasons that a sweep counts without a case too, so that their charts fall to 0."""
_PROBLEM_BYTES_MAX = 1024
_DATA_BYTES_MAX = 8192
"""Of a message that cannot succeed, in its log record."""


def deliver(function: str, body: bytes, ports: Ports) -> Answer:
    """Answer one push to a function; every path logs what was decided and why."""
    ports = bound_ports(ports, ports.clock.now() + ports.settings.work_seconds)
    push, event = None, None
    answers: Sequence[Outcome | ProvisionerError]
    try:
        push = parse_push(body)
        if function == SETTLE:
            ended = parse_entry(push.message.data)
            answers = settle(ended, ports)
            _tell_undeleted(ended, push)
        else:
            event = parse_message(push.message.data, push.message.attributes)
            _check_cluster(event, ports)
            answers = _ANSWERING[event.type](event, ports)
    except Rejected as error:
        error.claim = error.claim or (_describe_event(event) if event else None)
        answer = answer_error(error)
        fields = {**_describe_rejection(error), "event_data": _cut_data(push.message.data if push else body)}
        _log(answer.severity, str(error), function, push, fields)
        return answer
    except Exception as error:  # noqa: BLE001 -- an unexpected error is answered and logged too
        found = name_error(error, _describe_event(event) if event else None)
        answer = answer_error(found)
        _log(answer.severity, str(found), function, push, _describe_error(found))
        return answer
    for each in answers:
        if isinstance(each, Outcome):
            _log_outcome(function, each, push)
        else:
            _log(answer_error(each).severity, str(each), function, push, _describe_error(each))
    return _choose_answer(answers)


def _tell_undeleted(ended: EndedOperation | None, push: Push) -> None:
    """Log that GKE has accepted a deletion and not done it, which nothing else shows."""
    if ended is not None and ended.deleted and ended.problem and parse_pool_name(ended.pool):
        message = f"GKE could not delete node pool {ended.pool}: {_cut(ended.problem)}; the sweep tries again"
        about = {"cluster": ended.cluster, "pool": ended.pool}
        fields = {**about, "reason": str(Reason.POOL_STUCK), "decision": "keep"}
        _log(logging.WARNING, message, SETTLE, push, fields)


def _choose_answer(answers: Sequence[Outcome | ProvisionerError]) -> Answer:
    """Return the answer to Pub/Sub: that of an error which a person must repair comes first.

    Then comes one that asks for the message again, and of several the one with the longest pause.
    """
    errors = [answer_error(each) for each in answers if not isinstance(each, Outcome)]
    decided = [answer_decision(each.decision.verdict) for each in answers if isinstance(each, Outcome)]
    return max(errors or decided[:1], key=lambda each: (each.severity, each.status, each.retry_after_seconds or 0))


def _check_cluster(event: Event, ports: Ports) -> None:
    if event.cluster not in ports.clusters:
        raise UnknownCluster(
            "this deployment does not serve this cluster",
            field="ce-source",
            value=event.cluster,
            valid=", ".join(ports.clusters),
        )


def deliver_sweep(ports: Ports) -> tuple[Answer, dict[str, int]]:
    """Answer one call of the scheduler: sweep, log the outcomes, return counts by decision."""
    report = sweep(bound_ports(ports, ports.clock.now() + ports.settings.work_seconds))
    counts = Counter(str(outcome.decision.verdict) for outcome in report.outcomes)
    reasons = Counter(str(outcome.decision.reason) for outcome in report.outcomes)
    for outcome in report.outcomes:
        # Pools that stay are not logged: hundreds of records every minute would hide the others.
        # One that only pods of others keep is rare, and costs what nobody asked for.
        told = outcome.decision.reason == Reason.POOL_IN_USE
        if told or outcome.decision.verdict not in (Verdict.KEEP, Verdict.NOTHING):
            _log_outcome("sweep", outcome, None)
    for about, error in report.errors:
        answer = answer_error(error)
        _log(answer.severity, f"{about}: {error}", "sweep", None, _describe_error(error))
    if report.over_cap:
        message = (
            "more pools were due than TPU_PROVISIONER_SWEEP_DELETIONS_MAX lets one sweep delete without a word of "
            "their owners; the next sweep continues: see sweep_over_cap in docs/runbook.md"
        )
        _log(logging.CRITICAL, message, "sweep", None, {"reason": "sweep_over_cap", "decision": "keep"})
    unproven = reasons[str(Reason.CLUSTER_UNPROVEN)]
    if unproven:
        message = (
            f"{unproven} decisions rest on an API that is not proven to be its cluster's, so nothing was done: "
            "see cluster_unproven in docs/runbook.md"
        )
        _log(logging.CRITICAL, message, "sweep", None, {"reason": "cluster_unproven", "decision": "keep"})
    for cluster, figures in report.figures.items():
        _log(logging.INFO, "measured", "sweep", None, {"cluster": cluster, **figures.describe()})
    counts["errors"] = sum(not isinstance(error, NoPlace) for _, error in report.errors)
    if report.left:
        counts["left"] = report.left
    _log(logging.INFO, "swept", "sweep", None, {"counts": dict(counts), "reasons": {**CHARTED, **reasons}})
    # An absent kind is a final answer: no retry installs it.
    repeatable = (error for _, error in report.errors if not isinstance(error, KindAbsent))
    worst = max((answer_error(error).status for error in repeatable), default=200)
    return Answer(200 if worst < 500 else worst, logging.INFO), dict(counts)  # noqa: PLR2004 -- HTTP


def _describe_event(event: Event) -> dict[str, str]:
    """Return what a message says of the claim: its workload, or a pod without one."""
    about = event.subject
    found = {"kind": about.kind, "namespace": about.namespace, "name": about.name, "owner_uid": about.uid}
    return {"cluster": event.cluster, **found, "slice": ""}


def _describe_claim(error: ProvisionerError) -> dict[str, Any]:
    return {"claim": error.claim} if error.claim else {}


def _describe_error(error: ProvisionerError) -> dict[str, Any]:
    fields: dict[str, Any] = {"reason": error.reason, "decision": "none", "request": find_request(error)}
    fields |= _describe_claim(error)
    if error.__cause__ is not None and isinstance(error, Broken):
        fields["stack_trace"] = "".join(traceback.format_exception(error.__cause__))
    return fields


def _describe_rejection(error: Rejected) -> dict[str, Any]:
    fields = {"reason": error.reason, "decision": "reject", "field": error.field, "valid": error.valid}
    return fields | _describe_claim(error)


_ANSWERING: Mapping[EventType, Callable[[Event, Ports], Sequence[Outcome | ProvisionerError]]] = {
    EventType.DEMAND: provision,
    EventType.WORKLOAD_OVER: collect,
}
"""By the event's own type: an event that reaches the wrong one of the two is still answered
correctly."""


def _cut(text: str) -> str:
    return text.encode()[:_PROBLEM_BYTES_MAX].decode(errors="ignore")


def _cut_data(data: bytes) -> str:
    """Return the data of a message as text; what is cut off is marked by the whole length."""
    text = data[:_DATA_BYTES_MAX].decode(errors="replace")
    return text if len(data) <= _DATA_BYTES_MAX else f"{text}… ({len(data)} bytes)"


def _log_outcome(function: str, outcome: Outcome, push: Push | None) -> None:
    decision = outcome.decision
    fields = {
        "decision": str(decision.verdict),
        "reason": str(decision.reason),
        "pool": outcome.pool,
        "subject": outcome.subject,
        "cluster": outcome.cluster,
        **outcome.facts,
    }
    _log(answer_decision(decision.verdict).severity, decision.message, function, push, fields)


def _log(severity: int, message: str, function: str, push: Push | None, fields: Mapping[str, Any]) -> None:
    event = {}
    if push:
        event = {
            "event_id": push.message.attributes.get("ce-id", ""),
            "event_type": push.message.attributes.get("ce-type", ""),
            "message_id": push.message_id,
            "delivery_attempt": push.delivery_attempt,
        }
    # The message is data, never a format string.
    _LOG.log(severity, "%s", message, extra={"function": function, **event, **fields})
