"""Seeks the push subscriptions to a time, and predicts the decisions of a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.access.cli_settings import PUSHED, find_subscription, list_pushed
from cli.moments import format_exact, format_moment
from cli.printing import format_age
from cli.rehearsal import open_rehearsal, rehearse, rehearse_leaders, rehearse_pools
from shared.core.decisions import Verdict
from shared.deliver import SETTLE
from shared.engine.tell import get_results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.access.cli_settings import OperatorSettings
    from cli.access.subscriptions import PubsubAdmin
    from shared.core.ports import Ports
    from shared.engine.tell import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """One subscription that was put back, or would be."""

    function: str
    subscription: str
    to: str
    problem: str = ""
    """Why nothing (or not everything) comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """One decision that a replay would lead to."""

    cluster: str
    function: str
    subject: str
    decision: str
    reason: str
    message: str


def seek_to_time(
    admin: PubsubAdmin, own: OperatorSettings, functions: Sequence[str], moment: float, *, dry_run: bool
) -> list[Sought]:
    """Let everything that was published since a moment be pushed again.

    What waits unacknowledged from before counts as acknowledged then, as
    https://cloud.google.com/pubsub/docs/replay-overview says; the sweep answers it.
    """
    found = []
    for function in functions or list_pushed(own):
        name = find_subscription(own, function)
        problem = _find_time_problem(admin, name)
        if not dry_run and not problem:
            admin.seek(name, format_exact(moment))
        found.append(Sought(function=function, subscription=name, to=format_moment(moment), problem=problem))
    return found


def describe_kept(
    admin: PubsubAdmin, own: OperatorSettings, functions: Sequence[str], moment: float, *, now: float
) -> str:
    """Return what the topics of some functions keep, in a sentence; empty if that is not known."""
    found = []
    for function in functions:
        subscription = admin.find_subscription(find_subscription(own, function))
        topic = admin.find_topic(subscription.topic) if subscription else None
        kept = topic.message_retention_duration if topic else None
        if topic is not None and kept:
            seconds = kept.total_seconds()
            short = ", which is less than that" if now - moment > seconds else ""
            name = topic.name.rpartition("/")[2]
            found.append(f"The topic {name} keeps messages for {format_age(seconds)}{short}.")
    return "".join(f" {each}" for each in dict.fromkeys(found))


def _find_time_problem(admin: PubsubAdmin, name: str) -> str:
    subscription = admin.find_subscription(name)
    if subscription is None:
        return f"the subscription {name} does not exist"
    topic = admin.find_topic(subscription.topic)
    kept = (topic is not None and topic.message_retention_duration) or subscription.retain_acked_messages
    if kept:
        return ""
    command = f"gcloud pubsub topics update {subscription.topic} --message-retention-duration=7d"
    return f"acknowledged messages are not kept, so none is delivered again; to keep them from now on: {command}"


def foresee(ports: Ports, functions: Sequence[str]) -> list[Foreseen]:
    """Return every decision that a replay could lead to now, except those that change nothing.

    Messages cannot be listed without taking them; but a message is only a hint to look, so all that
    a replay can do is what the waiting leaders and the pools call for.
    """
    ports = rehearse(ports)
    wanted = functions or PUSHED
    found: list[Foreseen] = []
    for cluster in ports.clusters:
        look = open_rehearsal(cluster, ports.pools.list(cluster), ports)
        asking = next((each for each in ("provision", SETTLE) if each in wanted), None)
        leaders = get_results([each for _, each in rehearse_leaders(look)]) if asking else []
        pools = get_results([each for _, each in rehearse_pools(look)]) if "collect" in wanted else []
        found += [_foresee(str(asking), each) for each in leaders]
        found += [_foresee("collect", each) for each in pools]
    return [each for each in found if each.decision not in (Verdict.NOTHING, Verdict.KEEP)]


def _foresee(function: str, outcome: Outcome) -> Foreseen:
    return Foreseen(
        cluster=outcome.cluster,
        function=function,
        subject=outcome.subject,
        decision=str(outcome.decision.verdict),
        reason=str(outcome.decision.reason),
        message=outcome.decision.message,
    )
