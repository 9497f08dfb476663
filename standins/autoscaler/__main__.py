"""Command line of the stand-in: `python -m standins.autoscaler --kubeconfig FILE --gke URL`."""

import asyncio
from pathlib import Path
from typing import Annotated

import httpx
import typer

from standins.autoscaler.model import Autoscaler, Times
from standins.autoscaler.node_groups import Looking, NodeGroups
from standins.kit.addresses import STAND_IN, check_url
from standins.kit.kubernetes import KubeconfigError, open_client
from standins.kit.lifecycle import note_signals, refuse, wait_for_the_end, write_record

_TIMEOUT_SECONDS = 30.0
_HEADERS = {"User-Agent": STAND_IN}
_EVERY_SECONDS_MIN = 1.0
"""Real seconds between two loops, however fast the clock is: each loop reads the whole cluster."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


async def _run(kubeconfig: Path, gke: str, cluster: str, speed: float) -> None:
    told = note_signals()
    loop_seconds = Times().loop
    every = max(_EVERY_SECONDS_MIN, loop_seconds / speed)
    # A loop that waits for a real second stands for the loops that a fast clock leaves out.
    times = Times(scale_ups_max=max(1, round(_EVERY_SECONDS_MIN * speed / loop_seconds)))
    with (
        open_client(kubeconfig, timeout_seconds=_TIMEOUT_SECONDS) as kubernetes,
        httpx.Client(base_url=gke, timeout=_TIMEOUT_SECONDS, trust_env=False, headers=_HEADERS) as google,
    ):
        looking = Looking(Autoscaler(times), NodeGroups(google, cluster), kubernetes, speed)
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


@app.command()
def main(
    *,
    kubeconfig: Annotated[Path, typer.Option(help="How to reach the API server.")],
    gke: Annotated[str, typer.Option(help="Address of GKE and Compute Engine: the fake's.", callback=check_url)],
    cluster: Annotated[str, typer.Option(help="projects/P/locations/L/clusters/C.")],
    speed: Annotated[float, typer.Option(min=0.001, help="Virtual seconds per real second.")] = 30.0,
) -> None:
    """Let autoscaled node pools grow for pods that wait, and shrink again, until SIGTERM."""
    try:
        asyncio.run(_run(kubeconfig, gke, cluster, speed))
    except KubeconfigError as error:
        refuse(error)


if __name__ == "__main__":
    app()
