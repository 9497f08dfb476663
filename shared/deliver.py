"""One function: its real ports, and each delivery from body to answer.

The ports are built from settings, once per process. Their clients are safe to share between
threads, which the functions framework uses for concurrent requests.

A delivery: parse, find the workload, reconcile, log.
A message, the end of an operation and a tick are hints to look. What cannot succeed is acknowledged
with one record, which holds the reason and the message: it raises `Rejected`.
"""

from __future__ import annotations

import logging
import os
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from shared.edges.cluster import KubernetesCluster
from shared.edges.gke import GkeAdds, GkePools, GkeTakes, open_apis
from shared.edges.google import GoogleAccount, find_request
from shared.edges.kueue import KueueQueues
from shared.edges.process import SYSTEM_CLOCK
from shared.engine.budget import Key, open_books
from shared.engine.outside import Ports, Role
from shared.engine.tell import Outcome
from shared.engine.wakes import Work, tick, work_on, work_on_end
from shared.model import errors
from shared.model.decisions import Verdict
from shared.model.messages import EventType, decode, parse_entry, parse_message
from shared.settings import Settings, read_settings

_LOG = logging.getLogger("functions")
_LOCK = threading.Lock()
_KEPT: dict[Role, Ports] = {}  # what this process keeps from one request to the next, by function


def check_settings() -> None:
    """Read this process's settings and open nothing."""
    if not _KEPT:
        read_settings(os.environ)


def get_process(role: Role) -> Ports:
    """Return a function's ports, made from the environment at the first call."""
    with _LOCK:
        if role not in _KEPT:
            _KEPT[role] = build_ports(read_settings(os.environ), role)
        return _KEPT[role]


def build_ports(
    settings: Settings, role: Role | None = None, environ: Mapping[str, str] = os.environ
) -> Ports:
    """Return the real ports that the settings describe. Nothing is sent yet.

    Each function can do its own verb only; without a role nothing can be added or taken away.
    """
    account = GoogleAccount(settings.credentials)
    edges: dict[Role | None, type[GkePools]] = {Role.PROVISION: GkeAdds, Role.COLLECT: GkeTakes}
    pools = edges.get(role, GkePools)(settings.gke_endpoint, account)
    apis = open_apis(settings.clusters, pools, account)
    component = environ.get("K_SERVICE", "tpu-provisioner")
    queues = {name: KueueQueues(api) for name, api in apis.items()}
    return Ports(
        settings=settings,
        pools=pools,
        adds=pools if isinstance(pools, GkeAdds) else None,
        takes=pools if isinstance(pools, GkeTakes) else None,
        clusters={name: KubernetesCluster(api, component=component) for name, api in apis.items()},
        queues=queues if settings.kueue_admission_check else {},
        clock=SYSTEM_CLOCK,
        books=open_books(settings),
    )


BODY_BYTES_MAX = 14_000_000  # assumes: push-body
"""A message has at most 10 MB, base64 adds a third."""


class PushedMessage(msgspec.Struct, rename="camel"):
    """The message of a delivery."""

    data: bytes = b""  # base64
    attributes: dict[str, str] = {}
    message_id: str = ""


class Push(msgspec.Struct, rename="camel"):
    """One delivery, as Pub/Sub wraps it."""

    message: PushedMessage
    delivery_attempt: int = 0  # 0 when the subscription has no dead-letter policy


_PUSH = msgspec.json.Decoder(Push)
PUBSUB_TYPE = "google.cloud.pubsub.topic.v1.messagePublished"
"""In a header of a push as a CloudEvent; the body is wrapped as in any other push."""


def parse_push(body: bytes, headers: Mapping[str, str] | None = None) -> Push:
    """Return the delivery that a request carries.

    A message may be unwrapped: its data is the body, and its attributes are headers. That is the
    binary form of a CloudEvent.
    """
    attributes = {name.lower(): value for name, value in (headers or {}).items()}
    if attributes.get("ce-type", PUBSUB_TYPE) != PUBSUB_TYPE:
        own = {name: value for name, value in attributes.items() if name.startswith("ce-")}
        return Push(message=PushedMessage(data=body, attributes=own))
    return decode(body, _PUSH, "body", BODY_BYTES_MAX)


