"""What a stack needs before it starts: the chosen Kubernetes, and a file of faults.

How either is started is in `demo.stack.commands`, how it is built in `standins.controlplane`.
"""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from standins.controlplane.building import BuildMissing, find_build
from standins.controlplane.programs import RecipeBroken, choose_products
from standins.google.gke.faults.scenario import load_scenario


class ClusterKind(StrEnum):
    """The Kubernetes under a stack."""

    EMBEDDED = "embedded"
    """Our own, in one Python process: starts in a second, needs nothing, is an opinion."""
    REAL = "real"
    """Kubernetes and JobSet themselves, as plain processes (docs/local-stack.md)."""


class ClusterMissing(Exception):
    """The chosen Kubernetes is not built; the text names the command that builds it."""


EMBEDDED_KINDS = ("JobSet", "Job", "Pod")
"""The kinds of workloads that the embedded cluster runs."""
_CONTROLLERS = {
    "LeaderWorkerSet": "lws-0.7",
    **dict.fromkeys(("RayCluster", "RayJob", "RayService"), "kuberay-1.6"),
}
"""The further controller of each kind that neither Kubernetes nor JobSet has."""


def choose_further(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the further controllers that some kinds need, each once."""
    return tuple(dict.fromkeys(_CONTROLLERS[each] for each in kinds if each in _CONTROLLERS))


def check_present(kind: ClusterKind, controllers: tuple[str, ...] = ()) -> None:
    """Return quietly when the chosen Kubernetes can be started.

    Raises ClusterMissing: its programs have not been built, or are damaged.
    """
    if kind is not ClusterKind.REAL:
        return
    try:
        for product in choose_products(controllers):
            find_build(product)
    except (BuildMissing, RecipeBroken) as error:
        raise ClusterMissing(str(error)) from error


def find_faults(path: str) -> str:
    """Return the full path of a file of faults; no path stays empty.

    Raises ScenarioError: the file cannot be read, or something in it is wrong; the text says what.
    """
    if not path:
        return ""
    load_scenario(Path(path))
    return str(Path(path).resolve())
