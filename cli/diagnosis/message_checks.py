"""The checks of `doctor` on topic, subscriptions, dead letters and the age of waiting messages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cli.access.cli_settings import DEAD_LETTERS, PUSHED
from cli.access.metric_points import read_points
from cli.diagnosis.findings import Finding, bad, fine, skipped, warn
from cli.messages.dead_letters import Choice
from cli.messages.replay import list_reasons
from cli.moments import format_moment
from shared.deliver import SETTLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.pubsub_v1.types import Subscription

    from cli.access.operator_access import Deployment
    from shared.edges.google_session import GoogleSession

FILTERS = {
    "provision": 'hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")',
    "collect": 'NOT hasPrefix(attributes.ce-type, "tpuprovisioner.demand.")',
    SETTLE: "",
}
"""Which messages of its topic each function gets."""
DEAD_LETTERS_MAX = 100
WAIT_SECONDS_MAX = 600.0
_APPLY = "terraform apply (the module sets it)"
_AGE = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"  # assumes: backlog-metric


def check_topic(deployment: Deployment) -> Iterator[Finding]:
    """Yield whether the topic of events exists, and whether it keeps them for a replay."""
    name = deployment.own.topic
    if not name:
        yield skipped("topic", "not checked: TPU_PROVISIONER_TOPIC is empty")
        return
    topic = deployment.pubsub.find_topic(name)
    if topic is None:
        yield bad("topic", f"{name} does not exist", "terraform apply")
    elif not topic.message_retention_duration:
        yield warn(
            "topic",
            f"{name} keeps no messages, so replay --since cannot deliver them again",
            f"gcloud pubsub topics update {name} --message-retention-duration=7d",
        )
    else:
        text = f"{name} keeps messages for {topic.message_retention_duration.total_seconds() / 86_400:g} days"
        yield fine("topic", text)


def check_subscription(deployment: Deployment, function: str) -> Iterator[Finding]:
    """Yield whether one push subscription is correct; each flaw is a finding of its own."""
    check, name = f"subscription {function}", deployment.own.subscriptions.get(function)
    if not name:
        yield skipped(check, f"not checked: TPU_PROVISIONER_SUBSCRIPTIONS has no entry {function!r}")
        return
    found = deployment.pubsub.find_subscription(name)
    if found is None:
        yield bad(check, f"{name} does not exist", "terraform apply")
        return
    flaws = list(_find_flaws(deployment, function, found))
    for text, mend in flaws:
        yield bad(check, text, mend)
    if not flaws:
        yield fine(check, f"pushes to {found.push_config.push_endpoint}")


def _find_flaws(deployment: Deployment, function: str, found: Subscription) -> Iterator[tuple[str, str]]:
    update = f"gcloud pubsub subscriptions update {found.name}"
    own = deployment.own
    topic = own.operations_topic if function == SETTLE else own.topic
    if topic and found.topic != topic:
        yield f"belongs to {found.topic} instead of {topic}", _APPLY
    if not found.push_config.push_endpoint:
        yield "has no push endpoint", _APPLY
    elif "oidc_token" not in found.push_config:
        yield "pushes without an identity, so the function refuses the messages", _APPLY
    if _plain(found.filter) != _plain(FILTERS[function]):
        yield f"has the filter {found.filter or 'none'} instead of {FILTERS[function] or 'none'}", _APPLY
    if "dead_letter_policy" not in found:
        yield (
            "has no dead-letter topic: a message that fails is retried until it expires",
            f"{update} --dead-letter-topic=TOPIC",
        )
    if "retry_policy" not in found:
        yield (
            "has no retry policy: failed messages are delivered again at once",
            f"{update} --min-retry-delay=10s --max-retry-delay=600s",
        )
    if _expires(found):
        yield "expires if it is not used", f"{update} --expiration-period=never"


def _expires(found: Subscription) -> bool:
    """Return whether it is removed when it is not used: without a policy, after 31 days."""
    return "expiration_policy" not in found or "ttl" in found.expiration_policy


def _plain(text: str) -> str:
    return text.replace('attributes."ce-type"', "attributes.ce-type")


def check_dead_letters(deployment: Deployment) -> Iterator[Finding]:
    """Yield whether dead letters are kept, and how many there are. They are not removed."""
    check, name = "dead letters", deployment.own.subscriptions.get(DEAD_LETTERS)
    if not name:
        yield skipped(check, f"not checked: TPU_PROVISIONER_SUBSCRIPTIONS has no entry {DEAD_LETTERS!r}")
        return
    found = deployment.pubsub.find_subscription(name)
    if found is None:
        yield bad(check, f"{name} does not exist, so dead letters are lost", "terraform apply")
        return
    if _expires(found):
        mend = f"gcloud pubsub subscriptions update {name} --expiration-period=never"
        yield bad(check, f"{name} expires if it is not used", mend)
    report = list_reasons(deployment, Choice(most=DEAD_LETTERS_MAX))
    if not report.dead_letters:
        yield fine(check, "none")
        return
    reasons = Counter(dead_letter.reason for dead_letter in report.dead_letters).most_common()
    more = " or more" if report.bounded else ""
    yield warn(
        check,
        f"{len(report.dead_letters)}{more}: {', '.join(f'{count} {reason}' for reason, count in reasons)}",
        "tpu-provisioner replay --dead-letters --dry-run",
    )


def check_backlog(deployment: Deployment) -> Iterator[Finding]:
    """Yield the age of each push subscription's oldest message, from Cloud Monitoring."""
    if deployment.monitoring is None:
        yield skipped("backlog", "not checked: TPU_PROVISIONER_MONITORING_ENDPOINT is empty")
        return
    now = deployment.ports.clock.now()
    for function in PUSHED:
        name = deployment.own.subscriptions.get(function)
        if name:
            seconds = _read_oldest_seconds(deployment.monitoring, name, now=now)
            check, text = f"backlog {function}", f"the oldest message has waited for {seconds:.0f} s"
            late = seconds > WAIT_SECONDS_MAX
            yield bad(check, text, "docs/runbook.md, Alert: messages wait") if late else fine(check, text)


def _read_oldest_seconds(monitoring: GoogleSession, subscription: str, *, now: float) -> float:
    """Return the metric's newest value; 0 without one, as an empty subscription reports none."""
    _, project, _, short = subscription.split("/")
    query = {
        "filter": f'metric.type="{_AGE}" AND resource.labels.subscription_id="{short}"',
        "interval.startTime": format_moment(now - WAIT_SECONDS_MAX),
        "interval.endTime": format_moment(now),
    }
    return max((float(found[0]) for found in read_points(monitoring, project, query)), default=0.0)
