"""Whether a part of the control plane is ready, asked of the part itself."""

import ssl
from typing import Any

import httpx

from standins.controlplane.api_objects import exists
from standins.controlplane.commands import API_SERVER, CONTROLLERS, ETCD, SCHEDULER, Plan
from standins.controlplane.controllers import Probe
from standins.kit.addresses import HOST

_SECONDS = 2.0


def is_ready(name: str, plan: Plan) -> bool:
    """Return whether a process says that it is ready."""
    ports = plan.ports
    urls = {
        ETCD: f"http://{HOST}:{ports.etcd}/readyz",
        API_SERVER: f"{plan.url}/readyz",
        CONTROLLERS: f"https://{HOST}:{ports.controllers}/healthz",
        SCHEDULER: f"https://{HOST}:{ports.scheduler}/readyz",
    }
    urls |= {each: f"http://{HOST}:{own.health}/readyz" for each, own in ports.of_controllers.items()}
    verify: ssl.SSLContext | bool = False
    if name == API_SERVER:
        verify = ssl.create_default_context(cafile=str(plan.layout.authority))
    try:
        # Controllers and scheduler make their own certificates at each start: nothing there could
        # be verified.
        with httpx.Client(verify=verify, timeout=_SECONDS, trust_env=False) as client:
            return client.get(urls[name]).is_success
    except httpx.HTTPError:
        return False


def are_served(api: httpx.Client, definitions: list[dict[str, Any]]) -> bool:
    """Return whether objects of these CustomResourceDefinitions are served by now.

    Discovery says so in a few lines
    (https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api); the definitions
    themselves are up to a megabyte each.
    """
    return all(
        each["spec"]["names"]["plural"] in _list_resources(api, each["spec"]["group"], version["name"])
        for each in definitions
        for version in each["spec"]["versions"]
        if version["served"]
    )


def _list_resources(api: httpx.Client, group: str, version: str) -> set[str]:
    path = f"/apis/{group}/{version}"
    return {each["name"] for each in api.get(path).json()["resources"]} if exists(api, path) else set()


def are_webhooks_called(api: httpx.Client, probe: Probe) -> bool:
    """Return whether the API server asks a controller's webhooks by now.

    The server learns of a webhook configuration a moment after storing it.
    """
    try:
        found = api.post(probe.path, params={"dryRun": "All"}, json=probe.body).json()
    except httpx.HTTPError:
        return False
    for name in probe.filled:
        found = found.get(name) or {}
    return bool(found)


def has_default_account(api: httpx.Client) -> bool:
    """Return whether the controllers have made the account without which no pod is admitted."""
    return exists(api, "/api/v1/namespaces/default/serviceaccounts/default")
