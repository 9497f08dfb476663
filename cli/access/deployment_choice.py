"""Which deployment a command is about: that of the environment, or of a project and a name."""

from __future__ import annotations

import json
import os
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from cli.exit_codes import BadInput
from shared.settings import Credentials, name_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cli.access.operator_access import Deployment

CLUSTERS = name_variable("clusters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the command line says of the deployment; empty for what it does not say."""

    project: str = ""
    name: str = ""
    cluster: str = ""
    """A name, or ``projects/P/locations/L/clusters/C``."""


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


def resolve(environ: Mapping[str, str], choice: Choice, *, say: Callable[[str], None]) -> dict[str, str]:
    """Return the variables of the chosen deployment."""
    found = dict(environ)
    if CLUSTERS not in environ:
        found = _find(environ, choice, say) | found
    elif choice.project or choice.name:
        option = "--project" if choice.project else "--name"
        raise BadInput(f"{option}: contradicts {CLUSTERS}, which is set; valid: one of the two")
    return found | _narrow(found.get(CLUSTERS, ""), choice.cluster)


def _find(environ: Mapping[str, str], choice: Choice, say: Callable[[str], None]) -> dict[str, str]:
    # Google's libraries take half a second to load, and an environment may say it all.
    from cli.access.discovery import NAME, describe_deployment, find_default_project, list_services  # noqa: PLC0415
    from shared.edges.google import GoogleAccount, GoogleSession  # noqa: PLC0415

    anonymous = environ.get(name_variable("credentials")) == Credentials.ANONYMOUS
    account = GoogleAccount(Credentials.ANONYMOUS if anonymous else Credentials.GOOGLE)
    endpoint = environ.get(name_variable("run_endpoint")) or "https://run.googleapis.com"
    project = choice.project or environ.get(name_variable("project")) or find_default_project()
    name = choice.name or environ.get(name_variable("name")) or NAME
    services = list_services(GoogleSession(endpoint, account), project)
    found = describe_deployment(services, project, name)
    say(f"deployment: {name} of the project {project}")
    return found


def _narrow(clusters: str, cluster: str) -> dict[str, str]:
    """Return the setting of the clusters with the chosen one only; nothing without a choice."""
    try:
        known: dict[str, Any] = dict(json.loads(clusters))
    except (ValueError, TypeError):
        return {}  # the reader of the settings says what is wrong
    if not cluster:
        return {}
    found = {name: each for name, each in known.items() if cluster in (name, name.rpartition("/")[2])}
    if not found:
        raise BadInput(f"--cluster={cluster}: is not in {CLUSTERS}; valid: {', '.join(known) or 'none'}")
    return {CLUSTERS: json.dumps(found)}


def open_deployment(environ: Mapping[str, str]) -> Deployment:
    """Return the deployment. Its libraries take half a second to load, and a plan needs none."""
    from cli.access.operator_access import open_deployment as open_now  # noqa: PLC0415 -- see above

    return open_now(environ)


def open_chosen() -> Deployment:
    """Return the chosen deployment."""
    found = open_deployment(choose_environment())
    return replace(found, chosen=tuple(found.ports.clusters)) if CHOICE.get().cluster else found
