"""All checks of a deployment, in the order in which a message passes its parts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import urllib3

from cli.access.cli_settings import FUNCTIONS, name_services
from cli.access.log_search import find_last_tick
from cli.diagnosis.cluster_checks import check_cluster, check_exporter
from cli.diagnosis.findings import Finding, bad, fine, look, merge_unanswered, skipped, warn
from cli.diagnosis.message_checks import check_backlog, check_dead_letters, check_subscriptions
from cli.exit_codes import say
from cli.printing import count, short_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.access.operator_access import Deployment

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
