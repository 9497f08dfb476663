"""Command line of the stand-in: `python -m standins.autoscaler --kubeconfig FILE --gke URL`."""

from __future__ import annotations

import asyncio
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import httpx
import typer

from standins.autoscaler.looking import Looking
from standins.autoscaler.model import Autoscaler, Times
from standins.autoscaler.node_groups import NodeGroups
from standins.autoscaler.pods_and_nodes import PodsAndNodes
from standins.processes.ending import note_signals, wait_for_the_end
from standins.processes.journal import write_record
from standins.processes.kubeconfig import KubeconfigError, open_client
from standins.processes.urls import STAND_IN, check_url
from terminal.wrong_arguments import Command, refuse

_TIMEOUT_SECONDS = 30.0
_HEADERS = {"User-Agent": STAND_IN}
_EVERY_SECONDS_MIN = 1.0
"""Real seconds between two loops, however fast the clock is: each loop reads the whole cluster."""
_REAL = Times()

app = typer.Typer(add_completion=False, rich_markup_mode=None)


async def _run(kubeconfig: Path, gke: str, cluster: str, speed: float, times: Times) -> None:
    told = note_signals()
    every = max(_EVERY_SECONDS_MIN, times.loop / speed)
    with (
        open_client(kubeconfig, timeout_seconds=_TIMEOUT_SECONDS) as kubernetes,
        httpx.Client(base_url=gke, timeout=_TIMEOUT_SECONDS, trust_env=False, headers=_HEADERS) as google,
    ):
        looking = Looking(Autoscaler(times), NodeGroups(google, cluster), PodsAndNodes(kubernetes), speed)
        write_record("looking", cluster=cluster, speed=speed)

        async def look_again() -> None:
            while True:
                await asyncio.to_thread(looking.look)
                await asyncio.sleep(every)

        loop = asyncio.create_task(look_again())
        await wait_for_the_end(told, loop)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
    write_record("stopped")


@app.command(cls=Command)
def main(
    *,
    kubeconfig: Annotated[Path, typer.Option(help="How to reach the API server.")],
    gke: Annotated[str, typer.Option(help="Address of GKE and Compute Engine: the fake's.", callback=check_url)],
    cluster: Annotated[str, typer.Option(help="projects/P/locations/L/clusters/C.")],
    speed: Annotated[float, typer.Option(min=0.001, help="Virtual seconds per real second.")] = 30.0,
    loop_seconds: Annotated[float, typer.Option(min=1, help="Virtual seconds between two loops.")] = _REAL.loop,
    backoff_seconds: Annotated[
        float, typer.Option(min=0, help="The first back-off of a group that failed, in virtual seconds.")
    ] = _REAL.backoff_first,
    backoff_seconds_max: Annotated[
        float, typer.Option(min=0, help="The longest back-off; it doubles until then.")
    ] = _REAL.backoff_longest,
    provision_seconds_max: Annotated[
        float, typer.Option(min=0, help="How long nodes may take before they count as failed.")
    ] = _REAL.provision_max,
    unneeded_seconds: Annotated[
        float, typer.Option(min=0, help="How long a node must be unneeded, and since the last growth.")
    ] = _REAL.unneeded,
    scale_ups_max: Annotated[int, typer.Option(min=1, help="How many groups grow in one loop.")] = 1,
) -> None:
    """Let autoscaled node pools grow for pods that wait, and shrink again, until SIGTERM."""
    times = Times(
        loop=loop_seconds,
        backoff_first=backoff_seconds,
        backoff_longest=backoff_seconds_max,
        provision_max=provision_seconds_max,
        unneeded=unneeded_seconds,
        delay_after_add=unneeded_seconds,
        # A loop that waits for a real second stands for the loops that a fast clock leaves out.
        scale_ups_max=scale_ups_max * max(1, round(_EVERY_SECONDS_MIN * speed / loop_seconds)),
    )
    try:
        asyncio.run(_run(kubeconfig, gke, cluster, speed, times))
    except KubeconfigError as error:
        refuse(error)


if __name__ == "__main__":
    app()
