"""The checks of `doctor` on each cluster: GKE's API, Kubernetes, its kinds of workload, rights, the exporter."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec
import urllib3

from cli.findings import Finding, Result, look
from cli.printing import short_cluster
from shared.core.errors import Denied, NotFound
from shared.core.kinds.table import choose_kinds
from shared.core.times import parse_time
from shared.edges.kubernetes_objects import JsonObject, Lease, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cli.deployment import Deployment
    from shared.core.kinds.kind import Kind
    from shared.edges.kubernetes_api import KubernetesApi

RIGHTS = (
    ("", "namespaces", "get"),
    ("", "pods", "get"),
    ("", "pods", "list"),
    ("", "nodes", "list"),
    ("", "nodes", "patch"),
    ("", "events", "create"),
    ("", "events", "get"),
    ("", "events", "patch"),
)
"""What the functions need together, besides to get the workloads of each kind: group, resource, verb. As
`infra/kubernetes/base/functions-rights.yaml` grants it."""
LEASE_SECONDS_MAX = 60.0
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}"
_MANIFESTS = "kubectl apply -k infra/kubernetes/base"


class _ReviewStatus(Record):
    allowed: bool = False


class _Review(Record):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


def list_rights(kinds: Iterable[Kind]) -> tuple[tuple[str, str, str], ...]:
    """Return all that the functions need to serve some kinds of workload: group, resource, verb."""
    read = (each for kind in kinds for each in (kind, *kind.parents))
    return (*RIGHTS, *((each.group, each.plural, "get") for each in read))


def check_cluster(deployment: Deployment, cluster: str) -> list[Finding]:
    """Return what is found of one cluster."""
    shown, api = short_cluster(cluster), deployment.apis[cluster]
    _, project, _, location, _, name = cluster.split("/")
    describe = f"gcloud container clusters describe {name} --location={location} --project={project}"
    return [
        *look(f"{shown} GKE", lambda: _check_gke(deployment, cluster, shown), describe),
        *(
            finding
            for kind in choose_kinds(deployment.settings.kinds)
            for finding in look(
                f"{shown} {kind.name}",
                partial(_check_kind, api, kind, shown),
                f"{describe} (is its DNS endpoint open?)",
            )
        ),
        *look(f"{shown} rights", lambda: _check_rights(deployment, cluster, api, shown), _MANIFESTS),
        *look(f"{shown} exporter", lambda: _check_lease(deployment, api, shown), _MANIFESTS),
    ]


def check_exporter(deployment: Deployment) -> Iterator[Finding]:
    """Yield whether the exporter says that it is ready, where it can be asked."""
    url = deployment.own.exporter_url
    if not url:
        return
    try:
        answer = deployment.http.request("GET", f"{url.rstrip('/')}/readyz", timeout=5.0, retries=False)
    except urllib3.exceptions.HTTPError as error:
        yield Finding(check="exporter", result=Result.BAD, text=f"does not answer at {url}: {error}", mend=_LOGS)
        return
    said = " ".join(answer.data.decode("utf-8", "replace").split())[:200]
    ready = answer.status == 200  # noqa: PLR2004 -- HTTP
    yield Finding(
        check="exporter",
        result=Result.OK if ready else Result.BAD,
        text=f"{'ready' if ready else 'not ready'}: {said}",
        mend="" if ready else _LOGS,
    )


_LOGS = "kubectl --namespace=tpu-provisioner logs deployment/tpu-provisioner-exporter"


def _check_gke(deployment: Deployment, cluster: str, shown: str) -> Iterator[Finding]:
    pools = deployment.ports.pools.list(cluster)
    ours = sum(pool.owner is not None for pool in pools)
    yield Finding(check=f"{shown} GKE", result=Result.OK, text=f"{len(pools)} node pools, {ours} of them ours")


def _check_kind(api: KubernetesApi, kind: Kind, shown: str) -> Iterator[Finding]:
    check = f"{shown} {kind.name}"
    try:
        api.get(f"/apis/{kind.api_version}", JsonObject)
    except NotFound:
        yield Finding(
            check=check,
            result=Result.BAD if kind.install else Result.SKIPPED,
            text=f"Kubernetes answers, and {kind.name} is not installed",
            mend=kind.install,
        )
        return
    yield Finding(check=check, result=Result.OK, text=f"Kubernetes answers, and {kind.name} is installed")


def _check_rights(deployment: Deployment, cluster: str, api: KubernetesApi, shown: str) -> Iterator[Finding]:
    """Yield which rights are missing; bad only for the functions' own account, for an operator needs fewer."""
    functions_own = bool(deployment.settings.clusters[cluster].token_file) and not deployment.own.kubeconfig
    rights = list_rights(choose_kinds(deployment.settings.kinds))
    missing = [f"{verb} {resource}" for group, resource, verb in rights if not _may(api, group, resource, verb)]
    if missing:
        yield Finding(
            check=f"{shown} rights",
            result=Result.BAD if functions_own else Result.WARN,
            text=f"the identity in use may not: {', '.join(missing)}",
            mend=f"{_MANIFESTS}, with the functions' accounts bound to its ClusterRoles"
            if functions_own
            else "for the functions' account it is said by: kubectl auth can-i VERB RESOURCE -A --as=ACCOUNT",
        )
        return
    text = f"the identity in use has all {len(rights)} rights that the functions need"
    yield Finding(check=f"{shown} rights", result=Result.OK, text=text)


def _may(api: KubernetesApi, group: str, resource: str, verb: str) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"group": group, "resource": resource, "verb": verb}},
    }
    return api.create(_REVIEWS, body, _Review).status.allowed


def _check_lease(deployment: Deployment, api: KubernetesApi, shown: str) -> Iterator[Finding]:
    own, check = deployment.own, f"{shown} exporter"
    if not own.lease_name:
        yield Finding(
            check=check, result=Result.SKIPPED, text="runs without an election: there is no Lease to read"
        )
        return
    where = f"Lease {own.lease_namespace}/{own.lease_name}"
    try:
        lease = api.get(_LEASE.format(own.lease_namespace, own.lease_name), Lease)
    except NotFound:
        yield Finding(
            check=check, result=Result.BAD, text=f"{where} is absent: no exporter has run", mend=_MANIFESTS
        )
        return
    except Denied as error:
        yield Finding(check=check, result=Result.SKIPPED, text=f"{where} may not be read: {error}")
        return
    renewed = parse_time(lease.spec.renew_time)
    holder = lease.spec.holder_identity or ""
    age = float("inf") if renewed is None else deployment.ports.clock.now() - renewed
    if holder and age <= LEASE_SECONDS_MAX:
        yield Finding(check=check, result=Result.OK, text=f"{holder} leads, renewed {age:.0f} s ago")
        return
    text = (
        f"nobody leads: {where} was last renewed {age:.0f} s ago" if renewed else f"nobody leads: {where} is free"
    )
    yield Finding(check=check, result=Result.BAD, text=text, mend=_LOGS)
