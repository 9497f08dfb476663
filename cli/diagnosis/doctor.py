"""All checks of a deployment, in the order in which a message passes its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import urllib3

from cli.access.cli_settings import PUSHED, name_services
from cli.access.log_search import find_last_sweep
from cli.diagnosis.cluster_checks import check_cluster, check_exporter
from cli.diagnosis.findings import Finding, bad, fine, look, merge_unanswered, skipped, warn
from cli.diagnosis.message_checks import check_backlog, check_dead_letters
from cli.exit_codes import say
from cli.printing import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.access.operator_access import Deployment

FUNCTIONS = (*PUSHED, "sweep")
SWEEP_SECONDS_MAX = 300.0
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
    findings += look("dead letters", lambda: check_dead_letters(deployment))
    findings += look("backlog", lambda: check_backlog(deployment))
    for function in FUNCTIONS:
        findings += _check_function(deployment, function)
    findings += look("sweep", lambda: _check_sweep(deployment))
    return merge_unanswered(findings)


def check_settings(deployment: Deployment) -> Iterator[Finding]:
    """Yield what is remarkable about the settings."""
    settings = deployment.settings
    names = f"{len(settings.clusters)} cluster{'' if len(settings.clusters) == 1 else 's'}"
    yield fine("settings", names)


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


def _check_sweep(deployment: Deployment) -> Iterator[Finding]:
    if deployment.open_logs is None:
        yield skipped("sweep", "not checked: TPU_PROVISIONER_LOGGING_ENDPOINT is empty")
        return
    now = deployment.ports.clock.now()
    cluster = next(iter(deployment.settings.clusters))
    last = find_last_sweep(deployment.open_logs, cluster, now=now, ours=name_services(deployment.own, "sweep"))
    if last is not None and now - last.at <= SWEEP_SECONDS_MAX:
        text = f"ran {max(0.0, now - last.at):.0f} s ago"
        if last.errors:
            yield warn(
                "sweep",
                f"{text}, and failed for {count(last.errors, 'object')}",
                "tpu-provisioner status, or gcloud functions logs read NAME-sweep --gen2",
            )
            return
        yield fine("sweep", text)
        return
    age = "no log record for a day" if last is None else f"it ran {now - last.at:.0f} s ago"
    text = f"{age}, but it must run every minute"
    yield bad("sweep", text, "gcloud scheduler jobs resume JOB; gcloud scheduler jobs run JOB")
