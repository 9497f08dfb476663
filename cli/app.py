"""The commands of ``tpu-provisioner``: their options. Other modules do the work."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.access import open_chosen
from cli.access.deployment import CHOICE, Choice
from cli.exit_codes import EPILOG, ExitCode, answering
from cli.explaining import explain
from cli.messages.replay import dead_letters, replay
from cli.planning.plan_run import run_plan, show_plan
from cli.printing import Format, Namespace, Output, Watch, as_data, open_console, print_data
from cli.printing import watch as show_again
from cli.usage.usage_command import usage
from shared import VERSION

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show the state of a deployment of TPU Provisioner, plan, replay messages, and find problems. "
    "The deployment is found by its project and its name, unless the environment describes it "
    "(TPU_PROVISIONER_*, for example of `make env`).",
    epilog=EPILOG,
)
app.add_typer(dead_letters, name="dead-letters", epilog=EPILOG)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 -- how typer calls it
    if wanted:
        typer.echo(f"tpu-provisioner {VERSION}")
        raise typer.Exit


@app.callback()
def tpu_provisioner(
    *,
    project: Annotated[
        str,
        typer.Option(metavar="ID", help="Project of the deployment. Default: that of gcloud or the credentials."),
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the deployment. Default: tpu-provisioner.")
    ] = "",
    cluster: Annotated[
        str,
        typer.Option(metavar="NAME", help="One cluster of it: its name, or projects/P/locations/L/clusters/C."),
    ] = "",
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Take the options that choose the deployment, for every command."""
    del version  # its callback has answered
    CHOICE.set(Choice(project=project, name=name, cluster=cluster))


@app.command(epilog=EPILOG)
@answering
def status(namespace: Namespace = "", output: Output = Format.TABLE, *, watch: Watch = False) -> ExitCode:
    """Show the node pools and what waits, with the plan for each.

    The plan is made as a tick makes it, and nothing is done. The exit code is 1 if something needs
    a person.

    Example: tpu-provisioner status -n team-a --watch
    """
    from cli.fleet.status import show_status  # noqa: PLC0415 -- Google's libraries take half a second

    deployment = open_chosen()
    return show_again(lambda: show_status(deployment, namespace, output), endless=watch)


@app.command(epilog=EPILOG)
@answering
def why(
    workload: Annotated[
        list[str],
        typer.Argument(metavar="WORKLOAD", help="NAME, NAMESPACE/NAME, KIND/NAME or KIND NAME, as for kubectl."),
    ],
    namespace: Namespace = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Show only what is newer: RFC 3339, or 15m, 2h, 3d.")
    ] = "",
    output: Output = Format.TABLE,
    *,
    watch: Watch = False,
) -> ExitCode:
    """Show what happened to one workload, in order of time.

    It is read from Events, pods, pools, GKE's operations and logs. The last lines are what the plan
    says now. The exit code is 1 if the workload is unknown, or needs a person.

    Of a pod it is the history of its workload.

    Example: tpu-provisioner why jobset/train -n team-a --since 2h
    """
    from cli.explanation.history_text import show_why  # noqa: PLC0415 -- half a second

    deployment = open_chosen()
    return show_again(lambda: show_why(deployment, workload, namespace, since, output), endless=watch)


@app.command(epilog=EPILOG)
@answering
def plan(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Manifest files or folders, or - for standard input.")
    ],
    zone: Annotated[
        str,
        typer.Option(metavar="ZONE", help="Zone of new pools. Default: the zone of the cluster in the settings."),
    ] = "",
    output: Output = Format.TABLE,
    *,
    price: Annotated[bool, typer.Option("--price/--no-price", help="Show list prices, or leave them out.")] = True,
) -> ExitCode:
    """Show which node pools a manifest would get.

    With an option before the command that chooses a deployment, its first cluster is asked. Without
    settings, the plan is for an invented cluster where each workload asks to be. The exit code is 1
    if a need would be refused, and 2 if a document cannot be read; the others are planned all the
    same.

    Example: tpu-provisioner plan job.yaml --zone us-east5-b
    """
    planned = run_plan(files, zone=zone, prices=price)
    show_plan(planned, output)
    return planned.code


@app.command(epilog=EPILOG)
@answering
def doctor(output: Output = Format.TABLE) -> ExitCode:
    """Check a deployment end to end, with fixes.

    The exit code is 1 if something is bad. Nothing is changed. Dead letters are not removed.

    Example: tpu-provisioner --project=my-project doctor
    """
    from cli.diagnosis.doctor import COLUMNS, Result, examine, print_findings  # noqa: PLC0415

    findings = examine(open_chosen())
    if output.for_programs:
        print_data([as_data(COLUMNS, each) for each in findings], output)
    else:
        print_findings(open_console(), findings)
    return ExitCode.FINDINGS if any(each.result is Result.BAD for each in findings) else ExitCode.FINE


@app.command(epilog=EPILOG)
@answering
def board(
    port: Annotated[
        int, typer.Option(help="Port on 127.0.0.1; 0: a free one.", metavar="NUMBER", min=0, max=65_535)
    ] = 0,
    every: Annotated[
        int, typer.Option(help="Seconds between two readings.", metavar="NUMBER", min=1, max=3600)
    ] = 5,
) -> ExitCode:
    """Serve one live page about the deployment, until Ctrl-C.

    Only this computer reaches it. The page reads with your credentials, and only while it is open.
    It changes nothing.

    Example: tpu-provisioner board --port 8080
    """
    from cli.board.site import Board, serve_board  # noqa: PLC0415 -- half a second

    serve_board(Board(open_chosen(), every=every), port=port, say=typer.echo)
    return ExitCode.FINE


app.command(epilog=EPILOG)(replay)
app.command(epilog=EPILOG)(explain)
app.command(epilog=EPILOG)(usage)
