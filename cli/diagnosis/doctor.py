"""All checks of a deployment, in the order in which a message passes its parts."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec
import urllib3

from cli.access.cli_settings import DEAD_LETTERS, ENDS, FUNCTIONS, PUSHED, list_pushed, name_services
from cli.access.log_search import find_last_tick
from cli.diagnosis.cluster_checks import check_cluster, check_exporter
from cli.diagnosis.findings import Finding, bad, fine, look, merge_unanswered, poor, skipped, warn
from cli.exit_codes import say
from cli.messages.dead_letters import Choice
from cli.messages.replay import list_reasons
from cli.moments import format_moment
from cli.printing import count, short_cluster
from shared.model.errors import JSON_ERRORS, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cli.access.operator_access import Deployment
    from shared.edges.google import GoogleSession


class _Value(msgspec.Struct, rename="camel"):
    int64_value: str = "0"


class _Point(msgspec.Struct):
    value: _Value = msgspec.field(default_factory=_Value)


class _Series(msgspec.Struct):
    points: list[_Point] = []


class _TimeSeries(msgspec.Struct, rename="camel"):
    time_series: list[_Series] = []


def read_points(monitoring: GoogleSession, project: str, query: dict[str, str]) -> list[list[int]]:
    """Return the whole numbers of each time series of Cloud Monitoring that has some.

    https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list
    """
    body = monitoring.call("GET", f"v3/projects/{project}/timeSeries?{urlencode(query)}")
    try:
        series = msgspec.json.decode(body or b"{}", type=_TimeSeries).time_series
    except JSON_ERRORS as error:
        raise Unavailable(f"Cloud Monitoring's answer cannot be read: {error}") from error
    return [[int(point.value.int64_value) for point in each.points] for each in series if each.points]


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


TICK_SECONDS_MAX = 300.0
"""The scheduler calls every minute. Five missed calls mean a problem."""
_HARMLESS = "robots.txt"
"""The functions framework answers 404 here itself; any other path would be read as a (malformed)
message."""
_HTTP_SERVER_ERROR = 500


def examine(deployment: Deployment) -> list[Finding]:
    """Return a finding for each check. Nothing in the deployment is changed."""
    findings = [*check_settings(deployment)]
    for cluster in deployment.ports.clusters:
        findings += check_cluster(deployment, cluster)
    findings += look("exporter", lambda: check_exporter(deployment))
    findings += look("subscriptions", lambda: check_subscriptions(deployment))
    findings += look("dead letters", lambda: check_dead_letters(deployment))
    findings += look("backlog", lambda: check_backlog(deployment))
    for function in FUNCTIONS:
        findings += _check_function(deployment, function)
        findings += look(f"ticks {function}", partial(check_ticks, deployment, function))
    return merge_unanswered(findings)


def check_settings(deployment: Deployment) -> Iterator[Finding]:
    """Yield what is remarkable about the settings."""
    settings = deployment.settings
    limits = {"cluster": settings.limit_chips, "namespace": settings.limit_chips_per_namespace}
    told = [f"at most {most} chips in a {where}" for where, most in limits.items() if most]
    yield fine("settings", f"{count(len(settings.clusters), 'cluster')}; {', '.join(told) or 'no limit'}")


def _check_function(deployment: Deployment, function: str) -> Iterator[Finding]:
    check, uri = f"function {function}", deployment.own.function_uris.get(function)
    if not uri:
        yield skipped(check, f"not checked: TPU_PROVISIONER_FUNCTION_URIS has no entry {function!r}")
        return
    logs = f"gcloud functions logs read NAME-{function} --gen2"
    try:
        answer = deployment.http.request(
            "GET", f"{uri.rstrip('/')}/{_HARMLESS}", timeout=10.0, retries=False, redirect=False
        )
    except urllib3.exceptions.HTTPError as error:
        yield bad(check, f"there is no answer at {uri}: {say(error)}", logs)
        return
    if answer.status >= _HTTP_SERVER_ERROR:
        yield bad(check, f"answers HTTP {answer.status} at {uri}: it does not start", logs)
    else:
        yield fine(check, f"answers at {uri}")


def check_ticks(deployment: Deployment, function: str) -> Iterator[Finding]:
    """Yield when a function last looked at each cluster; the scheduler has a job for each pair."""
    if deployment.open_logs is None:
        yield skipped(f"ticks {function}", "not checked: TPU_PROVISIONER_LOGGING_ENDPOINT is empty")
        return
    now, ours = deployment.ports.clock.now(), name_services(deployment.own, function)
    for cluster in deployment.settings.clusters:
        check = f"{short_cluster(cluster)} tick of {function}"
        last = find_last_tick(deployment.open_logs, cluster, function, now=now, ours=ours)
        if last is None or now - last.at > TICK_SECONDS_MAX:
            age = "no log record for a day" if last is None else f"it ended {now - last.at:.0f} s ago"
            mend = "gcloud scheduler jobs list; gcloud scheduler jobs resume JOB; gcloud scheduler jobs run JOB"
            yield bad(check, f"{age}, but it must run every minute", mend)
            continue
        text = f"ended {max(0.0, now - last.at):.0f} s ago"
        errors, left = last.counts.get("errors", 0), last.counts.get("left", 0)
        if errors or left:
            what = f"{text}; it failed for {count(errors, 'object')}, and left {left} to the next one"
            yield warn(
                check, what, f"tpu-provisioner status, or gcloud functions logs read NAME-{function} --gen2"
            )
        else:
            yield fine(check, text)
