"""Which deployment a command is about: that of the environment, or of a project and a name.

The functions read the same variables, so both always describe the same deployment. Terraform
derives all names from the one name (``infra/terraform/modules/provisioner``), and gives the
functions the settings. So their Cloud Run services have everything.
"""

from __future__ import annotations

import json
import os
import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from msgspec import Struct
from msgspec.structs import replace

from cli.exit_codes import BadInput
from shared.model.errors import Misconfigured, Unavailable
from shared.settings import (
    OPTIONAL_URL,
    PREFIX,
    URL,
    Credentials,
    Settings,
    describe_problem,
    name_variable,
    read_all,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shared.edges.google import GoogleSession


CLUSTERS = name_variable("clusters")
FUNCTIONS = ("provision", "collect")
NAME = "tpu-provisioner"  # the default of Terraform's variable ``name``
DEAD_LETTERS = "dead-letters"
ENDS = "-ends"
"""Of the name of a subscription to `nodepool-events`; the others are to `workload-events`."""
PUSHED = tuple(f"{function}{part}" for part in ("", ENDS) for function in FUNCTIONS)
"""The push subscriptions: each function has one to each topic."""
UNNAMED_CLUSTER = "projects/PROJECT/locations/{}/clusters/CLUSTER"
"""For a plan without settings. The location is the region of the zone."""
ANY_REGION = "any-region1"
"""Where it is if no zone is given: it looks like a region, as the rules expect."""
ANY_ZONE = "-any"
"""The end of the name of a zone of which only the region is known."""
ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+")


class OperatorSettings(Struct, frozen=True, kw_only=True):
    """Where the parts of a deployment are, as far as no function uses them."""

    project: str = ""
    """The project of the deployment. Empty: that of the credentials or of gcloud."""
    name: str = NAME
    """The deployment's name in that project."""
    run_endpoint: Annotated[str, URL] = "https://run.googleapis.com"
    """Base URL of the Cloud Run API, which finds the deployment."""
    pubsub_endpoint: Annotated[str, URL] = "https://pubsub.googleapis.com"
    """Base URL of the Pub/Sub API."""
    lease_name: str = "tpu-provisioner-exporter"
    """Name of the exporter's Lease, in the provisioner's namespace. Empty: there is no election."""
    kubeconfig: str = ""
    """Kubeconfig file for the one cluster, used in place of its endpoint; for stand-ins with
    accounts."""
    logging_endpoint: Annotated[str, OPTIONAL_URL] = "https://logging.googleapis.com"
    """Base URL of the Cloud Logging API. Empty: logs are not read."""


def read_environment(environ: Mapping[str, str]) -> tuple[Settings, OperatorSettings]:
    """Return the functions' settings and those of the command line."""
    settings, own = read_all(environ, Settings, OperatorSettings)
    if own.kubeconfig and len(settings.clusters) > 1:
        what = f"reaches one cluster, but {name_variable('clusters')} names {len(settings.clusters)}"
        raise Misconfigured((describe_problem(name_variable("kubeconfig"), what, valid="leave it empty"),))
    return settings, own


def read_plan_settings(environ: Mapping[str, str], zone: str) -> Settings:
    """Return the settings to plan with; an environment without a cluster gets an invented one."""
    if zone and not ZONE.fullmatch(zone):
        raise BadInput(describe_problem("--zone", "is not valid", zone, "a zone like us-east5-b"))
    if CLUSTERS not in environ:
        return read_environment({**environ, CLUSTERS: json.dumps(_invent(zone))})[0]
    settings, _ = read_environment(environ)
    name, there = next(iter(settings.clusters.items()))
    return replace(settings, clusters={name: replace(there, zone=zone or there.zone)})


def _invent(zone: str) -> dict[str, dict[str, str]]:
    region = zone.rpartition("-")[0] or ANY_REGION
    return {UNNAMED_CLUSTER.format(region): {"endpoint": "https://unknown", "zone": zone or region + ANY_ZONE}}


def name_subscription(own: OperatorSettings, part: str) -> str:
    """Return the full name of a subscription, as Terraform derives it from the deployment."""
    return f"projects/{_require_project(own)}/subscriptions/{own.name}-{part}"


def name_topic(own: OperatorSettings) -> str:
    """Return the topic of the exporter's events."""
    return f"projects/{_require_project(own)}/topics/{own.name}-workload-events"


def _require_project(own: OperatorSettings) -> str:
    if not own.project:
        what, valid = "is required by this command", "the project of the deployment"
        raise Misconfigured((describe_problem(name_variable("project"), what, valid=valid),))
    return own.project


def find_log_project(own: OperatorSettings, cluster: str) -> str:
    """Return whose logs the functions write to: the deployment's project, else that of a cluster.

    The cluster is ``projects/P/…``.
    """
    return own.project or cluster.split("/")[1]


def name_services(own: OperatorSettings, *functions: str) -> str:
    """Return the end of a filter that finds only some functions of a deployment; none means all.

    Other deployments may write to the same project.
    """
    services = " OR ".join(f'"{own.name}-{each}"' for each in functions or FUNCTIONS)
    return f" AND jsonPayload.service=({services})" if own.project else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the command line says of the deployment; empty for what it does not say."""

    project: str = ""
    name: str = ""
    cluster: str = ""  # a name, or ``projects/P/locations/L/clusters/C``


CHOICE = ContextVar("choice", default=Choice())  # noqa: B039 -- it is frozen
"""What the command line says of the deployment."""


def choose_environment() -> Mapping[str, str]:
    """Return the variables of the deployment."""
    return resolve(os.environ, CHOICE.get(), say=lambda text: typer.echo(text, err=True))


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
