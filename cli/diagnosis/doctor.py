"""All checks of a deployment, in the order in which a message passes its parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec
import urllib3

from cli.access.cli_settings import DEAD_LETTERS, ENDS, FUNCTIONS, PUSHED, list_pushed, name_services
from cli.access.log_search import find_last_report, find_last_tick
from cli.exit_codes import say
from cli.messages.replay import list_reasons
from cli.printing import Column, count, format_age, format_moment, print_line, print_table, short_cluster, styled
from shared.edges.kubernetes import JsonObject, Record
from shared.edges.kueue import API_VERSION as KUEUE_VERSION
from shared.engine.reads import read_stop
from shared.kinds.objects import read_text
from shared.kinds.table import choose_kinds
from shared.model import labels
from shared.model.errors import JSON_ERRORS, Denied, NotFound, ProvisionerError, Unavailable
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

    from cli.access.operator_access import Deployment
    from shared.edges.kubernetes import KubernetesApi
    from shared.kinds.kind import Kind

    Permission = tuple[str, str, str]
    """Group, resource and verb."""


class Result(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"  # it works, but a person should look
    BAD = "bad"
    SKIPPED = "skipped"  # not checked. The text says why.


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says."""

    result: Result
    text: str
    fix: str = ""  # a command, or where to look
    check: str = ""


def fine(text: str) -> Finding:
    """Return that nothing is to be done."""
    return Finding(Result.OK, text)


def bad(text: str, fix: str, *, serious: bool = True) -> Finding:
    """Return what does not work, or at which a person should look, and what repairs it."""
    return Finding(Result.BAD if serious else Result.WARN, text, fix)


def skipped(text: str) -> Finding:
    """Return why a check was not made."""
    return Finding(Result.SKIPPED, f"not checked: {text}")


NO_LOGIN = "there are no Google credentials"  # such an error names its own remedy
NO_ANSWER = "no answer"  # begins the text of a check that could not ask


def look(check: str, ask: Callable[[], Finding], fix: str = "") -> Finding:
    """Return what a check says; one that cannot ask is a finding itself."""
    try:
        return replace(ask(), check=check)
    except ProvisionerError as error:
        return Finding(Result.BAD, f"{NO_ANSWER} ({error.reason}): {say(error)}", fix, check)


