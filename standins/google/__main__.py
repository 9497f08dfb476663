"""``python -m standins.google serve``: Google's APIs for one project, on 127.0.0.1."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from standins.kit.addresses import NotWritten, PortTaken, check_writable
from standins.kit.lifecycle import log_as_json, refuse

app = typer.Typer(
    help="GKE with node pools, quotas and faults but no machines (--cluster), Pub/Sub (--pubsub), reading "
    "Cloud Logging (--logs), and further APIs (--apis), in one process. See standins/google/README.md.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
_FOLDER: dict[str, Any] = {"exists": True, "file_okay": False}
_PORT: dict[str, Any] = {"min": 0, "max": 65535}


@app.callback()
def main() -> None:
    """Keep `serve` a word of its own, as in the other stand-ins."""


@app.command("serve")
def serve_command(
    *,
    project: Annotated[str, typer.Option(help="Project id of the clusters and logs.")] = "demo",
    location: Annotated[str, typer.Option(help="Region or zone of the clusters.")] = "us-east5",
    clusters: Annotated[
        list[str] | None,
        typer.Option("--cluster", help="Serves GKE, with this cluster; may be given several times."),
    ] = None,
    pubsub: Annotated[bool, typer.Option("--pubsub", help="Serves Pub/Sub.")] = False,
    logs: Annotated[Path | None, typer.Option(help="Serves the *.log files of this folder.", **_FOLDER)] = None,
    apis: Annotated[
        Path | None, typer.Option(help="Serves the discovery documents of this folder below /apis/.", **_FOLDER)
    ] = None,
    rest_port: Annotated[int, typer.Option(help="Port of REST and /admin; 0 picks a free one.", **_PORT)] = 0,
    grpc_port: Annotated[int, typer.Option(help="Port of Pub/Sub's gRPC; 0 picks a free one.", **_PORT)] = 0,
    speed: Annotated[float, typer.Option(help="Virtual seconds for each real second.", min=0.001)] = 30.0,
    seed: Annotated[int, typer.Option(help="Same seed, same calls: same ids and timings.")] = 1,
    zones: Annotated[
        list[str] | None, typer.Option("--zone", help="Node zone of the clusters; default: of the location.")
    ] = None,
    kubernetes: Annotated[Path | None, typer.Option(help="Kubeconfig of an API to register nodes in.")] = None,
    operations_topic: Annotated[
        str, typer.Option(help="Topic of this Pub/Sub for GKE's audit log: projects/P/topics/T.")
    ] = "",
    faults: Annotated[Path | None, typer.Option(help="YAML or JSON file of faults and capacity.")] = None,
    ports_file: Annotated[
        Path | None, typer.Option(help="Written once listening: {'rest': …, 'grpc': …}.", callback=check_writable)
    ] = None,
    manual_clock: Annotated[bool, typer.Option(help="Time stands still; POST /admin/clock moves it.")] = False,
    machines_everywhere: Annotated[bool, typer.Option(help="Each zone has each machine.")] = False,
) -> None:
    """Serve until SIGTERM."""
    options = locals()
    # Imported late: `--help` and a wrong argument should not wait for the web framework.
    from standins.google.server import BadSettings, Settings, serve  # noqa: PLC0415 - see above

    log_as_json()
    try:
        asyncio.run(serve(Settings(**options)))
    except (BadSettings, PortTaken, NotWritten) as error:
        refuse(error)


if __name__ == "__main__":
    app(prog_name="python -m standins.google")
