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
from cli.diagnosis.cluster_checks import check_cluster
from cli.diagnosis.findings import Finding, bad, fine, look, merge_unanswered, skipped
from cli.exit_codes import say
from cli.messages.replay import list_reasons
from cli.moments import format_moment
from cli.printing import count, short_cluster
from shared.model.errors import JSON_ERRORS, Unavailable

if TYPE_CHECKING:
    from cli.access.operator_access import Deployment

WAIT_SECONDS_MAX = 600.0
_AGE = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"  # assumes: backlog-metric
TICK_SECONDS_MAX = 300.0
"""The scheduler calls every minute. Five missed calls mean a problem."""
_HARMLESS = "robots.txt"
"""The functions framework answers 404 here itself; any other path would be read as a (malformed)
message."""
_HTTP_SERVER_ERROR = 500


class _Value(msgspec.Struct, rename="camel"):
    int64_value: str = "0"


class _Point(msgspec.Struct):
    value: _Value = msgspec.field(default_factory=_Value)


class _Series(msgspec.Struct):
    points: list[_Point] = []


class _TimeSeries(msgspec.Struct, rename="camel"):
    time_series: list[_Series] = []


def examine(deployment: Deployment) -> list[Finding]:
    """Return a finding for each check. Nothing in the deployment is changed."""
    clusters = deployment.ports.clusters
    findings = [look("settings", partial(check_settings, deployment))]
    findings += [finding for cluster in clusters for finding in check_cluster(deployment, cluster)]
    findings += [
        look("subscriptions", partial(check_subscriptions, deployment)),
        look("dead letters", partial(check_dead_letters, deployment)),
        *(
            look(f"backlog {each}", partial(check_backlog, deployment, each))
            for each in list_pushed(deployment.own)
        ),
    ]
    for function in FUNCTIONS:
        findings.append(look(f"function {function}", partial(check_function, deployment, function)))
        for cluster in clusters:
            check = f"{short_cluster(cluster)} tick of {function}"
            findings.append(look(check, partial(check_tick, deployment, function, cluster)))
    return merge_unanswered(findings)


def check_settings(deployment: Deployment) -> Finding:
    """Return what is remarkable about the settings."""
    settings = deployment.settings
    limits = {"cluster": settings.limit_chips, "namespace": settings.limit_chips_per_namespace}
    bounds = ", ".join(f"at most {most} chips in a {where}" for where, most in limits.items() if most)
    return fine(f"{count(len(settings.clusters), 'cluster')}; {bounds or 'no limit'}")


def check_dead_letters(deployment: Deployment) -> Finding:
    """Return how many dead letters there are. They are not removed."""
    if not deployment.own.subscriptions.get(DEAD_LETTERS):
        return skipped(f"TPU_PROVISIONER_SUBSCRIPTIONS has no entry {DEAD_LETTERS!r}")
    letters = list_reasons(deployment)
    if not letters:
        return fine("none")
    reasons = Counter(each.reason for each in letters).most_common()
    listed = ", ".join(f"{number} {reason}" for reason, number in reasons)
    return bad(f"{len(letters)}: {listed}", "tpu-provisioner dead-letters list", serious=False)


def check_subscriptions(deployment: Deployment) -> Finding:
    """Return whether each function's two subscriptions are there: one to each topic."""
    named = {each: deployment.own.subscriptions.get(each) for each in (*PUSHED, DEAD_LETTERS)}
    unnamed = ", ".join(each for each, name in named.items() if not name)
    if unnamed:
        return skipped(f"TPU_PROVISIONER_SUBSCRIPTIONS has no entry {unnamed}")
    absent = {
        each: name for each, name in named.items() if name and deployment.pubsub.find_subscription(name) is None
    }
    if not absent:
        return fine(f"all {len(named)} exist")
    # Without the ends of operations the ticks do all of it, only later.
    serious = any(not each.endswith(ENDS) for each in absent)
    return bad(f"these do not exist: {', '.join(absent.values())}", "terraform plan", serious=serious)


def check_backlog(deployment: Deployment, pushed: str) -> Finding:
    """Return the age of a push subscription's oldest message, from Cloud Monitoring.

    An empty subscription reports none.
    https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list
    """
    name, now = deployment.own.subscriptions.get(pushed), deployment.ports.clock.now()
    if deployment.monitoring is None or not name:
        return skipped(f"TPU_PROVISIONER_MONITORING_ENDPOINT is empty, or no subscription {pushed} is named")
    _, project, _, short = name.split("/")
    query = {
        "filter": f'metric.type="{_AGE}" AND resource.labels.subscription_id="{short}"',
        "interval.startTime": format_moment(now - WAIT_SECONDS_MAX),
        "interval.endTime": format_moment(now),
    }
    body = deployment.monitoring.call("GET", f"v3/projects/{project}/timeSeries?{urlencode(query)}")
    try:
        series = msgspec.json.decode(body or b"{}", type=_TimeSeries).time_series
        seconds = max((int(each.points[0].value.int64_value) for each in series if each.points), default=0)
    except JSON_ERRORS as error:
        raise Unavailable(f"Cloud Monitoring's answer cannot be read: {error}") from error
    text = f"the oldest message has waited for {seconds} s"
    return bad(text, "docs/runbook.md, Alert: messages wait") if seconds > WAIT_SECONDS_MAX else fine(text)


def check_function(deployment: Deployment, function: str) -> Finding:
    """Return whether a function answers; 403 and 404 to a caller from outside are answers."""
    uri = deployment.own.function_uris.get(function)
    if not uri:
        return skipped(f"TPU_PROVISIONER_FUNCTION_URIS has no entry {function!r}")
    logs, address = f"gcloud functions logs read NAME-{function} --gen2", f"{uri.rstrip('/')}/{_HARMLESS}"
    try:
        answer = urllib3.request("GET", address, timeout=10.0, retries=False, redirect=False)
    except urllib3.exceptions.HTTPError as error:
        return bad(f"there is no answer at {uri}: {say(error)}", logs)
    if answer.status >= _HTTP_SERVER_ERROR:
        return bad(f"answers HTTP {answer.status} at {uri}: it does not start", logs)
    return fine(f"answers at {uri}")


def check_tick(deployment: Deployment, function: str, cluster: str) -> Finding:
    """Return when a function last looked at a cluster; the scheduler has a job for each pair."""
    if deployment.open_logs is None:
        return skipped("TPU_PROVISIONER_LOGGING_ENDPOINT is empty")
    now, ours = deployment.ports.clock.now(), name_services(deployment.own, function)
    last = find_last_tick(deployment.open_logs, cluster, function, now=now, ours=ours)
    if last is None or now - last.at > TICK_SECONDS_MAX:
        age = "no log record for a day" if last is None else f"it ended {now - last.at:.0f} s ago"
        fix = "gcloud scheduler jobs list; gcloud scheduler jobs resume JOB; gcloud scheduler jobs run JOB"
        return bad(f"{age}, but it must run every minute", fix)
    text = f"ended {max(0.0, now - last.at):.0f} s ago"
    errors, left = last.counts.get("errors", 0), last.counts.get("left", 0)
    if not (errors or left):
        return fine(text)
    fix = f"tpu-provisioner status, or gcloud functions logs read NAME-{function} --gen2"
    what = f"it failed for {count(errors, 'object')}, and left {left} to the next one"
    return bad(f"{text}; {what}", fix, serious=False)
