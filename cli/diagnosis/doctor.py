"""All checks of a deployment, in the order in which a message passes its parts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from cli.access.deployment import DEAD_LETTERS, ENDS, FUNCTIONS, PUSHED, name_services, name_subscription
from cli.access.log_search import find_last_error, find_last_report, find_last_tick
from cli.exit_codes import say
from cli.messages.replay import list_reasons
from cli.printing import Column, count, format_age, print_line, print_table, short_cluster, styled
from shared.edges.kubernetes import JsonObject
from shared.engine.reads import read_stop
from shared.kinds import read
from shared.kinds.table import choose_kinds
from shared.model import labels
from shared.model.errors import Denied, NotFound, ProvisionerError
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from cli.access.connections import Deployment
    from shared.edges.kubernetes import KubernetesApi
    from shared.kinds.kind import Kind


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
    same: dict[str, list[Finding]] = {}
    for each in findings:
        same.setdefault(each.text if each.text.startswith(NO_ANSWER) else each.check, []).append(each)
    return [_merge(*alike) for alike in same.values()]


def _merge(first: Finding, *others: Finding) -> Finding:
    if not others:
        return first
    text = f"{first.text}; for the same cause not checked: {', '.join(each.check for each in others)}"
    return replace(first, text=text, fix="" if NO_LOGIN in first.text else first.fix)


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


LEASE_SECONDS_MAX = 60.0
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
_CHART = "helm upgrade tpu-provisioner-exporter infra/helm --namespace default --reuse-values"
_LOGS = "kubectl --namespace=tpu-provisioner logs deployment/tpu-provisioner-exporter"


def list_checks(deployment: Deployment) -> Iterator[tuple[str, Callable[[], Finding], str]]:
    """Yield all checks with their headings, and what repairs one that gets no answer."""
    for cluster, api in deployment.apis.items():
        shown = short_cluster(cluster)
        project, location, name = shown.split("/")
        describe = f"gcloud container clusters describe {name} --location={location} --project={project}"
        yield f"{shown} GKE", partial(_check_gke, deployment, cluster), describe
        for kind in choose_kinds(deployment.settings.kinds):
            endpoint = f"{describe} (is the DNS endpoint enabled?)"
            yield f"{shown} {kind.name}", partial(_check_kind, api, kind), endpoint
        yield f"{shown} emergency stop", partial(_check_stop, deployment, cluster), _CHART
        yield f"{shown} exporter", partial(check_lease, deployment, cluster), _CHART
        yield f"{shown} events", partial(check_events, deployment, cluster), ""
    yield "subscriptions", partial(check_subscriptions, deployment), ""
    yield "dead letters", partial(check_dead_letters, deployment), ""
    for function in FUNCTIONS:
        for cluster in deployment.apis:
            check = partial(check_tick, deployment, function, cluster)
            yield f"{short_cluster(cluster)} tick of {function}", check, ""


def examine(deployment: Deployment) -> list[Finding]:
    """Return a finding for each check. Nothing in the deployment is changed."""
    return merge_unanswered([look(*each) for each in list_checks(deployment)])


def _check_gke(deployment: Deployment, cluster: str) -> Finding:
    pools = deployment.ports.pools.list(cluster)
    managed = sum(pool.owner is not None for pool in pools)
    return Finding(Result.OK, f"{len(pools)} node pools, {managed} created by the provisioner")


def _check_kind(api: KubernetesApi, kind: Kind) -> Finding:
    try:
        api.get(kind.root, JsonObject)
    except NotFound:
        text = f"Kubernetes answers, but {kind.name} is not installed"
        return bad(text, kind.install) if kind.install else Finding(Result.SKIPPED, text)
    return Finding(Result.OK, f"Kubernetes answers, and {kind.name} is installed")


def _check_stop(deployment: Deployment, cluster: str) -> Finding:
    """Return whether the label of the provisioner's own namespace lets the functions act."""
    name = deployment.settings.own_namespace
    stop, cause = read_stop(cluster, name, deployment.ports)
    if not stop:
        return Finding(Result.OK, f"off: namespace {name} lets the functions act")
    fix = f"kubectl label namespace {name} {labels.MODE}-"
    if deployment.ports.clusters[cluster].get_namespace(name) is None:
        fix = f"{_CHART}, or set TPU_PROVISIONER_OWN_NAMESPACE"
    return bad(f"on ({stop}): {cause}", fix, serious=False)


