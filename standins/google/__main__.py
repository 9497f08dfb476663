"""``python -m standins.google serve``: Google's APIs for one project, on 127.0.0.1."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from standins.kit.addresses import NotWritten, PortTaken, check_writable
from standins.kit.lifecycle import log_as_json, refuse

app = typer.Typer(
    help="GKE with node pools, quotas and faults but no machines (--cluster), Pub/Sub (--pubsub), and reading "
    "Cloud Logging (--logs), in one process. See standins/google/README.md.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
Port = Annotated[int, typer.Option(help="Port of REST and /admin; 0 picks a free one.", min=0, max=65535)]


@app.callback()
def main() -> None:
    """Keep `serve` a word of its own, as in the other stand-ins."""


@app.command("serve")
def serve_command(
    *,
    project: Annotated[str, typer.Option(help="Project id of the clusters and logs.")] = "demo",
    location: Annotated[str, typer.Option(help="Region or zone of the clusters.")] = "us-east5",
    cluster: Annotated[
        list[str] | None, typer.Option(help="Serves GKE, with this cluster; may be given several times.")
    ] = None,
    pubsub: Annotated[bool, typer.Option("--pubsub", help="Serves Pub/Sub.")] = False,
    logs: Annotated[
        Path | None,
        typer.Option(help="Serves the *.log files of this folder as logs.", exists=True, file_okay=False),
    ] = None,
    apis: Annotated[
        Path | None,
        typer.Option(
            help="Serves the APIs of these discovery documents below /apis/.", exists=True, file_okay=False
        ),
    ] = None,
    rest_port: Port = 0,
    grpc_port: Annotated[int, typer.Option(help="Port of Pub/Sub's gRPC; 0: a free one.", min=0, max=65535)] = 0,
    speed: Annotated[float, typer.Option(help="Virtual seconds for each real second.", min=0.001)] = 30.0,
    seed: Annotated[int, typer.Option(help="Same seed, same calls: same ids and timings.")] = 1,
    zone: Annotated[
        list[str] | None, typer.Option(help="Node zone of the clusters; default: of the location.")
    ] = None,
    kubernetes: Annotated[str, typer.Option(help="URL or kubeconfig of an API to register nodes in.")] = "",
    operations_topic: Annotated[
        str, typer.Option(help="Topic of this Pub/Sub for GKE's audit log: projects/P/topics/T.")
    ] = "",
    faults: Annotated[
        Path | None, typer.Option(help="YAML or JSON file of faults, capacity, policies, reservations.")
    ] = None,
    ports_file: Annotated[
        Path | None, typer.Option(help="Written once listening: {'rest': …, 'grpc': …}.", callback=check_writable)
    ] = None,
    manual_clock: Annotated[bool, typer.Option(help="Time stands still; POST /admin/clock moves it.")] = False,
    machines_everywhere: Annotated[bool, typer.Option(help="Each zone has each machine.")] = False,
) -> None:
    """Serve until SIGTERM."""
    # Imported late: `--help` and a wrong argument should not wait for the web framework.
    from standins.google.server import BadSettings, Settings, serve  # noqa: PLC0415 - see above

    log_as_json()
    settings = Settings(
        project=project,
        rest_port=rest_port,
        ports_file=ports_file,
        gke=bool(cluster),
        location=location,
        clusters=cluster or [],
        zones=zone or [],
        speed=speed,
        seed=seed,
        kubernetes=kubernetes,
        faults=faults,
        manual_clock=manual_clock,
        machines_everywhere=machines_everywhere,
        operations_topic=operations_topic,
        pubsub=pubsub,
        grpc_port=grpc_port,
        logs=logs,
        apis=apis,
    )
    try:
        asyncio.run(serve(settings))
    except (BadSettings, PortTaken, NotWritten) as error:
        refuse(error)


if __name__ == "__main__":
    app(prog_name="python -m standins.google")
