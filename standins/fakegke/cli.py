"""The command line: serve the fake."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from standins.processes.free_ports import PortTaken
from standins.processes.private_files import NotWritten, check_writable
from standins.processes.shutdown_noise import silence_cancelled_connects
from standins.processes.urls import check_url
from terminal.wrong_arguments import Commands, refuse

app = typer.Typer(
    cls=Commands,
    help="A fake GKE control plane: node pools, operations, quotas and faults, without machines. "
    "See standins/fakegke/README.md.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def main() -> None:
    """Keep `serve` a word of its own, as in the other stand-ins."""


@app.command("serve")
def serve_command(
    *,
    project: Annotated[str, typer.Option(help="Project id of the clusters.")],
    location: Annotated[str, typer.Option(help="Region or zone of the clusters.")],
    cluster: Annotated[list[str], typer.Option(help="Name of a cluster that exists; may be given several times.")],
    rest_port: Annotated[
        int, typer.Option(help="Port of REST and /admin; 0 picks a free one.", min=0, max=65535)
    ] = 0,
    speed: Annotated[float, typer.Option(help="Virtual seconds for each real second.", min=0.001)] = 30.0,
    seed: Annotated[int, typer.Option(help="Same seed, same calls: same ids and timings.")] = 1,
    zone: Annotated[
        list[str] | None, typer.Option(help="Node zone of the clusters; default: of the location.")
    ] = None,
    kubernetes: Annotated[str, typer.Option(help="URL or kubeconfig of an API to register nodes in.")] = "",
    pubsub: Annotated[
        str, typer.Option(help="REST address of a Pub/Sub to write the audit log to.", callback=check_url)
    ] = "",
    operations_topic: Annotated[str, typer.Option(help="Its topic for that: projects/P/topics/T.")] = "",
    faults: Annotated[
        Path | None, typer.Option(help="YAML or JSON file of faults, capacity, policies, reservations.")
    ] = None,
    ports_file: Annotated[
        Path | None, typer.Option(help="Written once listening: {'rest': …}.", callback=check_writable)
    ] = None,
    manual_clock: Annotated[bool, typer.Option(help="Time stands still; POST /admin/clock moves it.")] = False,
    machines_everywhere: Annotated[bool, typer.Option(help="Each zone has each machine.")] = False,
) -> None:
    """Serve REST on 127.0.0.1 until SIGTERM."""
    # Imported late: `--help` and a wrong argument should not wait for the web framework.
    from standins.fakegke.server import BadSettings, Settings, serve  # noqa: PLC0415 - see above

    settings = Settings(
        project=project,
        location=location,
        clusters=cluster,
        rest_port=rest_port,
        speed=speed,
        seed=seed,
        zones=zone or [],
        kubernetes=kubernetes,
        pubsub=pubsub,
        operations_topic=operations_topic,
        faults=faults,
        ports_file=ports_file,
        manual_clock=manual_clock,
        machines_everywhere=machines_everywhere,
    )
    try:
        silence_cancelled_connects()
        asyncio.run(serve(settings))
    except (BadSettings, PortTaken, NotWritten) as error:
        refuse(error)