def merge_unanswered(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings; checks that could not ask for the same cause become one."""
    merged: list[Finding] = []
    causes: dict[str, list[Finding]] = {}
    for each in findings:
        same = causes.setdefault(each.text if each.text.startswith(NO_ANSWER) else each.check, [])
        same.append(each)
        if len(same) == 1:
            merged.append(each)
    for place, first in enumerate(merged):
        others = ", ".join(each.check for each in causes.get(first.text, [])[1:])
        if others:
            fix = "" if NO_LOGIN in first.text else first.fix
            text = f"{first.text}; for the same cause not checked: {others}"
            merged[place] = replace(first, text=text, fix=fix)
    return merged


_LOOKS = {Result.OK: "ok", Result.WARN: "warn", Result.BAD: "bad", Result.SKIPPED: "dim"}
COLUMNS: list[Column[Finding]] = [
    Column(
        "result", lambda each: str(each.result), "RESULT", lambda each: styled(each.result, _LOOKS[each.result])
    ),
    Column("check", heading="CHECK"),
    Column("text", heading="FOUND"),
    Column("fix"),
]


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print findings for people: a line each, then what fixes those that need it, then the sum."""
    print_table(console, COLUMNS, findings)
    print_line(console)
    for each in findings:
        if each.fix:
            print_line(console, f"{each.check}: {each.fix}")
    counts = {result: sum(each.result is result for each in findings) for result in Result}
    print_line(console, ", ".join(f"{count} {result}" for result, count in counts.items() if count))


PERMISSIONS = (
    ("", "namespaces", "get"),
    ("", "pods", "get"),
    ("", "pods", "list"),
    ("", "nodes", "list"),
    ("", "nodes", "patch"),
    ("", "persistentvolumeclaims", "get"),
    ("", "persistentvolumes", "get"),
    ("storage.k8s.io", "storageclasses", "get"),
    ("", "events", "create"),
    ("", "events", "get"),
    ("", "events", "patch"),
)
"""What the functions need together, besides to read the workloads of each kind. As
`infra/helm/templates/functions-permissions.yaml` grants it."""
_KUEUE = KUEUE_VERSION.partition("/")[0]
KUEUE_PERMISSIONS = (
    (_KUEUE, "workloads", "list"),
    (_KUEUE, "resourceflavors", "get"),
    (_KUEUE, "admissionchecks", "list"),
    (_KUEUE, "admissionchecks/status", "patch"),
    (_KUEUE, "workloads/status", "patch"),
)
"""What they need if `kueue_admission_check` is on. As the value `kueue` of the chart grants it."""
LEASE_SECONDS_MAX = 60.0
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
_CHART = "helm upgrade tpu-provisioner-exporter infra/helm --namespace default --reuse-values"
_LOGS = "kubectl --namespace=tpu-provisioner logs deployment/tpu-provisioner-exporter"


class _ReviewStatus(Record):
    allowed: bool = False


class _Review(Record):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


def list_permissions(kinds: Iterable[Kind]) -> tuple[Permission, ...]:
    """Return all that the functions need to serve some kinds of workload."""
    needed = list(PERMISSIONS)
    for kind in kinds:
        needed += [(each.group, each.plural, "get") for each in (kind, *kind.parents)]
        needed += [(kind.group, kind.plural, "list")] if kind.watched else []
    return tuple(needed)


def check_cluster(deployment: Deployment, cluster: str) -> list[Finding]:
    """Return what is found of one cluster."""
    shown, kinds = short_cluster(cluster), choose_kinds(deployment.settings.kinds)
    _, project, _, location, _, name = cluster.split("/")
    describe = f"gcloud container clusters describe {name} --location={location} --project={project}"
    endpoint = f"{describe} (is the DNS endpoint enabled?)"
    kueue = KUEUE_PERMISSIONS if deployment.settings.kueue_admission_check else ()
    may = partial(check_permissions, deployment, cluster)
    return [
        look(f"{shown} GKE", partial(_check_gke, deployment, cluster), describe),
        *(
            look(f"{shown} {kind.name}", partial(_check_kind, deployment.apis[cluster], kind), endpoint)
            for kind in kinds
        ),
        look(f"{shown} permissions", partial(may, list_permissions(kinds), _CHART), _CHART),
        *(look(f"{shown} kueue", partial(may, each, f"{_CHART} --set kueue=true")) for each in [kueue] if each),
        look(f"{shown} emergency stop", partial(_check_stop, deployment, cluster), _CHART),
        look(f"{shown} exporter", partial(check_lease, deployment, cluster), _CHART),
        look(f"{shown} events", partial(check_events, deployment, cluster)),
    ]


def _check_gke(deployment: Deployment, cluster: str) -> Finding:
    pools = deployment.ports.pools.list(cluster)
    managed = sum(pool.owner is not None for pool in pools)
    return fine(f"{len(pools)} node pools, {managed} created by the provisioner")


def _check_kind(api: KubernetesApi, kind: Kind) -> Finding:
    try:
        api.get(kind.root, JsonObject)
    except NotFound:
        text = f"Kubernetes answers, but {kind.name} is not installed"
        return bad(text, kind.install) if kind.install else Finding(Result.SKIPPED, text)
    return fine(f"Kubernetes answers, and {kind.name} is installed")


def _check_stop(deployment: Deployment, cluster: str) -> Finding:
    """Return whether the label of the provisioner's own namespace lets the functions act."""
    name = deployment.settings.own_namespace
    stop, cause = read_stop(cluster, name, deployment.ports)
    if not stop:
        return fine(f"off: namespace {name} lets the functions act")
    fix = f"kubectl label namespace {name} {labels.MODE}-"
    if deployment.ports.clusters[cluster].get_namespace(name) is None:
        fix = f"{_CHART}, or set TPU_PROVISIONER_OWN_NAMESPACE"
    return bad(f"on ({stop}): {cause}", fix, serious=False)


def check_permissions(deployment: Deployment, cluster: str, needed: Sequence[Permission], fix: str) -> Finding:
    """Return the missing permissions: bad for the functions' account, a warning for an operator."""
    missing = [f"{each[2]} {each[1]}" for each in needed if not _may(deployment.apis[cluster], each)]
    if not missing:
        return fine(f"this identity has all {len(needed)} permissions that the functions need")
    of_functions = deployment.settings.clusters[cluster].token_file and not deployment.own.kubeconfig
    if not of_functions:
        fix = "check the functions' account with: kubectl auth can-i VERB RESOURCE -A --as=ACCOUNT"
    text = f"this identity does not have the permissions: {', '.join(missing)}"
    return bad(text, fix, serious=bool(of_functions))


def _may(api: KubernetesApi, permission: Permission) -> bool:
    group, (resource, _, part), verb = permission[0], permission[1].partition("/"), permission[2]
    attributes = {"group": group, "resource": resource, "subresource": part, "verb": verb}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {key: value for key, value in attributes.items() if value or key == "group"}
        },
    }
    return api.create(_REVIEWS, body, _Review).status.allowed


