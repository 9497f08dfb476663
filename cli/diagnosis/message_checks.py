"""The checks of `doctor` on dead letters and the age of waiting messages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cli.access.cli_settings import DEAD_LETTERS, ENDS, PUSHED, list_pushed
from cli.access.metric_points import read_points
from cli.diagnosis.findings import Finding, bad, fine, poor, skipped, warn
from cli.messages.dead_letters import Choice
from cli.messages.replay import list_reasons
from cli.moments import format_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cli.access.operator_access import Deployment
    from shared.edges.google import GoogleSession

DEAD_LETTERS_MAX = 100
WAIT_SECONDS_MAX = 600.0
_AGE = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"  # assumes: backlog-metric


def check_dead_letters(deployment: Deployment) -> Iterator[Finding]:
    """Yield how many dead letters there are. They are not removed."""
    check, name = "dead letters", deployment.own.subscriptions.get(DEAD_LETTERS)
    if not name:
        yield skipped(check, f"not checked: TPU_PROVISIONER_SUBSCRIPTIONS has no entry {DEAD_LETTERS!r}")
        return
    report = list_reasons(deployment, Choice(most=DEAD_LETTERS_MAX))
    if not report.dead_letters:
        yield fine(check, "none")
        return
    reasons = Counter(dead_letter.reason for dead_letter in report.dead_letters).most_common()
    more = " or more" if report.bounded else ""
    yield warn(
        check,
        f"{len(report.dead_letters)}{more}: {', '.join(f'{count} {reason}' for reason, count in reasons)}",
        "tpu-provisioner dead-letters list",
    )


def check_subscriptions(deployment: Deployment) -> Iterator[Finding]:
    """Yield whether each function's two subscriptions are there: one to each topic."""
    named = {each: deployment.own.subscriptions.get(each) for each in (*PUSHED, DEAD_LETTERS)}
    unnamed = [each for each, name in named.items() if not name]
    if unnamed:
        listed = ", ".join(unnamed)
        yield skipped("subscriptions", f"not checked: TPU_PROVISIONER_SUBSCRIPTIONS has no entry {listed}")
    known = {each: name for each, name in named.items() if name}
    if known:
        yield _find_absent(deployment, known)


def _find_absent(deployment: Deployment, known: Mapping[str, str]) -> Finding:
    absent = {each: name for each, name in known.items() if deployment.pubsub.find_subscription(name) is None}
    if not absent:
        return fine("subscriptions", f"all {len(known)} exist")
    # Without the ends of operations the ticks do all of it, only later.
    serious = any(not each.endswith(ENDS) for each in absent)
    text = f"these do not exist: {', '.join(absent.values())}"
    return poor("subscriptions", text, "terraform plan", serious=serious)


def check_backlog(deployment: Deployment) -> Iterator[Finding]:
    """Yield the age of each push subscription's oldest message, from Cloud Monitoring."""
    if deployment.monitoring is None:
        yield skipped("backlog", "not checked: TPU_PROVISIONER_MONITORING_ENDPOINT is empty")
        return
    now = deployment.ports.clock.now()
    for each in list_pushed(deployment.own):
        name = deployment.own.subscriptions.get(each)
        if name:
            seconds = _read_oldest_seconds(deployment.monitoring, name, now=now)
            check, text = f"backlog {each}", f"the oldest message has waited for {seconds:.0f} s"
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
