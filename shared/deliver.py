"""One delivery from body to answer: parse, find the workload, reconcile, log.

A message, the end of an operation and a tick are hints to look. What cannot succeed is acknowledged
with one record, which holds the reason and the message.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Any

from shared.answer import Answer, answer_decision, answer_error
from shared.edges.google_errors import find_request
from shared.engine.kueue import answer_check
from shared.engine.look import Key
from shared.engine.reconcile import Role, reconcile
from shared.engine.report import Outcome, report
from shared.engine.tick import count_verbs, tick
from shared.model.decisions import Verdict
from shared.model.errors import (
    Broken,
    KindAbsent,
    NoPlace,
    ProvisionerError,
    Rejected,
    UnknownCluster,
)
from shared.model.messages import EventType, parse_message
from shared.model.names import parse_name
from shared.model.operations import parse_entry
from shared.push import parse_push

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shared.engine.look import Memory
    from shared.engine.outside import Ports
    from shared.model.operations import EndedOperation
    from shared.push import Push

_LOG = logging.getLogger("functions")
MESSAGE_BYTES_MAX = 8192
BUSY = Answer(503, logging.INFO, retry_after_seconds=5)
"""A full instance: the message comes back, and the tick answers what the policy keeps."""
DONE = Answer(200, logging.INFO)


def deliver(role: Role, body: bytes, ports: Ports, memory: Memory) -> Answer:
    """Answer one push to a function; every path logs what was decided and why."""
    push = None
    try:
        push = parse_push(body)
        key = find_key(role, push, ports)
        if key is None:
            return DONE
    except Rejected as error:
        _log_rejected(role, error, push, body)
        return Answer(200, logging.WARNING)
    except Exception as error:  # noqa: BLE001 -- an unexpected error is answered and logged too
        return _answer(role, [], [error], push)
    if not ports.crew.enter(key.cluster, clusters=len(ports.clusters)):
        return BUSY
    try:
        outcomes, errors = work_on(key, role, ports, memory)
    finally:
        ports.crew.leave(key.cluster)
    return _answer(role, outcomes, errors, push)


def work_on(
    key: Key, role: Role, ports: Ports, memory: Memory
) -> tuple[list[Outcome], list[Exception]]:
    """Reconcile a workload; one thread works on it, and looks once more if others asked meanwhile."""
    outcomes: list[Outcome] = []
    errors: list[Exception] = []
    if not ports.crew.begin(key):
        return [], []
    try:
        while True:
            result = reconcile(key, role, ports, memory)
            outcomes += report(result, ports)
            errors += result.errors
            outcomes += answer_check(result, ports) if role == Role.PROVISION else []
            if not ports.crew.goes_on(key):
                return outcomes, errors
    except Exception as error:  # noqa: BLE001 -- the net of this workload
        ports.crew.end(key)
        return outcomes, [*errors, error]


def find_key(role: Role, push: Push, ports: Ports) -> Key | None:
    """Return the workload that a push is about; None where this function has nothing to do.

    Raises:
        Rejected: the message can never be understood.
        ProvisionerError: the pool of an operation could not be read.
    """
    message = push.message
    if "ce-type" not in message.attributes:
        return _find_owner(role, parse_entry(message.data), ports)
    event = parse_message(message.data, message.attributes)
    wanted = EventType.DEMAND if role == Role.PROVISION else EventType.WORKLOAD_OVER
    if event.cluster not in ports.clusters:
        raise UnknownCluster(
            "this deployment does not serve this cluster",
            field="ce-source",
            value=event.cluster,
            valid=", ".join(ports.clusters),
        )
    about = event.workload or event.subject
    uid = about.uid if role == Role.COLLECT else ""
    return (
        Key(event.cluster, about.kind, about.namespace, about.name, uid)
        if event.type == wanted
        else None
    )


def _find_owner(role: Role, ended: EndedOperation | None, ports: Ports) -> Key | None:
    """Return the owner of the pool whose operation has ended.

    `collect` looks at the ends of failed creates and of deletes only.
    """
    if ended is None or ended.cluster not in ports.clusters or parse_name(ended.pool) is None:
        return None
    if role == Role.COLLECT and ended.created:
        return None
    pool = ports.pools.get(ended.cluster, ended.pool)
    owner = pool.owner if pool else None
    uid = owner.uid if owner and role == Role.COLLECT else ""
    return Key(ended.cluster, *owner.key, uid) if owner else None


def deliver_tick(
    role: Role, cluster: str, ports: Ports, memory: Memory
) -> tuple[Answer, dict[str, int]]:
    """Answer one call of the scheduler: look at a cluster once, log, and return the counts."""
    done = tick(cluster, role, ports, memory)
    for outcome in done.outcomes:
        # What stays as it is is not logged: hundreds of records a minute would hide the others.
        if outcome.decision.verdict not in (Verdict.KEEP, Verdict.NOTHING):
            _log_outcome(role, outcome, None)
    for about, error in done.errors:
        _log(
            answer_error(_name(error)).severity,
            f"{about}: {error}",
            role,
            None,
            _describe_error(_name(error)),
        )
    counts = count_verbs(done)
    _log(logging.INFO, "swept", role, None, {"cluster": cluster, "counts": counts, "wake": "tick"})
    repeatable = [error for _, error in done.errors if not isinstance(error, KindAbsent | NoPlace)]
    worst = max((answer_error(_name(error)).status for error in repeatable), default=200)
    return Answer(worst, logging.INFO), counts


def _answer(
    role: Role, outcomes: Sequence[Outcome], errors: Sequence[Exception], push: Push | None
) -> Answer:
    """Log what came of a push; return the answer of the error that a person must repair, if any."""
    for outcome in outcomes:
        _log_outcome(role, outcome, push)
    named = [_name(error) for error in errors]
    for error in named:
        _log(answer_error(error).severity, str(error), role, push, _describe_error(error))
    answers = [answer_error(error) for error in named] or [DONE]
    return max(
        answers, key=lambda each: (each.severity, each.status, each.retry_after_seconds or 0)
    )


def _name(error: Exception) -> ProvisionerError:
    """Return an error as it is reported; an unexpected one is `Broken`."""
    if isinstance(error, ProvisionerError):
        return error
    broken = Broken(f"{type(error).__name__}: {error}"[:600])
    broken.__cause__ = error
    return broken


def _log_rejected(role: Role, error: Rejected, push: Push | None, body: bytes) -> None:
    """Write the one record of a message that can never succeed."""
    data = push.message.data if push else body
    text = data[:MESSAGE_BYTES_MAX].decode("utf-8", "replace")
    fields = {
        "decision": "reject",
        "reason": error.reason,
        "field": error.field,
        "valid": error.valid,
    }
    cut = "…" if len(data) > MESSAGE_BYTES_MAX else ""
    _log(logging.WARNING, str(error), role, push, {**fields, "message_data": text + cut})


def _describe_error(error: ProvisionerError) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "reason": error.reason,
        "decision": "none",
        "request": find_request(error),
    }
    if error.__cause__ is not None and isinstance(error, Broken):
        fields["stack_trace"] = "".join(traceback.format_exception(error.__cause__))
    return fields


def _log_outcome(role: Role, outcome: Outcome, push: Push | None) -> None:
    decision = outcome.decision
    fields = {
        "decision": str(decision.verdict),
        "reason": str(decision.reason),
        "pool": outcome.pool,
        "subject": outcome.subject,
        "cluster": outcome.cluster,
        **outcome.facts,
    }
    _log(answer_decision(decision.verdict).severity, decision.message, role, push, fields)


def _log(
    severity: int, message: str, role: Role, push: Push | None, fields: Mapping[str, Any]
) -> None:
    event = {}
    if push:
        event = {
            "event_id": push.message.attributes.get("ce-id", ""),
            "event_type": push.message.attributes.get("ce-type", ""),
            "message_id": push.message_id,
            "delivery_attempt": push.delivery_attempt,
            "wake": "message" if "ce-type" in push.message.attributes else "end",
        }
    # The message is data, never a format string.
    _LOG.log(severity, "%s", message, extra={"function": str(role), **event, **fields})