NOTICE = 25  # Cloud Logging's severity between INFO and WARNING
logging.addLevelName(NOTICE, "NOTICE")


class Answer(Struct, frozen=True):
    """The HTTP answer to Pub/Sub, and the severity of the log record."""

    status: int
    severity: int


SEVERITIES = dict.fromkeys(Verdict, logging.INFO) | {Verdict.REFUSE: logging.WARNING}
SEVERITIES |= dict.fromkeys((Verdict.CREATE, Verdict.RESIZE, Verdict.DELETE), NOTICE)
"""Every decision is acknowledged: WAIT too, for the tick or the end of an operation looks again."""

ERRORS: tuple[tuple[type[errors.ProvisionerError], Answer], ...] = (
    (errors.Rejected, Answer(200, logging.WARNING)),
    (errors.Retryable, Answer(503, logging.WARNING)),  # assumes: push-answers
    # These should have become decisions: Pub/Sub tries again, and the record is an error.
    (errors.NoCapacity, Answer(503, logging.ERROR)),
    (errors.AlreadyExists, Answer(503, logging.ERROR)),
    (errors.NotFound, Answer(503, logging.ERROR)),
    (errors.InvalidRequest, Answer(500, logging.ERROR)),
    (errors.ProvisionerError, Answer(500, logging.CRITICAL)),
)
"""First match counts. 500 crashes loudly; the message comes back and, in the end, to the dead
letters."""


def answer_error(error: errors.ProvisionerError) -> Answer:
    """Return the answer to an error; total over `shared.model.errors`."""
    return next(each for kind, each in ERRORS if isinstance(error, kind))


TICK_PATH = "/tick"  # Cloud Scheduler calls ``/tick?cluster=projects/P/locations/L/clusters/C``
MESSAGE_BYTES_MAX = 8192
DONE = Answer(200, logging.INFO)
BUSY = Answer(503, logging.INFO)
"""A full instance: the message comes back, and the tick answers what the policy keeps."""
IDLE = "nothing is to be done"
"""The one record of a message that leads to nothing; the build's smoke test waits for it."""
_WANTED = {Role.PROVISION: EventType.DEMAND, Role.COLLECT: EventType.WORKLOAD_OVER}


class Wake(StrEnum):
    """What a function was woken by."""

    MESSAGE = "message"
    END = "end"
    TICK = "tick"