def check_lease(deployment: Deployment, cluster: str) -> Finding:
    """Return whether an exporter of a cluster holds its Lease."""
    own = deployment.own
    if not own.lease_name:
        return skipped("TPU_PROVISIONER_LEASE_NAME is empty (no election)")
    home = deployment.settings.own_namespace
    where = f"Lease {home}/{own.lease_name}"
    try:
        lease = deployment.apis[cluster].get(_LEASE.format(home, own.lease_name), JsonObject)
    except NotFound:
        return bad(f"{where} does not exist: no exporter has run", _CHART)
    except Denied as error:
        return skipped(f"this identity may not read {where}: {error}")
    renewed, holder = parse_time(read.text(lease, "spec", "renewTime")), read.text(lease, "spec", "holderIdentity")
    age = float("inf") if renewed is None else deployment.ports.clock.now() - renewed
    if holder and age <= LEASE_SECONDS_MAX:
        return Finding(Result.OK, f"{holder} is the leader and renewed its Lease {age:.0f} s ago")
    state = f"was last renewed {age:.0f} s ago" if holder and renewed else "has no holder"
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
    return Finding(Result.OK, f"published its last event {format_age(max(0.0, now - last))} ago")


TICK_SECONDS_MAX = 180.0  # the scheduler calls every minute. Three missed calls mean a problem.


def check_dead_letters(deployment: Deployment) -> Finding:
    """Return how many dead letters there are. They are not removed."""
    if not deployment.own.project:
        return skipped("TPU_PROVISIONER_PROJECT is empty")
    letters = list_reasons(deployment)
    if not letters:
        return Finding(Result.OK, "none")
    reasons = Counter(each.reason for each in letters).most_common()
    listed = ", ".join(f"{number} {reason}" for reason, number in reasons)
    return bad(f"{len(letters)}: {listed}", "tpu-provisioner dead-letters list", serious=False)


def check_subscriptions(deployment: Deployment) -> Finding:
    """Return whether each function's two subscriptions are there: one to each topic."""
    if not deployment.own.project:
        return skipped("TPU_PROVISIONER_PROJECT is empty")
    names = {part: name_subscription(deployment.own, part) for part in (*PUSHED, DEAD_LETTERS)}
    absent = {part: name for part, name in names.items() if not deployment.pubsub.has_subscription(name)}
    if not absent:
        return Finding(Result.OK, f"all {len(names)} exist")
    # Without the ends of operations the ticks do all of it, only later.
    serious = any(not part.endswith(ENDS) for part in absent)
    return bad(f"these do not exist: {', '.join(absent.values())}", "terraform plan", serious=serious)


def check_tick(deployment: Deployment, function: str, cluster: str) -> Finding:
    """Return when a function last looked at a cluster; the scheduler has a job for each pair."""
    if deployment.open_logs is None:
        return skipped("TPU_PROVISIONER_LOGGING_ENDPOINT is empty")
    now, ours = deployment.ports.clock.now(), name_services(deployment.own, function)
    last = find_last_tick(deployment.open_logs, cluster, function, now=now, ours=ours)
    logs = f"gcloud functions logs read NAME-{function} --gen2"
    if last is None or now - last[0] > TICK_SECONDS_MAX:
        age = "no log record for a day" if last is None else f"it ended {now - last[0]:.0f} s ago"
        jobs = "gcloud scheduler jobs list; gcloud scheduler jobs resume JOB; gcloud scheduler jobs run JOB"
        return bad(f"{age}, but it must run every minute", f"{jobs}; {logs}")
    text, counts = f"ended {max(0.0, now - last[0]):.0f} s ago", last[1]
    errors, left = counts.get("errors", 0), counts.get("left", 0)
    if not (errors or left):
        return Finding(Result.OK, text)
    what = f"it failed for {count(errors, 'object')}, and left {left} to the next one"
    error = find_last_error(deployment.open_logs, cluster, function, since=last[0] - TICK_SECONDS_MAX, ours=ours)
    return bad(f"{text}; {what}{error and f'; the last error: {error}'}", f"tpu-provisioner status, or {logs}")
