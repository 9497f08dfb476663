"""The commands of ``tpu-provisioner``: options in, one call, answer out. What they do stands in other modules."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from cli import replaying
from cli.deployment import open_deployment
from cli.doctor import examine
from cli.endings import EPILOG, Ending, end_with, told
from cli.findings import Result, print_findings
from cli.manifests import read_manifests
from cli.plan import find_zone, print_plan, summarize
from cli.plan import plan as plan_manifests
from cli.printing import Format, choose_format, open_console, print_data
from cli.settings import read_plan_settings
from cli.status import print_status, read_status
from cli.why import add_present, parse_workload, print_story
from cli.why import tell as tell_story

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look at a TPU Provisioner, plan, replay, and find what is wrong. "
    'Settings come from TPU_PROVISIONER_* as the functions read them; on a laptop: eval "$(make -s env)".',
    epilog=EPILOG,
)

Output = Annotated[Format, typer.Option("--output", "-o", help="How to print it.")]
AsJson = Annotated[bool, typer.Option("--json", help="The same as -o json.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Only workloads of this namespace.")]


class Function(StrEnum):
    """The functions that messages are pushed to."""

    PROVISION = "provision"
    COLLECT = "collect"


@app.command(epilog=EPILOG)
def status(namespace: Namespace = "", output: Output = Format.TABLE, *, as_json: AsJson = False) -> None:
    """Show every node pool with its owner, and every slice that waits, each with what is decided and why.

    Ends with 1 when something needs a person.
    """
    with told():
        form = choose_format(output, as_json=as_json)
        found = read_status(open_deployment(os.environ).ports, namespace=namespace)
    if form.for_programs:
        print_data(found.as_data(), form)
    else:
        print_status(open_console(), found, wide=form is Format.WIDE)
    for error in found.errors:
        typer.echo(f"error: {error}", err=True)
    end_with(Ending.UNREACHABLE if found.errors else Ending.FINDINGS if found.stuck else Ending.FINE)


@app.command(epilog=EPILOG)
def why(
    workload: Annotated[str, typer.Argument(help="NAME or NAMESPACE/NAME of a workload of any kind.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Its namespace.")] = "",
    output: Output = Format.TABLE,
    *,
    as_json: AsJson = False,
) -> None:
    """Tell the story of one workload in order of time: Events, pods, pools, GKE's operations and logs.

    Ends with 1 when nothing is known of it, or one of its slices needs a person.
    """
    with told():
        form = choose_format(output, as_json=as_json)
        home, name = parse_workload(workload, namespace)
        deployment = open_deployment(os.environ)
        stories = [tell_story(deployment, cluster, home, name) for cluster in deployment.ports.clusters]
        for story in stories:
            add_present(story, deployment)
    known = [story for story in stories if story.known]
    if form.for_programs:
        print_data([story.as_data() for story in known], form)
    console = open_console()
    for story in known:
        if not form.for_programs:
            print_story(console, story, several=len(deployment.ports.clusters) > 1, wide=form is Format.WIDE)
    if not known:
        typer.echo(f"nothing is known of a workload {home}/{name}", err=True)
        for unread in (each for story in stories for each in story.unread):
            typer.echo(f"not read: {unread}", err=True)
    stuck = any(story.now.stuck for story in known)
    end_with(Ending.FINE if known and not stuck else Ending.FINDINGS)


@app.command(epilog=EPILOG)
def plan(
    files: Annotated[list[str], typer.Argument(help="Manifests: files, folders, or - for standard input.")],
    cluster: Annotated[
        str,
        typer.Option(help="projects/P/locations/L/clusters/C to plan for. Default: the first of the settings."),
    ] = "",
    zone: Annotated[str, typer.Option(help="Zone of new pools, instead of the cluster's setting.")] = "",
    output: Output = Format.TABLE,
    *,
    as_json: AsJson = False,
) -> None:
    """Say which node pools a manifest would get, before it is applied. Asks no cluster.

    Without settings it plans for a made-up cluster, whose zone is open. Ends with 1 when a slice would be refused.
    """
    with told():
        form = choose_format(output, as_json=as_json)
        found = read_manifests(files)
        guess = "" if cluster else find_zone(found.workloads)
        settings = read_plan_settings(os.environ, cluster=cluster, zone=zone, guess=guess)
        planned = plan_manifests(found.workloads, next(iter(settings.clusters)), settings)
    if form.for_programs:
        slices = [each.as_data() for each in planned]
        print_data({"slices": slices, "summary": summarize(planned), "not_planned": found.others}, form)
    else:
        print_plan(open_console(), planned, found.others)
    end_with(Ending.FINDINGS if any(each.refused for each in planned) else Ending.FINE)


@app.command(epilog=EPILOG)
def replay(
    since: Annotated[
        str, typer.Option(help="Push again what was published since then: RFC 3339, or 15m, 2h, 3d.")
    ] = "",
    snapshot: Annotated[str, typer.Option(help="Put the subscriptions back to this snapshot.")] = "",
    reason: Annotated[
        list[str] | None, typer.Option(help="Only dead letters of this reason. May be repeated.")
    ] = None,
    function: Annotated[
        list[Function] | None, typer.Option(help="Only messages of this function. May be repeated.")
    ] = None,
    most: Annotated[int, typer.Option("--max", help="Dead letters at most.", min=1, max=100_000)] = 1000,
    output: Output = Format.TABLE,
    *,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="Publish dead letters again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be decided now.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let messages be answered again: by time, from a snapshot, or dead letters. Always safe.

    A message is a hint to look; what is decided depends on what is there now. Give exactly one of --since,
    --snapshot and --dead-letters. Ends with 1 when nothing can come back, or --dry-run foresees a refusal.
    """
    with told():
        request = replaying.Request(
            since=since,
            snapshot=snapshot,
            dead_letters=dead_letters,
            reasons=tuple(reason or ()),
            functions=tuple(str(each) for each in function or ()),
            most=most,
            dry_run=dry_run,
        )
        replaying.check(request)
        form = choose_format(output, as_json=as_json)
        ending = replaying.run(request, open_deployment(os.environ), open_console(), form)
    end_with(ending)


@app.command(epilog=EPILOG)
def doctor(output: Output = Format.TABLE, *, as_json: AsJson = False) -> None:
    """Check a deployment end to end, and name the command that mends each finding.

    Ends with 1 when something is bad. Nothing is changed; dead letters are looked at and stay.
    """
    with told():
        form = choose_format(output, as_json=as_json)
        findings = examine(open_deployment(os.environ))
    if form.for_programs:
        print_data([each.as_data() for each in findings], form)
    else:
        print_findings(open_console(), findings)
    end_with(Ending.FINDINGS if any(each.result is Result.BAD for each in findings) else Ending.FINE)
