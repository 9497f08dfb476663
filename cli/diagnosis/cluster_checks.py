"""The checks of `doctor` on each cluster: GKE, Kubernetes, kinds, permissions, exporter."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import urllib3

from cli.access.log_search import find_last_report
from cli.diagnosis.findings import Finding, bad, fine, look, poor, skipped, warn
from cli.exit_codes import say
from cli.printing import format_age, short_cluster
from shared.edges.kubernetes import JsonObject, Record
from shared.edges.kueue import API_VERSION as KUEUE_VERSION
from shared.engine.reads import read_stop
from shared.kinds.objects import read_text
from shared.kinds.table import choose_kinds
from shared.model import labels
from shared.model.errors import Denied, NotFound
from shared.model.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cli.access.operator_access import Deployment
    from shared.edges.kubernetes import KubernetesApi
    from shared.kinds.kind import Kind

RIGHTS = (
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
"""What the functions need together, besides to read the workloads of each kind: group, resource,
verb. As `infra/helm/templates/functions-rights.yaml` grants it."""
_KUEUE = KUEUE_VERSION.partition("/")[0]
KUEUE_RIGHTS = (
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
_MANIFESTS = "helm upgrade tpu-provisioner-exporter infra/helm --namespace default --reuse-values"
_ROLE = f"{_MANIFESTS} --set kueue=true"


class _ReviewStatus(Record):
    allowed: bool = False


class _Review(Record):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


def list_rights(kinds: Iterable[Kind]) -> tuple[tuple[str, str, str], ...]:
    """Return all that the functions need to serve some kinds of workload: group, resource, verb."""
    rights = list(RIGHTS)
    for kind in kinds:
        rights += [(each.group, each.plural, "get") for each in (kind, *kind.parents)]
        rights += [(kind.group, kind.plural, "list")] if kind.watched else []
    return tuple(rights)


def check_cluster(deployment: Deployment, cluster: str) -> list[Finding]:
    """Return what is found of one cluster."""
    shown, api = short_cluster(cluster), deployment.apis[cluster]
    kinds = choose_kinds(deployment.settings.kinds)
    kueue = f"{shown} kueue"
    _, project, _, location, _, name = cluster.split("/")
    describe = f"gcloud container clusters describe {name} --location={location} --project={project}"
    return [
        *look(f"{shown} GKE", lambda: _check_gke(deployment, cluster, shown), describe),
        *(
            finding
            for kind in kinds
            for finding in look(
                f"{shown} {kind.name}",
                partial(_check_kind, api, kind, shown),
                f"{describe} (is the DNS endpoint enabled?)",
            )
        ),
        *look(f"{shown} permissions", lambda: _check_rights(deployment, cluster, api, shown), _MANIFESTS),
        *look(kueue, lambda: _check_role(deployment, cluster, kueue), _MANIFESTS),
        *look(f"{shown} emergency stop", lambda: _check_stop(deployment, cluster, shown), _MANIFESTS),
        *look(f"{shown} exporter", lambda: check_lease(deployment, cluster), _MANIFESTS),
    ]


def check_exporter(deployment: Deployment) -> Iterator[Finding]:
    """Yield whether the exporter says that it is ready, where it can be asked."""
    url = deployment.own.exporter_url
    if not url:
        for cluster in deployment.settings.clusters:
            yield from _check_reports(deployment, cluster)
        return
    try:
        answer = deployment.http.request("GET", f"{url.rstrip('/')}/readyz", timeout=5.0, retries=False)
    except urllib3.exceptions.HTTPError as error:
        yield bad("exporter", f"there is no answer at {url}: {say(error)}", _LOGS)
        return
    ready = answer.status == 200  # noqa: PLR2004 -- HTTP
    readiness = _say_readiness(answer.data, ready=ready)
    yield fine("exporter", f"ready: {readiness}") if ready else bad("exporter", f"not ready: {readiness}", _LOGS)


def _say_readiness(body: bytes, *, ready: bool) -> str:
    """Return the exporter's role and what it misses, with the causes if it is not ready.

    An answer that is not an exporter's is cut to 200 characters.
    """
    text = body.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
        role, causes = answer["role"], answer["missing"].items()
    except (ValueError, TypeError, KeyError, AttributeError):
        return " ".join(text.split())[:200]
    missing = [str(name) if ready else f"{name} ({cause})" for name, cause in causes]
    return f"its role is {role}" + (f"; missing: {', '.join(missing)}" if missing else "")


def _check_reports(deployment: Deployment, cluster: str) -> Iterator[Finding]:
    """Yield when a cluster's exporter last published an event, where logs can be read."""
    if deployment.open_logs is None:
        return
    check, now = f"{short_cluster(cluster)} exporter", deployment.ports.clock.now()
    last = find_last_report(deployment.open_logs, cluster, now=now)
    if last is None:
        text = "published no event in the last day; that is normal only if no workload needed a pool or ended"
        yield warn(check, text, _LOGS)
    else:
        yield fine(check, f"published its last event {format_age(max(0.0, now - last))} ago")


_LOGS = "kubectl --namespace=tpu-provisioner logs deployment/tpu-provisioner-exporter"


