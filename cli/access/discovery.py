"""Finds a deployment by project and name: the Cloud Run services of its functions have the rest.

Terraform derives all names from the one name (``infra/terraform/modules/provisioner``), and gives
the functions the settings of the deployment, with its clusters.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import google.auth
from google.auth.exceptions import GoogleAuthError

from cli.access.cli_settings import DEAD_LETTERS, FUNCTIONS, PUSHED
from cli.exit_codes import BadInput
from shared.edges.google import UNREADABLE
from shared.model.errors import Unavailable
from shared.settings import PREFIX, name_variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.edges.google import GoogleSession

NAME = "tpu-provisioner"
"""The default of Terraform's variable ``name``."""


@dataclass(frozen=True, slots=True)
class Service:
    """One service of Cloud Run, as far as it tells of a deployment."""

    name: str
    url: str
    settings: dict[str, str]
    """Its variables of ours."""


def find_default_project() -> str:
    """Return the project of the credentials, or else of gcloud's configuration."""
    try:
        _, project = google.auth.default()
    except GoogleAuthError:
        project = None
    if not project:
        what = "is not given, and neither the credentials nor gcloud have a project"
        raise BadInput(f"--project: {what}; valid: --project=ID, or {name_variable('project')}")
    return str(project)


def list_services(run: GoogleSession, project: str) -> list[Service]:
    """Return the services of all regions of a project.

    https://cloud.google.com/run/docs/reference/rest/v1/projects.locations.services/list
    """
    found: list[Service] = []
    following = ""
    while True:  # assumes: services-list
        body = run.call("GET", f"v1/projects/{project}/locations/-/services?continue={quote(following)}")
        try:
            answer = json.loads(body or b"{}")
            found += [_read(each) for each in answer.get("items", ())]
            following = answer.get("metadata", {}).get("continue", "")
        except UNREADABLE as error:
            raise Unavailable(f"Cloud Run's answer cannot be read: {error}") from error
        if not following:
            return found


def _read(body: dict[str, Any]) -> Service:
    env = [
        each for container in body["spec"]["template"]["spec"]["containers"] for each in container.get("env", ())
    ]
    settings = {each["name"]: each.get("value", "") for each in env if each["name"].startswith(PREFIX)}
    return Service(body["metadata"]["name"], body.get("status", {}).get("url", ""), settings)


def describe_deployment(services: Sequence[Service], project: str, name: str) -> dict[str, str]:
    """Return the variables of a deployment."""
    there = {each.name: each for each in services}
    main = there.get(f"{name}-provision")
    if main is None:
        others = [
            service.removesuffix("-provision")
            for service, each in there.items()
            if service.endswith("-provision") and name_variable("clusters") in each.settings
        ]
        looked = f"no Cloud Run service {name}-provision in any region of the project {project}"
        valid = " or ".join(f"--name={each}" for each in others)
        raise BadInput(
            f"no deployment found: {looked} ({len(there)} services are there); "
            f"valid: {valid or 'another --project, or a deployment by docs/deploy.md first'}"
        )
    functions = [each for each in FUNCTIONS if f"{name}-{each}" in there]
    subscriptions = {
        each: f"projects/{project}/subscriptions/{name}-{each.replace('_', '-')}"
        for each in (*PUSHED, DEAD_LETTERS)
    }
    found = {
        "topic": f"projects/{project}/topics/{name}-workload-events",
        "subscriptions": json.dumps(subscriptions),
        "function_uris": json.dumps({each: there[f"{name}-{each}"].url for each in functions}),
    }
    return main.settings | {name_variable(key): value for key, value in found.items()}
