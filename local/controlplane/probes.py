"""Whether a part of the control plane is ready, asked of the part itself."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from local.controlplane import jobset
from local.controlplane.commands import API_SERVER, CONTROLLERS, ETCD, JOBSET, SCHEDULER
from local.controlplane.layout import HOST
from local.controlplane.objects import path_of
from shared.core.errors import NotFound, ProvisionerError
from shared.edges.kubernetes_objects import Condition, Stored

if TYPE_CHECKING:
    from local.controlplane.commands import Plan
    from shared.edges.kubernetes_api import KubernetesApi

_SECONDS = 2.0
_PROBE = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets?dryRun=All"


class _DefinitionStatus(msgspec.Struct):
    conditions: list[Condition] | None = None


class _Definition(msgspec.Struct):
    status: _DefinitionStatus = msgspec.field(default_factory=_DefinitionStatus)


class _JobSetSpec(msgspec.Struct):
    network: dict[str, Any] | None = None


class _JobSet(msgspec.Struct):
    spec: _JobSetSpec


def is_ready(name: str, plan: Plan) -> bool:
    """Return whether a process says that it is ready."""
    ports = plan.ports
    url = {
        ETCD: f"http://{HOST}:{ports.etcd}/readyz",
        API_SERVER: f"{plan.url}/readyz",
        CONTROLLERS: f"https://{HOST}:{ports.controllers}/healthz",
        SCHEDULER: f"https://{HOST}:{ports.scheduler}/readyz",
        JOBSET: f"http://{HOST}:{ports.jobset_health}/readyz",
    }[name]
    verify: ssl.SSLContext | bool = False
    if name == API_SERVER:
        verify = ssl.create_default_context(cafile=str(plan.layout.authority))
    try:
        # Controllers and scheduler make their own certificates at each start: nothing there could be verified.
        with httpx.Client(verify=verify, timeout=_SECONDS, trust_env=False) as client:
            return client.get(url).is_success
    except httpx.HTTPError:
        return False


def are_established(api: KubernetesApi, definitions: list[dict[str, Any]]) -> bool:
    """Return whether objects of these CustomResourceDefinitions can be served by now."""
    return all(
        any(
            each.type == "Established" and each.status == "True"
            for each in api.get(path_of(definition), _Definition).status.conditions or ()
        )
        for definition in definitions
    )


def are_webhooks_called(api: KubernetesApi) -> bool:
    """Return whether the API server asks JobSet's webhooks by now: one fills in the field `network`.

    The server learns of a webhook configuration a moment after storing it.
    """
    try:
        return api.create(_PROBE, jobset.minimal_jobset("probe"), _JobSet).spec.network is not None
    except ProvisionerError:
        return False


def has_default_account(api: KubernetesApi) -> bool:
    """Return whether the controllers have made the account without which no pod is admitted."""
    try:
        api.get("/api/v1/namespaces/default/serviceaccounts/default", Stored)
    except NotFound:
        return False
    return True
