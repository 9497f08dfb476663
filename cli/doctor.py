"""All checks on a deployment, in the order of a message's way: clusters, exporter, messages, functions, sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import urllib3

from cli.cluster_checks import check_cluster, check_exporter
from cli.findings import Finding, Result, look
from cli.logs import find_last_sweep
from cli.message_checks import check_backlog, check_dead_letters, check_subscription, check_topic
from cli.settings import PUSHED
from shared.core.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.deployment import Deployment

FUNCTIONS = (*PUSHED, "sweep")
SWEEP_SECONDS_MAX = 300.0
"""The scheduler calls every minute; five missed calls are no accident."""
_HARMLESS = "robots.txt"
"""The functions framework answers 404 here itself; any other path would be read as a (malformed) message."""
_HTTP_SERVER_ERROR = 500


def examine(deployment: Deployment) -> list[Finding]:
    """Return everything that was looked at; nothing in the deployment is changed."""
    findings = [*_check_settings(deployment)]
    for cluster in deployment.ports.clusters:
        findings += check_cluster(deployment, cluster)
    findings += look("exporter", lambda: check_exporter(deployment))
    findings += look("topic", lambda: check_topic(deployment))
    for function in PUSHED:
        findings += look(f"subscription {function}", lambda name=function: check_subscription(deployment, name))  # type: ignore[misc]
    findings += look("dead letters", lambda: check_dead_letters(deployment))
    findings += look("backlog", lambda: check_backlog(deployment))
    for function in FUNCTIONS:
        findings += _check_function(deployment, function)
    findings += look("sweep", lambda: _check_sweep(deployment))
    return findings


def _check_settings(deployment: Deployment) -> Iterator[Finding]:
    settings = deployment.settings
    names = f"{len(settings.clusters)} cluster{'' if len(settings.clusters) == 1 else 's'}"
    if settings.mode != Mode.ACTIVE:
        text = f"{names}; the mode is {settings.mode}: no pools are made"
        yield Finding(
            check="settings", result=Result.WARN, text=text, mend="unset TPU_PROVISIONER_MODE, and deploy"
        )
    elif not settings.dead_letter_topic:
        text = f"{names}; no TPU_PROVISIONER_DEAD_LETTER_TOPIC: malformed messages are tried twenty times"
        yield Finding(check="settings", result=Result.WARN, text=text, mend="terraform apply (the module sets it)")
    else:
        yield Finding(check="settings", result=Result.OK, text=names)


def _check_function(deployment: Deployment, function: str) -> Iterator[Finding]:
    check, uri = f"function {function}", deployment.own.function_uris.get(function)
    if not uri:
        text = f"TPU_PROVISIONER_FUNCTION_URIS names no {function!r}"
        yield Finding(check=check, result=Result.SKIPPED, text=text)
        return
    logs = f"gcloud functions logs read NAME-{function} --gen2"
    try:
        answer = deployment.http.request(
            "GET", f"{uri.rstrip('/')}/{_HARMLESS}", timeout=10.0, retries=False, redirect=False
        )
    except urllib3.exceptions.HTTPError as error:
        yield Finding(check=check, result=Result.BAD, text=f"does not answer at {uri}: {error}", mend=logs)
        return
    if answer.status >= _HTTP_SERVER_ERROR:
        text = f"answers {answer.status} at {uri}: its start fails"
        yield Finding(check=check, result=Result.BAD, text=text, mend=logs)
    else:
        yield Finding(check=check, result=Result.OK, text=f"answers at {uri}")


def _check_sweep(deployment: Deployment) -> Iterator[Finding]:
    if deployment.logging is None:
        yield Finding(check="sweep", result=Result.SKIPPED, text="TPU_PROVISIONER_LOGGING_ENDPOINT is empty")
        return
    now = deployment.ports.clock.now()
    cluster = next(iter(deployment.settings.clusters))
    last = find_last_sweep(deployment.logging, cluster, now=now)
    if last is not None and now - last <= SWEEP_SECONDS_MAX:
        yield Finding(check="sweep", result=Result.OK, text=f"ran {max(0.0, now - last):.0f} s ago")
        return
    text = "has not run for a day" if last is None else f"ran {now - last:.0f} s ago, and is due every minute"
    yield Finding(
        check="sweep", result=Result.BAD, text=text, mend="gcloud scheduler jobs resume JOB, then run JOB"
    )
