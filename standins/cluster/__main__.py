"""Command line of the embedded cluster: `python -m standins.cluster serve`."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from standins.cluster.api import Api
from standins.cluster.deletion import GarbageCollector, NamespaceController
from standins.cluster.jobs import JobController
from standins.cluster.jobsets import JobSetController
from standins.cluster.kinds import NAMESPACE
from standins.cluster.nodes import NodeController
from standins.cluster.objects import Clock
from standins.cluster.runner import Runner
from standins.cluster.scheduler import Scheduler
from standins.cluster.store import Store
from standins.cluster.writing import Registry
from standins.kit.addresses import NotWritten, PortTaken, check_writable, write_ports, write_private
from standins.kit.http_server import serving
from standins.kit.kubernetes import render_kubeconfig
from standins.kit.lifecycle import log_as_json, note_signals, refuse, wait_for_the_end, write_record

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CONTROLLERS = (NodeController, Scheduler, JobController, JobSetController, GarbageCollector, NamespaceController)
_KEEP_ALIVE_SECONDS = 300

application = typer.Typer(no_args_is_help=True)


@application.callback()
def main() -> None:
    """Run a small Kubernetes in memory: API server, scheduler, Job and JobSet controllers."""


@application.command("serve")
def serve_command(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 0,
    speed: Annotated[
        float, typer.Option(help="Virtual seconds per real second, for TTLs and back-offs.", min=0.001)
    ] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of generated names and UIDs.")] = 1,
    ports_file: Annotated[
        Path | None, typer.Option(help="Write {url} here as JSON once listening.", callback=check_writable)
    ] = None,
    kubeconfig_file: Annotated[
        Path | None, typer.Option(help="Write a kubeconfig here once listening.", callback=check_writable)
    ] = None,
) -> None:
    """Serve the Kubernetes API until SIGTERM.

    Beside the API: POST /admin/disconnect breaks off all watches.
    """
    log_as_json(logging.WARNING)
    registry = Registry(Store(), Clock(speed), seed)
    try:
        asyncio.run(_serve(registry, port, ports_file, kubeconfig_file))
    except (PortTaken, NotWritten) as error:
        refuse(error)


async def _serve(registry: Registry, port: int, ports_file: Path | None, kubeconfig_file: Path | None) -> None:
    told = note_signals()
    runner = Runner(registry, [controller(registry) for controller in _CONTROLLERS])
    for name in _NAMESPACES:
        registry.create(NAMESPACE, {"metadata": {"name": name}})
    api = Api(registry)
    controllers = asyncio.create_task(runner.run(), name="controllers")
    try:
        async with serving(
            api.application(), port, keep_alive_seconds=_KEEP_ALIVE_SECONDS, before_end=api.end_watches
        ) as http:
            if kubeconfig_file is not None:
                write_private(kubeconfig_file, render_kubeconfig(http.url))
            write_ports(ports_file, {"url": http.url})
            write_record("listening", url=http.url, speed=registry.clock.speed)
            await wait_for_the_end(told, http.task, controllers)
    finally:
        controllers.cancel()
        await asyncio.gather(controllers, return_exceptions=True)
    write_record("stopped")


if __name__ == "__main__":
    application()