def _check_gke(deployment: Deployment, cluster: str, shown: str) -> Iterator[Finding]:
    pools = deployment.ports.pools.list(cluster)
    ours = sum(pool.owner is not None for pool in pools)
    yield fine(f"{shown} GKE", f"{len(pools)} node pools, {ours} created by the provisioner")


def _check_kind(api: KubernetesApi, kind: Kind, shown: str) -> Iterator[Finding]:
    check = f"{shown} {kind.name}"
    try:
        api.get(kind.root, JsonObject)
    except NotFound:
        text = f"Kubernetes answers, but {kind.name} is not installed"
        yield bad(check, text, kind.install) if kind.install else skipped(check, text)
    else:
        yield fine(check, f"Kubernetes answers, and {kind.name} is installed")


def _check_stop(deployment: Deployment, cluster: str, shown: str) -> Iterator[Finding]:
    """Yield whether the label of the provisioner's own namespace lets the functions act."""
    check, name = f"{shown} emergency stop", deployment.settings.own_namespace
    stop, cause = read_stop(cluster, name, deployment.ports)
    if not stop:
        yield fine(check, f"off: namespace {name} lets the functions act")
        return
    mend = f"kubectl label namespace {name} {labels.MODE}-"
    if deployment.ports.clusters[cluster].get_namespace(name) is None:
        mend = f"{_MANIFESTS}, or set TPU_PROVISIONER_OWN_NAMESPACE"
    yield warn(check, f"on ({stop}): {cause}", mend)


def _check_rights(deployment: Deployment, cluster: str, api: KubernetesApi, shown: str) -> Iterator[Finding]:
    """Yield the missing permissions: bad for the functions' account, a warning for an operator."""
    check, functions_own = f"{shown} permissions", _is_functions_own(deployment, cluster)
    rights = list_rights(choose_kinds(deployment.settings.kinds))
    missing = _list_missing(api, rights)
    if not missing:
        yield fine(check, f"this identity has all {len(rights)} permissions that the functions need")
        return
    mend = "check the functions' account with: kubectl auth can-i VERB RESOURCE -A --as=ACCOUNT"
    if functions_own:
        mend = f"{_MANIFESTS}, and bind the functions' accounts to its ClusterRoles"
    text = f"this identity does not have the permissions: {', '.join(missing)}"
    yield poor(check, text, mend, serious=functions_own)


def _check_role(deployment: Deployment, cluster: str, check: str) -> Iterator[Finding]:
    """Yield whether an identity has the optional role that Kueue's check needs."""
    if not deployment.settings.kueue_admission_check:
        yield skipped(check, "not needed: the setting kueue_admission_check is off")
        return
    missing = _list_missing(deployment.apis[cluster], KUEUE_RIGHTS)
    if not missing:
        which = f"all {len(KUEUE_RIGHTS)} permissions that the setting kueue_admission_check needs"
        yield fine(check, f"this identity has {which}")
        return
    without = f"but this identity does not have the permissions: {', '.join(missing)}"
    text = f"the setting kueue_admission_check is on, {without}"
    yield poor(check, text, _ROLE, serious=_is_functions_own(deployment, cluster))


def _list_missing(api: KubernetesApi, rights: tuple[tuple[str, str, str], ...]) -> list[str]:
    return [f"{verb} {resource}" for group, resource, verb in rights if not _may(api, group, resource, verb)]


def _is_functions_own(deployment: Deployment, cluster: str) -> bool:
    """Return whether the identity in use is the functions' own account."""
    return bool(deployment.settings.clusters[cluster].token_file) and not deployment.own.kubeconfig


def _may(api: KubernetesApi, group: str, resource: str, verb: str) -> bool:
    resource, _, part = resource.partition("/")
    asked = {"group": group, "resource": resource, "subresource": part, "verb": verb}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value or key == "group"}},
    }
    return api.create(_REVIEWS, body, _Review).status.allowed


def check_lease(deployment: Deployment, cluster: str) -> Iterator[Finding]:
    """Yield whether an exporter of a cluster holds its Lease."""
    own, check = deployment.own, f"{short_cluster(cluster)} exporter"
    if not own.lease_name:
        yield skipped(check, "not checked: TPU_PROVISIONER_LEASE_NAME is empty (no election)")
        return
    where = f"Lease {own.lease_namespace}/{own.lease_name}"
    try:
        lease = deployment.apis[cluster].get(_LEASE.format(own.lease_namespace, own.lease_name), JsonObject)
    except NotFound:
        yield bad(check, f"{where} does not exist: no exporter has run", _MANIFESTS)
        return
    except Denied as error:
        yield skipped(check, f"not checked: this identity may not read {where}: {error}")
        return
    renewed = parse_time(read_text(lease, "spec", "renewTime"))
    holder = read_text(lease, "spec", "holderIdentity")
    age = float("inf") if renewed is None else deployment.ports.clock.now() - renewed
    if holder and age <= LEASE_SECONDS_MAX:
        yield fine(check, f"{holder} is the leader and renewed its Lease {age:.0f} s ago")
        return
    state = f"was last renewed {age:.0f} s ago" if renewed else "has no holder"
    yield bad(check, f"no exporter is the leader: {where} {state}", _LOGS)
