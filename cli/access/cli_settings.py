"""The settings of the command line: those of the functions, and the addresses of other parts.

The functions read the same variables, so both always describe the same deployment. All names in
Pub/Sub and in the logs follow from the deployment's name, as in Terraform.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from cli.exit_codes import BadInput
from shared.model.errors import Misconfigured
from shared.settings import (
    CLUSTER,
    OPTIONAL_URL,
    URL,
    Settings,
    describe_problem,
    matching,
    name_variable,
    read_all,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
ZONE = matching(r"[a-z]+-[a-z]+[0-9]+-[a-z0-9]+", "a zone like us-east5-b")


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
    lease_namespace: str = "tpu-provisioner"
    """Namespace of the exporter's Lease."""
    lease_name: str = "tpu-provisioner-exporter"
    """Name of that Lease. Empty: the exporter runs without an election."""
    kubeconfig: str = ""
    """Kubeconfig file for the one cluster, used in place of its endpoint; for stand-ins with
    accounts."""
    context: str = ""
    """The context of that kubeconfig. Empty: its current one."""
    logging_endpoint: Annotated[str, OPTIONAL_URL] = "https://logging.googleapis.com"
    """Base URL of the Cloud Logging API. Empty: logs are not read."""


def accepts(rule: Meta, text: str) -> bool:
    """Return whether a text has the form that a rule asks for."""
    return re.search(rule.pattern or "", text) is not None


def read_environment(environ: Mapping[str, str]) -> tuple[Settings, OperatorSettings]:
    """Return the functions' settings and those of the command line."""
    settings, own = read_all(environ, Settings, OperatorSettings)
    if own.kubeconfig and len(settings.clusters) > 1:
        what = f"reaches one cluster, but {name_variable('clusters')} names {len(settings.clusters)}"
        raise Misconfigured((describe_problem(name_variable("kubeconfig"), what, valid="leave it empty"),))
    return settings, own


def read_plan_settings(environ: Mapping[str, str], *, cluster: str, zone: str) -> Settings:
    """Return the settings to plan with; an environment without a cluster gets an invented one."""
    variable = name_variable("clusters")
    for option, text, rule in (("--zone", zone, ZONE), ("--cluster", cluster, CLUSTER)):
        if text and not accepts(rule, text):
            raise BadInput(describe_problem(option, "is not valid", text, rule.description or ""))
    if variable not in environ:
        name = cluster or UNNAMED_CLUSTER.format(zone.rpartition("-")[0] or ANY_REGION)
        location = name.split("/")[3]
        zone = zone or location + ANY_ZONE * (not accepts(ZONE, location))
        invented = {name: {"endpoint": "https://unknown", "zone": zone}}
        return read_environment({**environ, variable: json.dumps(invented)})[0]
    settings, _ = read_environment(environ)
    chosen = cluster or next(iter(settings.clusters))
    if chosen not in settings.clusters:
        valid = ", ".join(settings.clusters)
        raise BadInput(describe_problem("--cluster", f"is not in {variable}", chosen, valid))
    there = settings.clusters[chosen]
    return replace(settings, clusters={chosen: replace(there, zone=zone or there.zone)})


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


def list_pushed(functions: Sequence[str] = ()) -> list[str]:
    """Return the push subscriptions of some functions, or of all."""
    return [name for name in PUSHED if not functions or name.removesuffix(ENDS) in functions]
