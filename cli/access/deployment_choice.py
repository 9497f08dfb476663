"""Opens the deployment that the command line, the environment and the machine name."""

from __future__ import annotations

import os
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from cli.access.contexts import Choice, complete_choice, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cli.access.operator_access import Deployment

CHOICE = ContextVar("choice", default=Choice())  # noqa: B039 -- it is frozen
"""What the command line says of the deployment."""


def choose_environment(*, always: bool = True) -> Mapping[str, str]:
    """Return the variables of the deployment.

    Without `always`, those of the environment alone unless the command line chooses one.

    Raises:
        BadInput: the choice does not name one cluster, or a file cannot be read.
    """
    choice = CHOICE.get()
    if not always and not choice.given:
        return os.environ
    return resolve(os.environ, choice, say=lambda text: typer.echo(text, err=True))


def open_deployment(environ: Mapping[str, str]) -> Deployment:
    """Return the deployment. Its libraries take half a second to load, and a plan needs none."""
    from cli.access.operator_access import open_deployment as open_now  # noqa: PLC0415 -- see above

    return open_now(environ)


def open_chosen() -> Deployment:
    """Return the chosen deployment."""
    found = open_deployment(choose_environment())
    given = complete_choice(os.environ, CHOICE.get()).given
    return replace(found, chosen=tuple(found.ports.clusters)) if given else found
