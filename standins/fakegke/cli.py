"""The command line: serve the fake, script its faults, look at its pools and calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
import yaml
from rich.console import Console
from rich.table import Table

from standins.fakegke.faults.fault_rules import SWITCHES, parse_fault
from standins.processes.free_ports import PortTaken
from standins.processes.private_files import NotWritten, check_writable
from standins.processes.shutdown_noise import silence_cancelled_connects
from standins.processes.urls import check_url
from terminal.wrong_arguments import Commands, refuse

app = typer.Typer(
    cls=Commands,
    help="A fake GKE control plane: node pools, operations, quotas and faults, without machines. "
    "See docs/fake-gke.md.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
fault_app = typer.Typer(help="Script faults of a running fake.", no_args_is_help=True)
app.add_typer(fault_app, name="fault")

Url = Annotated[
    str,
    typer.Option(envvar="FAKEGKE_URL", help="REST address of a running fake, or the path of its ports file."),
]


@app.command("serve")
def serve_command(
    *,
    project: Annotated[str, typer.Option(help="Project id of the clusters.")],
    location: Annotated[str, typer.Option(help="Region or zone of the clusters.")],
    cluster: Annotated[list[str], typer.Option(help="Name of a cluster that exists; may be given several times.")],
    rest_port: Annotated[
        int, typer.Option(help="Port of REST v1, v1beta1 and /admin; 0 picks a free one.", min=0, max=65535)
    ] = 0,
    grpc_port: Annotated[int, typer.Option(help="Port of gRPC; 0 picks a free one.", min=0, max=65535)] = 0,
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
    answers: Annotated[
        Path | None,
        typer.Option(
            envvar="FAKEGKE_ANSWERS", help="Report of tpu-provisioner conformance: answer as that project did."
        ),
    ] = None,
    ports_file: Annotated[
        Path | None, typer.Option(help="Written once listening: {'rest': …, 'grpc': …}.", callback=check_writable)
    ] = None,
    manual_clock: Annotated[bool, typer.Option(help="Time stands still; POST /admin/clock moves it.")] = False,
    machines_everywhere: Annotated[bool, typer.Option(help="Each zone has each machine.")] = False,
) -> None:
    """Serve gRPC and REST on 127.0.0.1 until SIGTERM."""
    # Imported late: the other commands should not wait for gRPC and the web framework.
    from standins.fakegke.server import BadSettings, Settings, serve  # noqa: PLC0415 - see above

    settings = Settings(
        project=project,
        location=location,
        clusters=cluster,
        rest_port=rest_port,
        grpc_port=grpc_port,
        speed=speed,
        seed=seed,
        zones=zone or [],
        kubernetes=kubernetes,
        pubsub=pubsub,
        operations_topic=operations_topic,
        faults=faults,
        answers=answers,
        ports_file=ports_file,
        manual_clock=manual_clock,
        machines_everywhere=machines_everywhere,
    )
    try:
        silence_cancelled_connects()
        asyncio.run(serve(settings))
    except (BadSettings, PortTaken, NotWritten) as error:
        refuse(error)


@fault_app.command("add")
def add_fault(
    url: Url,
    switch: Annotated[str, typer.Argument(help="Which switch; `fault switches` lists them.")],
    pool: Annotated[str, typer.Option(help="Glob of pool names.")] = "*",
    method: Annotated[str | None, typer.Option(help="Glob of RPC names, for example 'Create*'.")] = None,
    nth: Annotated[int, typer.Option(help="Fire from the nth match on.")] = 1,
    count: Annotated[int | None, typer.Option(help="Fire at most so often; default: as the switch says.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="field=value of the switch, repeatable.")
    ] = None,
) -> None:
    """Put a fault in force, for example.

    Fault add outcome --pool 'a-*' --set kind=quota --count 1.
    """
    fault: dict[str, Any] = {"switch": switch, "pool": pool, "nth": nth}
    if method is not None:
        fault["method"] = method
    if count is not None:
        fault["count"] = count
    for pair in setting or []:
        key, equals, value = pair.partition("=")
        if not equals:
            refuse(f"--set {pair!r}: is no setting; valid: field=value")
        try:
            fault[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            refuse(f"--set {pair!r}: the value is not YAML; valid: field=value")
    try:
        parse_fault(fault)
    except ValueError as error:
        refuse(error)
    Console().print_json(json.dumps(_ask(url, "POST", "/admin/faults", fault)))


@fault_app.command("list")
def list_faults(url: Url) -> None:
    """Show the faults in force and how often they matched and fired."""
    rows = _ask(url, "GET", "/admin/faults")["faults"]
    general = {"number", "switch", "pool", "matched", "fired"}
    table = Table("number", "switch", "pool", "matched", "fired", "settings")
    for row in rows:
        rest = {key: value for key, value in row.items() if key not in general and value not in ("*", None)}
        table.add_row(
            str(row["number"]),
            row["switch"],
            row["pool"],
            str(row["matched"]),
            str(row["fired"]),
            json.dumps(rest),
        )
    Console().print(table)


@fault_app.command("clear")
def clear_faults(
    url: Url, number: Annotated[int | None, typer.Argument(help="Which one; default: all.")] = None
) -> None:
    """Remove one fault, or all."""
    query = "" if number is None else f"?number={number}"
    Console().print(f"removed {_ask(url, 'DELETE', f'/admin/faults{query}')['removed']}")


@fault_app.command("switches")
def list_switches() -> None:
    """Show every switch, what it does and its settings."""
    table = Table("switch", "effect", "settings")
    common = set(SWITCHES["stuck_stopping"].__struct_fields__)
    for name, kind in sorted(SWITCHES.items()):
        own = [field for field in kind.__struct_fields__ if field not in common]
        table.add_row(name, (kind.__doc__ or "").strip(), ", ".join(own))
    Console().print(table)


@app.command("pools")
def list_pools(url: Url) -> None:
    """Show the node pools."""
    table = Table("cluster", "pool", "status", "machine type", "topology", "nodes", "zones", "message")
    for row in _ask(url, "GET", "/admin/pools")["pools"]:
        table.add_row(
            row["cluster"],
            row["pool"],
            row["status"],
            row["machine_type"],
            row["topology"],
            f"{row['nodes']}/{row['planned_nodes']}",
            " ".join(row["zones"]),
            row["message"],
        )
    Console().print(table)


@app.command("calls")
def list_calls(url: Url, last: Annotated[int, typer.Option(help="How many of the latest calls.")] = 50) -> None:
    """Show the calls that were made, oldest first."""
    table = Table("at", "method", "cluster", "pool", "skin", "code")
    for row in _ask(url, "GET", "/admin/calls")["calls"][-last:]:
        table.add_row(f"{row['at']:.3f}", row["method"], row["cluster"], row["pool"], row["skin"], row["code"])
    Console().print(table)


def _ask(url: str, verb: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    base = url
    try:
        if not url.startswith("http"):
            base = str(json.loads(Path(url).read_text(encoding="utf-8"))["rest"])
        answer = httpx.request(verb, f"{base}{path}", json=body, timeout=10.0)
        payload = dict(answer.json())
    except (OSError, ValueError, KeyError, httpx.HTTPError) as error:
        refuse(
            f"url: {url!r} is no running fake GKE: {_name_cause(error)}; "
            "valid: http://127.0.0.1:PORT or a ports file"
        )
    if answer.is_error:
        refuse(str(payload.get("error", payload)))
    return payload


def _name_cause(error: Exception) -> str:
    return "does not answer" if isinstance(error, httpx.TransportError) else "cannot be read"
