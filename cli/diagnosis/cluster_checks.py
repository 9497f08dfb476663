"""The checks of `doctor` on each cluster: GKE, Kubernetes, kinds, permissions, exporter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from cli.access.log_search import find_last_report
from cli.diagnosis.findings import Finding, bad, fine, look, skipped
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
    from collections.abc import Iterable, Sequence

    from cli.access.operator_access import Deployment
    from shared.edges.kubernetes import KubernetesApi
    from shared.kinds.kind import Kind

    Permission = tuple[str, str, str]
    """Group, resource and verb."""

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
`infra/helm/templates/functions-rights.yaml` grants it."""
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
        return bad(text, kind.install) if kind.install else skipped(text)
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
    asked = {"group": group, "resource": resource, "subresource": part, "verb": verb}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value or key == "group"}},
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
