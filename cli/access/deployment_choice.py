"""Which deployment a command is about: that of the environment, or of a project and a name.

Terraform derives all names from the one name (``infra/terraform/modules/provisioner``), and gives
the functions the settings of the deployment, with its clusters. So their Cloud Run services have
everything.
"""

from __future__ import annotations

import json
import os
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer

from cli.access.cli_settings import FUNCTIONS, NAME
from cli.exit_codes import BadInput
from shared.model.errors import Unavailable
from shared.settings import PREFIX, Credentials, name_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cli.access.operator_access import Deployment
    from shared.edges.google import GoogleSession

CLUSTERS = name_variable("clusters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the command line says of the deployment; empty for what it does not say."""

    project: str = ""
    name: str = ""
    cluster: str = ""  # a name, or ``projects/P/locations/L/clusters/C``


CHOICE = ContextVar("choice", default=Choice())  # noqa: B039 -- it is frozen
"""What the command line says of the deployment."""


def choose_environment(*, always: bool = True) -> Mapping[str, str]:
    """Return the variables of the deployment.

    Without `always`, those of the environment alone unless the command line chooses one.
    """
    choice = CHOICE.get()
    if not always and choice == Choice():
        return os.environ
    return resolve(os.environ, choice, say=lambda text: typer.echo(text, err=True))


def open_chosen() -> Deployment:
    """Return the chosen deployment."""
    return open_deployment(choose_environment())


def open_deployment(environ: Mapping[str, str]) -> Deployment:
    """Return the deployment. Its libraries take half a second to load, and a plan needs none."""
    from cli.access.operator_access import open_deployment as open_now  # noqa: PLC0415 -- see above

    return open_now(environ)


def resolve(environ: Mapping[str, str], choice: Choice, *, say: Callable[[str], None]) -> dict[str, str]:
    """Return the variables of the chosen deployment."""
    if CLUSTERS in environ and (choice.project or choice.name):
        option = "--project" if choice.project else "--name"
        raise BadInput(f"{option}: contradicts {CLUSTERS}, which is set; valid: one of the two")
    variables = dict(environ) if CLUSTERS in environ else _find(environ, choice, say)
    return variables | _narrow(variables.get(CLUSTERS, ""), choice.cluster)


def _narrow(clusters: str, cluster: str) -> dict[str, str]:
    """Return the setting of the clusters with the chosen one only; nothing without a choice."""
    try:
        named: dict[str, Any] = dict(json.loads(clusters)) if cluster else {}
    except (ValueError, TypeError):
        return {}  # the reader of the settings says what is wrong
    chosen = {name: each for name, each in named.items() if cluster in (name, name.rpartition("/")[2])}
    if cluster and not chosen:
        raise BadInput(f"--cluster={cluster}: is not in {CLUSTERS}; valid: {', '.join(named) or 'none'}")
    return {CLUSTERS: json.dumps(chosen)} if chosen else {}


def _find(environ: Mapping[str, str], choice: Choice, say: Callable[[str], None]) -> dict[str, str]:
    # Google's libraries take half a second to load, and an environment may say it all.
    from shared.edges.google import GoogleAccount, GoogleSession  # noqa: PLC0415 -- see above

    anonymous = environ.get(name_variable("credentials")) == Credentials.ANONYMOUS
    account = GoogleAccount(Credentials.ANONYMOUS if anonymous else Credentials.GOOGLE)
    endpoint = environ.get(name_variable("run_endpoint")) or "https://run.googleapis.com"
    project = choice.project or environ.get(name_variable("project")) or find_default_project()
    name = choice.name or environ.get(name_variable("name")) or NAME
    variables = describe_deployment(list_services(GoogleSession(endpoint, account), project), project, name)
    say(f"deployment: {name} of the project {project}")
    return {**variables, **environ, name_variable("project"): project, name_variable("name"): name}


def find_default_project() -> str:
    """Return the project of the credentials, or else of gcloud's configuration."""
    import google.auth  # noqa: PLC0415 -- see _find

    try:
        _, project = google.auth.default()
    except google.auth.exceptions.GoogleAuthError:
        project = None
    if not project:
        what = "is not given, and neither the credentials nor gcloud have a project"
        raise BadInput(f"--project: {what}; valid: --project=ID, or {name_variable('project')}")
    return str(project)


def list_services(run: GoogleSession, project: str) -> dict[str, dict[str, str]]:
    """Return the variables of ours of each service of a project, in all regions.

    https://cloud.google.com/run/docs/reference/rest/v1/projects.locations.services/list
    """
    services: dict[str, dict[str, str]] = {}
    following = ""
    while True:  # assumes: services-list
        body = run.call("GET", f"v1/projects/{project}/locations/-/services?continue={quote(following)}")
        try:
            answer = json.loads(body or b"{}")
            services |= {each["metadata"]["name"]: _read_variables(each) for each in answer.get("items", ())}
            following = answer.get("metadata", {}).get("continue", "")
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise Unavailable(f"Cloud Run's answer cannot be read: {error}") from error
        if not following:
            return services


def _read_variables(service: dict[str, Any]) -> dict[str, str]:
    containers = service["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value", "") for one in containers for each in one.get("env", ())}
    return {name: value for name, value in variables.items() if name.startswith(PREFIX)}


def describe_deployment(services: Mapping[str, dict[str, str]], project: str, name: str) -> dict[str, str]:
    """Return the variables of a deployment's functions."""
    end = f"-{FUNCTIONS[0]}"
    if f"{name}{end}" in services:
        return services[f"{name}{end}"]
    others = [
        f"--name={each.removesuffix(end)}"
        for each, variables in services.items()
        if each.endswith(end) and CLUSTERS in variables
    ]
    where = f"no Cloud Run service {name}{end} in any region of the project {project}"
    raise BadInput(
        f"no deployment found: {where} ({len(services)} services are there); "
        f"valid: {' or '.join(others) or 'another --project, or a deployment by docs/deploy.md first'}"
    )
