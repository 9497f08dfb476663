"""The buttons of the local stack: faults, crashes and examples."""

import os
import signal
from contextlib import closing
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import httpx

from cli.board.acts import Act, ActFailed
from demo.loop.applying import Applier
from demo.loop.manifests import BadManifest, load
from demo.stack.background import NothingRuns, read_state
from demo.stack.commands import Addresses
from demo.stack.layout import PROJECT_ROOT, Layout

EXPORTER = "exporter"
EXAMPLES = ("v6e-two-slices", "v5e-single-host", "unsatisfiable-three-chips")
STOCKOUT = {"switch": "outcome", "kind": "stockout", "seconds": 120, "count": 1}
LOST_REPLY = {"switch": "lose_reply", "method": "CreateNodePool", "count": 1}
_CALL_SECONDS_MAX = 20.0


def list_acts(layout: Layout, addresses: Addresses) -> list[Act]:
    """Return the buttons of a stack that runs in the background."""
    gke = addresses.gke_rest
    return [
        *(
            Act(
                name=f"apply-{example}",
                label=f"Apply {example}",
                about=f"Creates the JobSet of examples/{example}.yaml under a new name.",
                perform=partial(apply_example, addresses.kubeconfig, example),
            )
            for example in EXAMPLES
        ),
        Act(
            name="stockout",
            label="Stockout",
            about="The next pool that is created fails: there is no capacity.",
            perform=partial(add_fault, gke, STOCKOUT, "the next creation ends with a stockout"),
        ),
        Act(
            name="lost-reply",
            label="Lost reply",
            about="GKE performs the next create call, and its answer is lost.",
            perform=partial(add_fault, gke, LOST_REPLY, "the answer to the next create call is lost"),
        ),
        Act(
            name="clear-faults",
            label="Clear the faults",
            about="Removes all faults of the fake GKE, also those of FAULTS=….",
            perform=partial(clear_faults, gke),
        ),
        Act(
            name="kill-exporter",
            label="Kill the exporter",
            about="Ends its process as a crash does. The supervisor starts it again.",
            perform=partial(kill_exporter, layout),
        ),
    ]


def apply_example(kubeconfig: str, example: str) -> str:
    """Create the objects of an example, its JobSet under a new name.

    Raises ActFailed: the cluster refused it, or did not answer.
    """
    documents = load([str(PROJECT_ROOT / "examples" / f"{example}.yaml")])
    renamed = [replace(each, body=_rename(each.body)) if each.is_workload else each for each in documents]
    try:
        with closing(Applier(kubeconfig)) as applier:
            applied = applier.apply(renamed)
    except (BadManifest, httpx.HTTPError) as error:
        raise ActFailed(str(error)) from error
    return f"created {', '.join(f'{each.namespace}/{each.name}' for each in applied.created if each.is_workload)}"


def _rename(body: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of which the cluster makes the name, so that it can be applied again."""
    renamed = deepcopy(body)
    name = renamed["metadata"].pop("name", None)
    if name is not None:
        renamed["metadata"]["generateName"] = f"{name}-"
    return renamed


def add_fault(gke: str, fault: dict[str, Any], told: str) -> str:
    """Add one fault to the fake GKE. Raises ActFailed: it refused the fault, or did not answer."""
    _call("POST", gke, json=fault)
    return told


def clear_faults(gke: str) -> str:
    """Remove all faults of the fake GKE. Raises ActFailed: it did not answer."""
    _call("DELETE", gke)
    return "the fake GKE has no faults"


def kill_exporter(layout: Layout) -> str:
    """End the exporter as a crash does.

    Raises ActFailed: no stack runs, or its exporter does not run now.
    """
    try:
        processes = read_state(layout).processes
    except NothingRuns as error:
        raise ActFailed(str(error)) from error
    running = next((each for each in processes if each.name == EXPORTER and each.exit_code is None), None)
    if running is None:
        raise ActFailed("the exporter does not run now")
    try:
        os.kill(running.pid, signal.SIGKILL)
    except ProcessLookupError as error:
        raise ActFailed("the exporter does not run now") from error
    return "the exporter is killed; the supervisor starts it again"


def _call(method: str, gke: str, **body: Any) -> None:
    try:
        httpx.request(method, f"{gke}/admin/faults", timeout=_CALL_SECONDS_MAX, **body).raise_for_status()
    except httpx.HTTPError as error:
        raise ActFailed(f"the fake GKE: {error}") from error
