"""One run of the demo: reads manifests, starts a stack, follows them on it, says how it ended."""

import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import httpx
from rich.console import Console

from cli.board.site import render_page
from cli.printing import count
from demo.feed import Outcome, View, print_outcome
from demo.following import Run, RunOptions
from demo.manifests import BadManifest, Document, load
from demo.settings import PROJECT_ROOT, BadSettings, ClusterKind, Layout, StackSettings, check_settings
from demo.stack import Stack
from standins.kit.lifecycle import refuse
from standins.kit.processes import NotReady, ProcessDied

DEFAULT_MANIFEST = PROJECT_ROOT / "examples" / "v6e-two-slices.yaml"
_PLAIN_WIDTH = 200
_EMBEDDED = ("JobSet", "Job", "Pod")  # the kinds of workloads that the embedded cluster runs
_CONTROLLERS = {
    "LeaderWorkerSet": "lws-0.7",
    **dict.fromkeys(("RayCluster", "RayJob", "RayService"), "kuberay-1.6"),
}
"""The further controller of each kind that neither Kubernetes nor JobSet has."""


def run_manifests(paths: list[str], settings: StackSettings, options: RunOptions, report: str) -> bool:
    """Run manifests on a stack of their own; return whether the end is verified.

    Ends the command with code 2 when the input cannot be run, with 1 when the stack fails.
    """
    console = Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH)
    try:
        documents = load(paths or [str(DEFAULT_MANIFEST)])
        check_report(report)
        controllers = choose_controllers(documents, settings.cluster)
        settings = check_settings(replace(settings, controllers=controllers))
        outcome = _run(View(console), documents, settings, options)
    except (BadManifest, BadSettings) as error:
        refuse(error)
    print_outcome(console, outcome)
    if report:
        Path(report).write_bytes(render_page(outcome.page))
        console.print(f"wrote {report}", highlight=False)
    return not outcome.problems


def check_report(path: str) -> None:
    """Accept a path to which the report can be written, or none."""
    folder = Path(path).parent
    if path and (not path.endswith(".html") or not folder.is_dir()):
        problem = f"cannot be written (got {path!r}); valid: a path in a folder, ending in .html"
        raise BadSettings(f"--report: {problem}")


def choose_controllers(documents: Iterable[Document], cluster: ClusterKind) -> tuple[str, ...]:
    """Return the further controllers that some documents need, each once.

    Raises BadManifest: the embedded cluster has no controller for any of them.
    """
    kinds = dict.fromkeys(each.kind for each in documents if each.is_workload)
    if cluster is ClusterKind.REAL:
        return tuple(dict.fromkeys(_CONTROLLERS[each] for each in kinds if each in _CONTROLLERS))
    if kinds.keys().isdisjoint(_EMBEDDED):
        valid = f"{', '.join(_EMBEDDED)}; or CLUSTER=real (--cluster=real)"
        raise BadManifest(f"kind: the embedded cluster does not run {', '.join(kinds)}; valid: {valid}")
    return ()


def _run(view: View, documents: list[Document], settings: StackSettings, options: RunOptions) -> Outcome:
    """Return the outcome of a run; the files of its stack stay where it is not verified."""
    home = Path(tempfile.mkdtemp(prefix="tpu-provisioner-demo-"))
    layout, keeps = Layout(home), False
    logs = f"{layout.logs} and {layout.control_plane_logs}" if settings.is_real else str(layout.logs)
    try:
        names = [f"{each.kind} {each.name}" for each in documents if each.is_workload]
        what = names[0] if len(names) == 1 else count(len(names), "workload")
        view.say(f"running {what} on a local cloud, where GKE is {settings.speed:g} times as fast")
        with Stack(home, settings, say=view.say) as stack, view:
            outcome = Run(stack, view, options).perform(documents)
        keeps = bool(outcome.problems)
    except (ProcessDied, NotReady, httpx.HTTPError) as error:
        keeps = True
        sys.stderr.write(f"The local stack failed: {error}\nIts logs are in {logs}\n")
        raise SystemExit(1) from error
    finally:
        if not keeps:
            shutil.rmtree(home, ignore_errors=True)
    if keeps:
        view.say(f"The logs of every process are in {logs}")
    return outcome