def check_lease(deployment: Deployment, cluster: str) -> Finding:
    """Return whether an exporter of a cluster holds its Lease."""
    own = deployment.own
    if not own.lease_name:
        return skipped("TPU_PROVISIONER_LEASE_NAME is empty (no election)")
    where = f"Lease {own.lease_namespace}/{own.lease_name}"
    try:
        lease = deployment.apis[cluster].get(_LEASE.format(own.lease_namespace, own.lease_name), JsonObject)
    except NotFound:
        return bad(f"{where} does not exist: no exporter has run", _CHART)
    except Denied as error:
        return skipped(f"this identity may not read {where}: {error}")
    renewed, holder = parse_time(read_text(lease, "spec", "renewTime")), read_text(lease, "spec", "holderIdentity")
    age = float("inf") if renewed is None else deployment.ports.clock.now() - renewed
    if holder and age <= LEASE_SECONDS_MAX:
        return fine(f"{holder} is the leader and renewed its Lease {age:.0f} s ago")
    state = f"was last renewed {age:.0f} s ago" if renewed else "has no holder"
    return bad(f"no exporter is the leader: {where} {state}", _LOGS)


def check_events(deployment: Deployment, cluster: str) -> Finding:
    """Return when a cluster's exporter last published an event, where logs can be read."""
    if deployment.open_logs is None:
        return skipped("TPU_PROVISIONER_LOGGING_ENDPOINT is empty")
    now = deployment.ports.clock.now()
    last = find_last_report(deployment.open_logs, cluster, now=now)
    if last is None:
        text = "published no event in the last day; that is normal only if no workload needed a pool or ended"
        return bad(text, _LOGS, serious=False)
    return fine(f"published its last event {format_age(max(0.0, now - last))} ago")


WAIT_SECONDS_MAX = 600.0
_AGE = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"  # assumes: backlog-metric
TICK_SECONDS_MAX = 300.0  # the scheduler calls every minute. Five missed calls mean a problem.
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
    if last is None or now - last[0] > TICK_SECONDS_MAX:
        age = "no log record for a day" if last is None else f"it ended {now - last[0]:.0f} s ago"
        fix = "gcloud scheduler jobs list; gcloud scheduler jobs resume JOB; gcloud scheduler jobs run JOB"
        return bad(f"{age}, but it must run every minute", fix)
    text, counts = f"ended {max(0.0, now - last[0]):.0f} s ago", last[1]
    errors, left = counts.get("errors", 0), counts.get("left", 0)
    if not (errors or left):
        return fine(text)
    fix = f"tpu-provisioner status, or gcloud functions logs read NAME-{function} --gen2"
    what = f"it failed for {count(errors, 'object')}, and left {left} to the next one"
    return bad(f"{text}; {what}", fix, serious=False)
