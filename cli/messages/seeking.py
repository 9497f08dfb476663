"""Seeks the push subscriptions to a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.access.cli_settings import find_subscription
from cli.moments import format_exact, format_moment
from cli.printing import format_age

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cli.access.cli_settings import OperatorSettings
    from cli.access.subscriptions import PubsubAdmin


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """One subscription that was put back, or would be."""

    subscription: str
    to: str
    problem: str = ""
    """Why nothing (or not everything) comes back."""


def seek_to_time(admin: PubsubAdmin, own: OperatorSettings, names: Sequence[str], moment: float) -> list[Sought]:
    """Let everything that was published since a moment be pushed again.

    What waits unacknowledged from before counts as acknowledged then, as
    https://cloud.google.com/pubsub/docs/replay-overview says; the next tick answers it.
    """
    found = []
    for each in names:
        name = find_subscription(own, each)
        problem = _find_time_problem(admin, name)
        if not problem:
            admin.seek(name, format_exact(moment))
        found.append(Sought(subscription=name, to=format_moment(moment), problem=problem))
    return found


def describe_kept(
    admin: PubsubAdmin, own: OperatorSettings, names: Sequence[str], moment: float, *, now: float
) -> str:
    """Return what the topics of some subscriptions keep, in words; empty if that is not known."""
    found = []
    for each in names:
        subscription = admin.find_subscription(find_subscription(own, each))
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
