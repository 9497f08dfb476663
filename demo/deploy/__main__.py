"""``python -m demo.deploy``: Terraform deploys, what was deployed runs a JobSet, and is destroyed.

Exit codes: 0 the loop has closed and nothing is left, 1 it has not, 2 something is missing or wrong
on this machine.
"""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated

import httpx
import typer

from demo.deploy.closed_loop import ClosedLoop, Contradiction
from demo.deploy.smoke_run import run_smoke
from demo.deploy.terraform_root import TerraformFailed
from demo.deploy.workload_run import run_workload
from demo.loop.demo_manifests import BadManifest, load
from demo.stack.clusters import ClusterKind, ClusterMissing, check_present
from demo.stack.layout import PROJECT_ROOT
from demo.stack.readiness import NotReady
from demo.stack.supervisor import ProcessDied
from standins.googlecloud.mock_program import VARIABLE, find_program
from standins.processes.shutdown import exit_on_sigterm
from terminal.wrong_arguments import Command, refuse

DEFAULT_MANIFEST = PROJECT_ROOT / "examples" / "v6e-two-slices.yaml"
ROOTS = PROJECT_ROOT / "infra" / "terraform"
_REMEDIES = {
    "terraform": "terraform: install 1.11 or newer from https://developer.hashicorp.com/terraform/install",
    "kubectl": "kubectl: https://kubernetes.io/docs/tasks/tools/ (for --cluster=real)",
    VARIABLE: "a mock of Google Cloud: standins/googlecloud/build.sh FOLDER, and then: "
    f"export {VARIABLE}=FOLDER/mock-google-cloud",
}

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def demo(
    manifests: Annotated[
        list[str] | None, typer.Argument(help="Manifests with JobSets. Default: a two-slice v6e JobSet.")
    ] = None,
    speed: Annotated[float, typer.Option(help="Virtual seconds per real second.", min=0.1, max=1000)] = 30.0,
    terraform: Annotated[
        Path, typer.Option(help="The folder with the Terraform roots.", exists=True, file_okay=False)
    ] = ROOTS,
    cluster: Annotated[
        ClusterKind,
        typer.Option(
            help="The Kubernetes: embedded, or the real control plane, which checks accounts and rights."
        ),
    ] = ClusterKind.EMBEDDED,
) -> None:
    """Deploy, run, destroy, and verify that nothing is left."""
    exit_on_sigterm()
    try:
        documents = load(manifests or [str(DEFAULT_MANIFEST)])
        check_present(cluster)
    except (BadManifest, ClusterMissing) as error:
        refuse(error)
    program = find_program()
    wanted = ("terraform", "kubectl") if cluster is ClusterKind.REAL else ("terraform",)
    missing = [_REMEDIES[each] for each in wanted if not shutil.which(each)]
    missing += [] if program else [_say_missing_program()]
    if program is None or missing:
        refuse("missing on this machine:\n  - " + "\n  - ".join(missing))
    home = Path(tempfile.mkdtemp(prefix="tpu-provisioner-deploy-"))
    say = _Progress()
    try:
        with ClosedLoop(home, program=program, roots=terraform, say=say, speed=speed, cluster=cluster) as loop:
            loop.open_project()
            loop.deploy()
            loop.start()
            problems = run_workload(loop, documents, say)
            if shutil.which("gcloud"):
                problems = problems or run_smoke(loop, say)
            else:
                say("NOT RUN: the build's smoke test, for want of: gcloud")
            problems += loop.destroy()
    except (Contradiction, TerraformFailed, NotReady, ProcessDied, BadManifest, httpx.HTTPError) as error:
        problems = [str(error)]
    if problems:
        typer.echo("The loop has not closed:\n  - " + "\n  - ".join(problems), err=True)
        typer.echo(f"The logs of every process are in {home}", err=True)
        raise typer.Exit(1)
    shutil.rmtree(home, ignore_errors=True)
    say("the loop has closed: deployed, run, destroyed, and nothing is left")


def _say_missing_program() -> str:
    """Return how to get the mock of Google Cloud, and what is wrong if the variable has a value."""
    given = os.environ.get(VARIABLE)
    wrong = f"{VARIABLE}: is not an executable file (got {given!r}); valid: the path of " if given else ""
    return f"{wrong}{_REMEDIES[VARIABLE]}"


class _Progress:
    """Writes each step with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        typer.echo(f"{time.monotonic() - self._began:6.1f} s  {text}")


if __name__ == "__main__":
    app()
