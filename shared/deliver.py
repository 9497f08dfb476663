"""One delivery from body to answer: parse, find the workload, reconcile, log.

A message, the end of an operation and a tick are hints to look. What cannot succeed is acknowledged
with one record, which holds the reason and the message.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
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
    OutOfTime,
    ProvisionerError,
    Rejected,
    UnknownCluster,
)
from shared.model.messages import EventType, parse_message
from shared.model.names import parse_name
from shared.model.operations import parse_entry
from shared.push import parse_push

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.engine.look import Memory
    from shared.engine.outside import Ports
    from shared.model.messages import Message
    from shared.push import Push

_LOG = logging.getLogger("functions")
TICK_PATH = "/tick"
"""Cloud Scheduler calls ``/tick?cluster=projects/P/locations/L/clusters/C``."""
MESSAGE_BYTES_MAX = 8192
LAST_LOOK_SECONDS = 25.0
"""A look that begins later could outlive the request, which ends within 55 s: one call of GKE may
take 30 s."""
DONE = Answer(200, logging.INFO)
BUSY = Answer(503, logging.INFO, retry_after_seconds=5)
"""A full instance: the message comes back, and the tick answers what the policy keeps."""
_WANTED = {Role.PROVISION: EventType.DEMAND, Role.COLLECT: EventType.WORKLOAD_OVER}


class Wake(StrEnum):
    """What a function was woken by."""

    MESSAGE = "message"
    END = "end"
    TICK = "tick"


@dataclass(slots=True)
class Journal:
    """Writes the log records of one request, each with what woke the function."""

    role: Role
    wake: Wake
    push: Push | None = None

    def write(self, severity: int, message: str, fields: Mapping[str, Any]) -> None:
        """Write one record; the message is data, never a format string."""
        about: dict[str, Any] = {"function": str(self.role), "wake": str(self.wake)}
        if self.push is not None:
            about |= {
                "event_id": self.push.message.attributes.get("ce-id", ""),
                "event_type": self.push.message.attributes.get("ce-type", ""),
                "message_id": self.push.message_id,
                "delivery_attempt": self.push.delivery_attempt,
            }
        _LOG.log(severity, "%s", message, extra={**about, **fields})

    def write_outcome(self, outcome: Outcome) -> None:
        """Write what was decided about a workload or a pool."""
        decision = outcome.decision
        fields = {
            "decision": str(decision.verdict),
            "reason": str(decision.reason),
            "pool": outcome.pool,
            "subject": outcome.subject,
            "cluster": outcome.cluster,
            **outcome.facts,
        }
        self.write(answer_decision(decision.verdict).severity, decision.message, fields)

    def write_error(self, error: Exception, about: str = "") -> Answer:
        """Write an error, and return its answer; an unexpected one is `Broken`."""
        known = error
        if not isinstance(known, ProvisionerError):
            known = Broken(f"{type(error).__name__}: {error}"[:600])
        fields = {"reason": known.reason, "decision": "none", "request": find_request(known)}
        if known is not error:
            fields["stack_trace"] = "".join(traceback.format_exception(error))
        answer = answer_error(known)
        self.write(answer.severity, f"{about}: {known}" if about else str(known), fields)
        return answer

    def write_rejected(self, error: Rejected, data: bytes) -> None:
        """Write the one record of a message that can never succeed, with the message."""
        text = data[:MESSAGE_BYTES_MAX].decode(errors="replace")
        cut = f"… ({len(data)} bytes)" if len(data) > MESSAGE_BYTES_MAX else ""
        fields = {
            "decision": "reject",
            "reason": error.reason,
            "field": error.field,
            "valid": error.valid,
            "event_data": text + cut,
        }
        self.write(logging.WARNING, str(error), fields)


def deliver(role: Role, body: bytes, ports: Ports, memory: Memory) -> Answer:
    """Answer one push to a function; every path logs what was decided and why."""
    journal = Journal(role, Wake.MESSAGE)
    try:
        journal.push = parse_push(body)
        if "ce-type" not in journal.push.message.attributes:
            journal.wake = Wake.END
        key = find_key(role, journal.push.message, ports)
    except Rejected as error:
        journal.write_rejected(error, journal.push.message.data if journal.push else body)
        return DONE
    except Exception as error:  # noqa: BLE001 -- an unexpected error is answered and logged too
        return journal.write_error(error)
    if key is None:
        return DONE
    if journal.wake == Wake.END:  # it is let in always: what waits for its slot has no other hint
        return work_on(key, ports, memory, journal)
    if not ports.crew.enter(key.cluster, clusters=len(ports.clusters)):
        return BUSY
    try:
        return work_on(key, ports, memory, journal)
    finally:
        ports.crew.leave(key.cluster)


def work_on(key: Key, ports: Ports, memory: Memory, journal: Journal) -> Answer:
    """Reconcile a workload, once more for each hint that came meanwhile; return the answer.

    One thread works on a key. Who finds it under way is done: the other thread looks once more.
    """
    if not ports.crew.begin(key):
        return DONE
    began_at, answers = ports.clock.now(), [DONE]
    try:
        while True:
            answers += reconcile_once(key, ports, memory, journal)
            if not ports.crew.goes_on(key):
                break
            if ports.clock.now() - began_at > LAST_LOOK_SECONDS:
                raise OutOfTime("the time of this delivery is over; the next one looks once more")
    except Exception as error:  # noqa: BLE001 -- the net of this workload
        ports.crew.end(key)
        answers.append(journal.write_error(error))
    # That of an error which a person must repair comes first, then the longest pause.
    return max(
        answers, key=lambda each: (each.severity, each.status, each.retry_after_seconds or 0)
    )


def reconcile_once(key: Key, ports: Ports, memory: Memory, journal: Journal) -> list[Answer]:
    """Look, plan and act once; log what came of it, and return the answers of the errors.

    Raises:
        ProvisionerError: something could not be read; nothing was done.
    """
    result = reconcile(key, journal.role, ports, memory)
    outcomes = report(result, ports)
    if journal.role == Role.PROVISION:
        outcomes += answer_check(result, ports)
    for outcome in outcomes:
        journal.write_outcome(outcome)
    return [journal.write_error(error) for error in result.errors]


def find_key(role: Role, message: Message, ports: Ports) -> Key | None:
    """Return the workload that a push is about; None where this function has nothing to do.

    Raises:
        Rejected: the message can never be understood.
        ProvisionerError: the pool of an operation could not be read.
    """
    if "ce-type" not in message.attributes:
        return _find_owner(role, message.data, ports)
    event = parse_message(message.data, message.attributes)
    if event.cluster not in ports.clusters:
        raise UnknownCluster(
            "this deployment does not serve this cluster",
            field="ce-source",
            value=event.cluster,
            valid=", ".join(ports.clusters),
        )
    if event.type != _WANTED[role]:
        return None
    about = event.subject
    uid = about.uid if role == Role.COLLECT else ""
    return Key(event.cluster, about.kind, about.namespace, about.name, uid)


def _find_owner(role: Role, entry: bytes, ports: Ports) -> Key | None:
    """Return the owner of the pool whose operation has ended, by an entry of the audit log.

    `collect` looks at the ends of failed creates and of deletes only.
    """
    ended = parse_entry(entry)
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
    journal = Journal(role, Wake.TICK)
    if cluster not in ports.clusters:
        problem = UnknownCluster(
            "this deployment does not serve this cluster",
            field="cluster",
            value=cluster,
            valid=", ".join(ports.clusters),
        )
        journal.write_rejected(problem, b"")
        return Answer(400, logging.WARNING), {}
    done = tick(cluster, role, ports, memory)
    for outcome in done.outcomes:
        # What stays as it is is not logged: hundreds of records a minute would hide the others.
        if outcome.decision.verdict not in (Verdict.KEEP, Verdict.NOTHING):
            journal.write_outcome(outcome)
    status = 200
    for about, error in done.errors:
        answer = journal.write_error(error, about)
        # No later try installs a kind, and the end of an operation sends what waits for a slot.
        if not isinstance(error, KindAbsent | NoPlace):
            status = max(status, answer.status)
    counts = count_verbs(done)
    reasons = Counter(str(outcome.decision.reason) for outcome in done.outcomes)
    fields = {"cluster": cluster, "counts": counts, "reasons": dict(reasons), **done.figures}
    journal.write(logging.INFO, "ticked", fields)
    return Answer(status, logging.INFO), counts
