"""Chooses the Kubernetes of a stack: the embedded one, or the real control plane if built.

What lives here: the choice, and the look for the programs before anything is started. What does
not: how either is started (`demo.stack.commands`) and built (`standins.controlplane`).
"""

from enum import StrEnum

from standins.controlplane.building import find_build
from standins.controlplane.cache import BuildBroken, default_cache
from standins.controlplane.recipe import RecipeBroken


class ClusterKind(StrEnum):
    """The Kubernetes under a stack."""

    EMBEDDED = "embedded"
    """Our own, in one Python process: starts in a second, needs nothing, is an opinion."""
    REAL = "real"
    """Kubernetes and JobSet themselves, as plain processes (docs/control-plane.md)."""


class ClusterMissing(Exception):
    """The chosen Kubernetes is not built; the text names the command that builds it."""


def check_present(kind: ClusterKind) -> None:
    """Return quietly when the chosen Kubernetes can be started.

    Raises ClusterMissing: its programs have not been built, or are damaged.
    """
    if kind is not ClusterKind.REAL:
        return
    try:
        find_build(default_cache())
    except (BuildBroken, RecipeBroken) as error:
        raise ClusterMissing(
            f"the real control plane is not built; build it, once, with: make controlplane\n({error})"
        ) from error
