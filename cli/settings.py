"""What the command line reads from the environment: the functions' own settings, and where the other parts are.

The same variables as the functions read, so that both always talk about the same deployment; the few more are
Terraform's outputs under their own names. Everything is checked, all problems are told at once.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.configuration import PREFIX, convert_environment, read_settings
from shared.core.errors import Misconfigured
from shared.core.settings import ClusterSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

PUSHED = ("provision", "collect")
"""The functions that have a push subscription."""
DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """Where the parts of a deployment are that no function needs to know."""

    topic: str = ""
    """``projects/P/topics/T``: the exporter's events, and where dead letters are published again."""
    subscriptions: dict[str, str | None] = field(default_factory=dict)
    """JSON, as Terraform's output ``subscriptions``: provision, collect and dead_letters to their full names."""
    function_uris: dict[str, str] = field(default_factory=dict)
    """JSON, as Terraform's output ``function_uris``: function to its address."""
    exporter_url: str = ""
    """Where the exporter's /readyz answers, if it can be reached from here. Empty: only its Lease is looked at."""
    lease_namespace: str = "tpu-provisioner"
    """Namespace of the exporter's Lease."""
    lease_name: str = "tpu-provisioner-exporter"
    """Name of that Lease. Empty: the exporter runs without an election."""
    kubeconfig: str = ""
    """A kubeconfig file to reach the one cluster by, instead of its endpoint; for stand-ins with accounts."""
    logging_endpoint: str = "https://logging.googleapis.com"
    """Base URL of the Cloud Logging API. Empty: logs are not read."""
    monitoring_endpoint: str = "https://monitoring.googleapis.com"
    """Base URL of the Cloud Monitoring API. Empty: how long messages wait is not looked at."""


def read_environment(environ: Mapping[str, str]) -> tuple[Settings, OperatorSettings]:
    """Return both kinds of settings.

    Raises:
        Misconfigured: with every problem, each naming its variable; an unknown name with our prefix is one.
    """
    own, functions = _names(OperatorSettings), _names(Settings)
    problems = [
        _describe_unknown(name, own | functions)
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in own | functions
    ]
    found, wrong = convert_environment(OperatorSettings, {key: environ[key] for key in own & environ.keys()})
    problems += wrong
    try:
        settings = read_settings({key: environ[key] for key in functions & environ.keys()})
    except Misconfigured as error:
        raise Misconfigured((*problems, *error.problems)) from error
    if found and found.kubeconfig and len(settings.clusters) > 1:
        problems.append(
            f"{PREFIX}KUBECONFIG: serves one cluster, and {len(settings.clusters)} are named; leave it out"
        )
    if problems or found is None:
        raise Misconfigured(tuple(problems))
    return settings, found


def read_plan_settings(environ: Mapping[str, str], *, cluster: str, zone: str, guess: str = "") -> Settings:
    """Return the settings to plan with; without any cluster in the environment, for a made-up one.

    Args:
        environ: the environment.
        cluster: ``projects/P/locations/L/clusters/C`` to plan for; empty takes the first one of the environment.
        zone: replaces the cluster's zone; empty leaves it, and stays open for a made-up cluster.
        guess: the zone of a made-up cluster, when `zone` is empty.

    Raises:
        Misconfigured: a setting is wrong, or the environment does not have that cluster.
    """
    known = {key: environ[key] for key in _names(Settings) & environ.keys()}
    if f"{PREFIX}CLUSTERS" not in known:
        zone = zone or guess
        region = "-".join(zone.split("-")[:2])
        name = cluster or UNNAMED_CLUSTER.format(region or "LOCATION")
        _check_cluster(name)
        clusters = {name: ClusterSettings(endpoint="https://unknown", zone=zone or ANY_ZONE)}
        settings, problems = convert_environment(Settings, {**known, f"{PREFIX}CLUSTERS": "{}"})
        if settings is None:
            raise Misconfigured(tuple(problems))
        return dataclasses.replace(settings, clusters=clusters)
    settings, _ = read_environment(environ)
    chosen = cluster or next(iter(settings.clusters))
    if chosen not in settings.clusters:
        raise Misconfigured(
            (f"--cluster: {chosen!r} is not in {PREFIX}CLUSTERS; valid: {', '.join(settings.clusters)}",)
        )
    there = settings.clusters[chosen]
    return dataclasses.replace(settings, clusters={chosen: dataclasses.replace(there, zone=zone or there.zone)})


UNNAMED_CLUSTER = "projects/PROJECT/locations/{}/clusters/CLUSTER"
"""For a plan without settings; the location follows the zone."""
ANY_ZONE = "any"
_CLUSTER = re.compile(r"projects/[^/]+/locations/[^/]+/clusters/[^/]+")


def _check_cluster(name: str) -> None:
    if not _CLUSTER.fullmatch(name):
        raise Misconfigured((f"--cluster: {name!r} is not valid; valid: projects/P/locations/L/clusters/C",))


def find_subscription(own: OperatorSettings, name: str) -> str:
    """Return the full name of one subscription.

    Raises:
        Misconfigured: the environment does not say it.
    """
    found = own.subscriptions.get(name)
    if not found:
        raise Misconfigured(
            (f'{PREFIX}SUBSCRIPTIONS: names no {name!r}; valid: {{"{name}": "projects/P/subscriptions/S", …}}',)
        )
    return found


def find_topic(own: OperatorSettings) -> str:
    """Return the topic of the exporter's events.

    Raises:
        Misconfigured: the environment does not say it.
    """
    if not own.topic:
        raise Misconfigured((f"{PREFIX}TOPIC: is required here; valid: projects/PROJECT/topics/NAME",))
    return own.topic


def _names(kind: type[Settings | OperatorSettings]) -> set[str]:
    return {f"{PREFIX}{each.name.upper()}" for each in dataclasses.fields(kind)}


def _describe_unknown(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"did you mean {near[0]}?" if near else "docs/cli.md lists them"
    return f"{name}: is not a setting; {hint}"