class Journal(Struct):
    """Writes the log records of one request, each with what woke the function."""

    role: Role
    wake: Wake
    body: bytes = b""
    push: Push | None = None

    def write(self, severity: int, message: str, fields: Mapping[str, Any]) -> None:
        """Write one record; the message is data, never a format string."""
        about: dict[str, Any] = {"function": str(self.role), "wake": str(self.wake)}
        if self.push is not None:
            about |= {
                "event_id": self.push.message.attributes.get("ce-id", ""),
                "event_type": self.push.message.attributes.get("ce-type", ""),
                "message_id": self.push.message.message_id,
                "delivery_attempt": self.push.delivery_attempt,
            }
        _LOG.log(severity, "%s", message, extra={**about, **fields})

    def write_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Write what was decided about workloads and pools."""
        for outcome in outcomes:
            decision = outcome.decision
            fields = {
                "decision": str(decision.verdict),
                "reason": str(decision.reason),
                "pool": outcome.pool,
                "subject": outcome.subject,
                "cluster": outcome.cluster,
                **outcome.facts,
            }
            self.write(SEVERITIES[decision.verdict], decision.message, fields)

    def write_error(self, error: Exception, about: str = "") -> Answer:
        """Write an error, and return its answer; an unexpected one is `Broken`.

        The record of a message that can never succeed holds the message.
        """
        fields: dict[str, Any] = {"decision": "none", "request": find_request(error)}
        failure = error
        if not isinstance(failure, errors.ProvisionerError):
            failure = errors.Broken(f"{type(error).__name__}: {error}"[:600])
            fields["stack_trace"] = "".join(traceback.format_exception(error))
        if isinstance(failure, errors.Rejected):
            data = self.push.message.data if self.push else self.body
            cut = f"… ({len(data)} bytes)" if len(data) > MESSAGE_BYTES_MAX else ""
            text = data[:MESSAGE_BYTES_MAX].decode(errors="replace") + cut
            fields |= {"decision": "reject", "event_data": text}
            fields |= {"field": failure.field, "valid": failure.valid}
        fields["reason"], answer = failure.reason, answer_error(failure)
        self.write(answer.severity, f"{about}: {failure}" if about else str(failure), fields)
        return answer


def deliver(
    role: Role, body: bytes, ports: Ports, headers: Mapping[str, str] | None = None
) -> Answer:
    """Answer one push to a function; every path logs what was decided and why."""
    journal = Journal(role, Wake.MESSAGE, body)
    try:
        journal.push = parse_push(body, headers)
        message = journal.push.message
        if "ce-type" not in message.attributes:
            journal.wake = Wake.END
            return _deliver_end(message.data, ports, journal)
        key = find_key(role, message, ports)
    except Exception as error:  # noqa: BLE001 -- an unexpected error is answered and logged too
        return journal.write_error(error)
    if key is None:
        return DONE
    if not ports.crew.enter(key.cluster, clusters=len(ports.clusters)):
        return BUSY
    try:
        work = work_on(key, ports)
    finally:
        ports.crew.leave(key.cluster)
    if work.look is not None and not work.outcomes and not work.errors:
        journal.write(logging.INFO, IDLE, {"subject": str(key), "cluster": key.cluster})
    return answer(work, journal)


def _deliver_end(entry: bytes, ports: Ports, journal: Journal) -> Answer:
    """Answer the end of an operation. It is let in always: what waits for its slot has no other."""
    ended = parse_entry(entry)
    if ended is None or ended.cluster not in ports.clusters:
        return DONE
    return answer(work_on_end(ended, ports), journal)


def answer(work: Work, journal: Journal) -> Answer:
    """Log what came of the work, and return the answer to the push."""
    journal.write_outcomes(work.outcomes)
    answers = [DONE, *(journal.write_error(error) for error in work.errors)]
    # That of an error which a person must repair comes first.
    return max(answers, key=lambda each: (each.severity, each.status))


def find_key(role: Role, message: PushedMessage, ports: Ports) -> Key | None:
    """Return the workload that a message is about; None if it is one for the other function."""
    event = parse_message(message.data, message.attributes)
    expect_cluster(event.cluster, ports, "ce-source")
    if event.type != _WANTED[role]:
        return None
    about = event.subject
    uid = about.uid if role == Role.COLLECT else ""
    return Key(event.cluster, about.kind, about.namespace, about.name, uid)


def expect_cluster(name: str, ports: Ports, field: str) -> None:
    """Return if this deployment serves a cluster."""
    if name not in ports.clusters:
        raise errors.refuse("cluster_of_others", name, field=field, clusters=[*ports.clusters])


def deliver_tick(role: Role, cluster: str, ports: Ports) -> tuple[Answer, dict[str, int]]:
    """Answer one call of the scheduler: look at a cluster once, log, and return the counts."""
    journal = Journal(role, Wake.TICK)
    try:
        expect_cluster(cluster, ports, "cluster")
    except errors.Rejected as problem:
        journal.write_error(problem)
        return Answer(400, logging.WARNING), {}
    done = tick(cluster, ports)
    journal.write_outcomes(done.outcomes)
    status = 200
    for about, error in done.errors:
        answer = journal.write_error(error, about)
        if not isinstance(error, errors.KindAbsent):  # no later try installs a kind
            status = max(status, answer.status)
    verdicts = Counter(str(outcome.decision.verdict) for outcome in done.outcomes)
    counts = {"errors": len(done.errors), "left": done.left, **verdicts}
    reasons = Counter(str(outcome.decision.reason) for outcome in done.outcomes)
    fields = {"cluster": cluster, "counts": counts, "reasons": dict(reasons), **done.figures}
    journal.write(logging.INFO, "ticked", fields)
    return Answer(status, logging.INFO), counts
