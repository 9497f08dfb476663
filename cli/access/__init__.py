"""Which deployment a command is about, with which settings, and how it is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.access.deployment import choose_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cli.access.connections import Deployment


def open_chosen() -> Deployment:
    """Return the chosen deployment."""
    return open_deployment(choose_environment())


def open_deployment(environ: Mapping[str, str]) -> Deployment:
    """Return the deployment. Its libraries take half a second to load, and a plan needs none."""
    from cli.access import connections  # noqa: PLC0415 -- see above

    return connections.open_deployment(environ)
